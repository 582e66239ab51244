"""Segments as a stream, without a session: closed segments, each once, in any number of micro-batches."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from kseg.errors import KsegError
from kseg.spark.source import KsegDataSource
from kseg.spark.streams import KsegStreamReader
from spark.reading import rows_of

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
MANY = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
pytestmark = pytest.mark.spark


def stream_of(path: Path, **options: str) -> KsegStreamReader:
    source = KsegDataSource({"path": str(path)} | options)
    return source.streamReader(schema=source.schema())


def step(reader: KsegStreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for task in reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end))):
        there, part = pickle.loads(pickle.dumps((reader, task)))
        for batch in there.read(part):
            rows += batch.to_pylist()
    return rows


def test_closed_segments_are_read_once(tmp_path: Path) -> None:
    logs = sorted(MANY.glob("*.log"))
    assert len(logs) > 2
    partition = tmp_path / "logs/compact-txn-0"
    partition.mkdir(parents=True)
    reader = stream_of(partition.parent)
    place = reader.initialOffset()
    read: list[dict[str, Any]] = []
    for log in logs:
        shutil.copy(log, partition)
        latest = stream_of(partition.parent, splitBytes="2k").latestOffset()
        read += step(reader, place, latest)
        place = latest
        closed = logs[: logs.index(log)]
        assert read == (rows_of(*closed) if closed else [])
    assert read == rows_of(*logs[:-1])
    assert step(reader, place, reader.latestOffset()) == []
    assert reader.partitions(place, place) == []
    assert step(reader, {}, place) == read


def test_a_new_partition_joins(tmp_path: Path) -> None:
    shutil.copytree(MANY, tmp_path / "a-0")
    reader = stream_of(tmp_path)
    before = reader.latestOffset()
    shutil.copytree(MANY, tmp_path / "b-1")
    rows = step(reader, before, reader.latestOffset())
    assert {row["topic"] for row in rows} == {"b"}


@pytest.mark.parametrize(
    ("options", "said"), [({"mode": "findings"}, "is no stream"), ({"isolation": "read_committed"}, "is for batches")]
)
def test_options_unsupported_by_streams_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(KsegError, match=said):
        stream_of(MANY, **options)
