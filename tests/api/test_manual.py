"""The examples of kseg(3) and kseg-changes(3) run, in order, in a directory with the files that they name."""

import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA, copy_named

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")
pytest.importorskip("polars", reason="polars is not installed")
pytest.importorskip("duckdb", reason="duckdb is not installed")
pytest.importorskip("fastavro", reason="fastavro is not installed")

COMMITTED = TESTDATA / "kafka-4.3.1/committed"
PAGES = [(TESTDATA.parent / "man" / name).read_text("utf-8") for name in ("kseg.3", "kseg-changes.3")]
DESCRIPTIONS = "".join(page.split(".Sh DESCRIPTION", 1)[1] for page in PAGES)
EXAMPLES = re.findall(r"^\.Bd -literal\n(.*?)^\.Ed$", DESCRIPTIONS, re.MULTILINE | re.DOTALL)


def code_of(example: str) -> str:
    example = re.sub(r'"/(archive/kafka-logs|backup/tiered)(?=["/])', r'"\1', example)
    return example.replace("\\e", "\\").replace("\\-", "-")


def test_every_public_name_and_method_is_in_an_example() -> None:
    shown = "\n".join(EXAMPLES)
    names = [f"kseg.{name}" for name in kseg.__all__ if name != "__version__"]
    methods = [f".{name}" for name in re.findall(r"^\.It Fn [A-Z]\w*\.(\w+)", DESCRIPTIONS, re.MULTILINE)]
    assert len(methods) > 8
    assert [name for name in names + methods if not re.search(rf"{re.escape(name)}\b", shown)] == []


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_named(tmp_path)
    shutil.copytree(TESTDATA / "log-directories/4.3.1/logs", tmp_path / "archive/kafka-logs")
    for partition in COMMITTED.glob("*-[0-9]"):
        shutil.copytree(partition, tmp_path / "archive/kafka-logs" / partition.name)
    with kseg.writer(tmp_path / "archive/kafka-logs/_schemas-0") as schemas:
        key = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
        value = {"subject": "orders-value", "version": 1, "id": 1, "schema": '"string"', "deleted": False}
        schemas.append(key=json.dumps(key).encode(), value=json.dumps(value).encode())
    shutil.copytree(TESTDATA / "remote/both/remote", tmp_path / "backup/tiered")
    for key in ("k1", "k2"):
        shutil.copy(TESTDATA / f"remote/keys/{key}-private.pem", tmp_path / f"{key}.pem")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"kseg": kseg}
    assert len(EXAMPLES) > 7
    for example in EXAMPLES:
        if "s3://" not in example:
            exec(compile(code_of(example), "kseg.3", "exec"), names)
    places = ("group", "topic", "partition", "offset", "lag")
    shown = {tuple(row[name] for name in places) for row in names["commits"].to_dicts()}
    truth = map(json.loads, (COMMITTED / "truth/committed-offsets.jsonl").read_text("utf-8").splitlines())
    assert shown == {
        (*(row[name] for name in places[:-1]), max(0, row["logEndOffset"] - row["offset"])) for row in truth
    }
    assert "<table>" in names["html"]
    assert names["exit_status"] == 0


@pytest.mark.slow
def test_the_example_of_an_object_store_runs(tmp_path: Path) -> None:
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("boto3", reason="boto3 is not installed")
    from s3_server import s3_server

    (example,) = (example for example in EXAMPLES if "s3://" in example)
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as made:
        made.add(COMMITTED, "logs")
    with s3_server() as store:
        store.put("kafka-logs.tar.gz", (tmp_path / "logs.tar.gz").read_bytes())
        names: dict[str, Any] = {"kseg": kseg, "print": lambda rows: names.update(rows=rows)}
        exec(compile(code_of(example), "kseg.3", "exec"), names)
        found = {(topic, count, last) for topic, count, last, _ in names["rows"]}
        expected: dict[str, list[int]] = {}
        for record in kseg.open(COMMITTED).records():
            expected.setdefault(str(record.topic), []).append(record.offset)
        assert found == {(topic, len(offsets), max(offsets)) for topic, offsets in expected.items()}
