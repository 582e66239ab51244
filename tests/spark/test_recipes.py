"""The examples of kseg-spark-recipes(7) run on files with known answers; those with packages in their own sessions."""

import gzip
import json
import re
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

import kseg
from spark.drivers import RECIPES, ROOT, output_of, session, settings_of, skip_unless_pyspark, started

TESTDATA = ROOT / "testdata"
TIERED = TESTDATA / "remote/both"
NAMES = ("key", "value")
COMMITTED = TESTDATA / "kafka-4.3.1/committed"
EXAMPLES = re.findall(r"^\.Bd -literal\n(.*?)^\.Ed$", RECIPES, re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.spark


def code_of(*parts: str, archive: Path) -> str:
    """The examples that contain one of these texts, in the order of the page."""
    found = [example for example in EXAMPLES if any(part in example for part in parts)]
    assert len(found) == len(parts)
    code = "from pyspark.sql import functions as f\n" + "\n".join(found)
    return code.replace("\\e", "\\").replace("/archive", str(archive))


def run_here(spark: Any, code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"spark": spark}
    exec(compile(code, "kseg-spark-recipes.7", "exec"), names)
    return names


def rows_of(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def write_partition(folder: Path, *records: tuple[bytes, bytes, int]) -> None:
    """Writes key, value and timestamp of records."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with kseg.writer(folder) as log:
        for key, value, timestamp in records:
            log.append(key=key, value=value, timestamp=timestamp)


def test_partitions_with_old_formats_are_found(spark: Any, tmp_path: Path) -> None:
    old = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0"
    shutil.copytree(old, tmp_path / "broker-1/kafka-logs/old-0")
    shutil.copytree(COMMITTED / "orders-0", tmp_path / "broker-2/kafka-logs/orders-0")
    found = run_here(spark, code_of("magic < 2", archive=tmp_path))["old"]
    assert {row[0] for row in rows_of(found, "topic")} == {"old"}
    assert {row[0] for row in rows_of(found, "magic")} == {0, 1}


def test_replicas_that_diverge_are_found(spark: Any, tmp_path: Path) -> None:
    same = [(b"k", b"same", 1000)] * 3
    for broker, last in (("broker-1", b"left"), ("broker-2", b"to the right")):
        logs = tmp_path / broker / "kafka-logs"
        write_partition(logs / "equal-0", *same)
        write_partition(logs / "forked-0", (b"k", last, 1000))
    found = run_here(spark, code_of("magic < 2", "firstOffset", archive=tmp_path))["diverged"]
    assert rows_of(found, "topic", "partition", "firstOffset") == [("forked", 0, 0)]


def test_records_that_were_sent_twice_are_found(spark: Any, tmp_path: Path) -> None:
    for broker in ("broker-1", "broker-2"):
        records = [(b"a", b"1", 1000), (b"a", b"1", 1000), (b"b", b"1", 1000), (b"a", b"1", 2000)]
        write_partition(tmp_path / broker / "kafka-logs/orders-0", *records)
    names = run_here(spark, code_of("copies > 1", archive=tmp_path))
    assert names["once"].count() == 4
    assert rows_of(names["sent_twice"], "key", "copies", "offset") == [(b"a", 2, 0)]


def test_lags_are_those_that_the_broker_tells(spark: Any, tmp_path: Path) -> None:
    shutil.copytree(COMMITTED, tmp_path / "broker-1/kafka-logs", ignore=shutil.ignore_patterns("truth", "*.md"))
    names = run_here(spark, code_of('"commits"', archive=tmp_path))
    truth = map(json.loads, (COMMITTED / "truth/committed-offsets.jsonl").read_text("utf-8").splitlines())
    assert rows_of(names["lags"], "group", "topic", "partition", "offset", "lag") == sorted(
        (row["group"], row["topic"], row["partition"], row["offset"], max(0, row["logEndOffset"] - row["offset"]))
        for row in truth
    )


def test_a_backfill_has_the_committed_records_of_remote_storage_and_the_disk(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    shutil.copytree(TIERED / "remote", tmp_path / "remote")
    shutil.copytree(TIERED / "logs", tmp_path / "broker-1/kafka-logs")
    (tmp_path / "keys").mkdir()
    for key in ("k1", "k2"):
        shutil.copy(TESTDATA / f"remote/keys/{key}-private.pem", tmp_path / f"keys/{key}.pem")
    run_here(spark, code_of("/archive/remote", archive=tmp_path))
    truth = map(json.loads, gzip.decompress((TIERED / "truth/t-txn-0.rc.jsonl.gz").read_bytes()).splitlines())
    found = [(r.offset, r.timestamp, r.key, r.value) for r in kseg.open(tmp_path / "backfilled/t-txn-0").records()]
    assert found == [
        (row["offset"], row["timestamp"], *(None if row[name] is None else b64decode(row[name]) for name in NAMES))
        for row in truth
    ]


def run_with(package: str, code: str, folder: Path) -> list[list[Any]]:
    """Runs code with a package from Maven in a session of its own, and returns its ``rows``."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **settings_of(package, folder),
    }
    code += "\nprint(json.dumps([list(row) for row in rows]))\n"
    return list(output_of(started(folder, session("local[1]", settings) + code), folder))


def test_avro_behind_the_id_of_a_registry_is_decoded(tmp_path: Path) -> None:
    def framed(schema: int, number: int, item: str) -> bytes:
        """A long and a string in Avro's encoding: numbers below 64 are one byte, doubled."""
        return b"\0" + schema.to_bytes(4, "big") + bytes([2 * number, 2 * len(item)]) + item.encode()

    values = [framed(7, 1, "pen"), b"no frame", framed(8, 2, "ink"), framed(7, 3, "nib")]
    write_partition(tmp_path / "orders-0", *((b"k", value, 1000) for value in values))
    code = code_of("from_avro", archive=tmp_path)
    found = run_with(
        "spark-avro", f"{code}rows = orders.orderBy('offset').select('offset', 'order.*').collect()", tmp_path
    )
    assert found == [[0, 1, "pen"], [3, 3, "nib"]]


@pytest.mark.parametrize(
    ("package", "release", "example", "table"),
    [
        ("delta-spark", "4.2", 'format("delta")', "spark.read.format('delta').load('{}/delta/orders')"),
        ("iceberg", "4.1", 'using("iceberg")', "spark.table('lake.kafka.orders')"),
    ],
)
def test_a_table_has_the_archives_records(package: str, release: str, example: str, table: str, tmp_path: Path) -> None:
    skip_unless_pyspark(release)
    write_partition(tmp_path / "orders-0", (b"a", b"1", 1000), (b"b", b"2", 2000))
    shown = table.format(tmp_path)
    code = f"{code_of(example, archive=tmp_path)}rows = {shown}.selectExpr('offset', 'hex(value)').collect()"
    assert sorted(run_with(package, code, tmp_path)) == [[0, "31"], [1, "32"]]
