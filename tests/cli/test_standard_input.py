"""Commands that read lines or tables from standard input wait for bytes that are not written yet."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from cli.command import Kseg
from cli.test_convert_tables import rows
from stores.test_source import slowly_written


def test_a_log_for_symptoms(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"INFO Kafka version: 4.3.1\nFound an orphaned index file /d/t-1/0.index\n"
    kseg("symptoms", "orphaned index")  # imports, for which the writer does not wait
    with slowly_written(log, monkeypatch):
        (found,) = kseg("symptoms", "--format", "json", "-").objects
    assert (found["count"], found["lineNumber"]) == (1, 2)


def arrow_stream() -> bytes:
    table = pa.table({"value": ["b" * 100] * 3})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("form", "data"),
    [("jsonl", b'{"key": "a", "value": "b"}\n' * 3), ("arrow", arrow_stream())],
    ids=["jsonl", "arrow"],
)
def test_records_to_convert(
    form: str, data: bytes, kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kseg("convert", "--from", form, "-o", tmp_path / "none", os.devnull)
    with slowly_written(data, monkeypatch):
        kseg("convert", "--from", form, "-o", tmp_path / "new", "-").expect(0)
    assert len(rows(tmp_path / "new/records-0")) == 3
