"""``kseg convert --to parquet --engine spark`` has the rows and types of the local engine."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kseg.cli.main import main
from kseg.errors import DamageError, PathError

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
CLIENTS = TESTDATA / "kafka-4.3.1/clients"
DAMAGED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
pytestmark = pytest.mark.spark


def convert(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["convert", "--to", "parquet", *map(str, arguments)])


def rows_of(path: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The types of the columns, and all rows in order."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, partitioning=None)
    types = {field.name: str(field.type) for field in table.schema if field.name != "headers"}
    return types, sorted(table.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.mark.parametrize("more", [[], ["--isolation", "read_committed", "--codec", "zstd:3"]])
def test_rows_and_types_are_those_of_the_local_engine(spark: Any, tmp_path: Path, more: list[str]) -> None:
    paths = [CLIENTS / "librdkafka-gzip-0", CLIENTS / "librdkafka-txn-0"]
    assert convert(*more, "-o", tmp_path / "local", *paths).exit_code == 0
    done = convert(*more, "--engine", "spark", "-o", tmp_path / "spark", *paths)
    assert done.exit_code == 0, done.output
    assert rows_of(tmp_path / "spark") == rows_of(tmp_path / "local")
    assert len(rows_of(tmp_path / "spark")[1]) > 240
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "spark"]


def test_damage_is_refused_as_by_the_local_engine_and_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    local = convert("-o", tmp_path / "local", DAMAGED)
    done = convert("--engine", "spark", "-o", tmp_path / "spark", DAMAGED)
    assert isinstance(local.exception, DamageError)
    assert isinstance(done.exception, DamageError)
    assert str(done.exception).startswith(f"{DAMAGED}/00000000000000000116.log: position 7129: ")
    assert str(done.exception).endswith("; without --engine spark, --skip-damage goes on without these bytes")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_kept(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    done = convert("--engine", "spark", "-o", tmp_path / "out", CLIENTS / "librdkafka-gzip-0")
    assert isinstance(done.exception, PathError)
    assert "out: exists" in str(done.exception)
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--skip-damage", "-o", "out"], "--skip-damage does not go with --to parquet on Spark"),
        ([], "give -o DIR"),
        (["--codec", "gzip:9", "-o", "out"], "no levels of gzip"),
    ],
)
def test_wrong_usage_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = convert("--engine", "spark", *arguments, CLIENTS / "librdkafka-gzip-0")
    assert reason in f"{done.output}{done.exception}"
    assert list(tmp_path.iterdir()) == []
