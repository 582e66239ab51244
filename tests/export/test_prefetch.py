"""Decoding on threads gives the rows and tells the damage of decoding on one, in order, and ends with the reader."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from export.chunk_rows import read_chunks, read_rows, rows_of
from kernel.rendering import batch, record
from kseg.export import prefetch
from kseg.export.chunk import NAMES, Chunks
from kseg.export.decoding import LeftOut
from kseg.export.records import RecordColumns, Wanted
from kseg.formats.compressing import compressor, target_of
from kseg.formats.rows import Scratch
from kseg.segment.files import list_segments, segment_file
from kseg.segment.isolation import Transactions
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
SAMPLES = [
    *sorted(TESTDATA.glob("speed/*.log")),
    *sorted(TESTDATA.glob("kafka-4.3.1/clients/*/*.log")),
    *sorted(TESTDATA.glob("kafka-0.7.2/*/*/*.kafka"))[:4],
    *sorted(TESTDATA.glob("damaged/*/*/*.log")),
]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_rows_and_what_is_left_out(path: Path) -> None:
    told: tuple[list[LeftOut], list[LeftOut]] = ([], [])
    rows = [read_rows(path, left_out=each, jobs=jobs) for each, jobs in zip(told, (1, 3), strict=True)]
    assert rows[0] == rows[1]
    assert told[0] == told[1]


def test_no_aborted_records() -> None:
    partition = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
    files = list_segments(str(partition))
    wanted = Wanted(transactions=Transactions.of_segments(files, Scratch()))
    for file in files:
        assert read_rows(Path(file.path), wanted, jobs=2) == read_rows(Path(file.path), wanted)


def test_chunks_that_are_not_asked_for_are_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much a batch expands to, a thread stops where it holds enough, and the reader goes on from there."""
    monkeypatch.setattr(prefetch, "AHEAD_BYTES", 20_000)
    pack = compressor(target_of(4))
    areas = [pack(b"".join(record(k, value=b"\0" * 1000) for k in range(500))) for _ in range(12)]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch([area], 500 * i, 4, last_delta=499, count=500) for i, area in enumerate(areas)))
    held: list[int] = []
    read_ahead = prefetch._read_ahead

    def counted(items: Any) -> list[Any]:
        found = read_ahead(items)
        held.append(sum(len(list(rows_of(chunk))) for chunk in found if not isinstance(chunk, LeftOut)))
        return found

    monkeypatch.setattr(prefetch, "_read_ahead", counted)
    chunks = read_chunks(path, chunk_bytes=10_000, jobs=2)
    assert [row[0] for chunk in chunks for row in rows_of(chunk)] == list(range(6000))
    assert held
    assert max(held) <= 30


def refuse(left_out: LeftOut) -> None:
    raise InterruptedError(left_out.code)


def ignore(_left_out: LeftOut) -> None:
    """Goes on."""


@pytest.mark.parametrize(("report", "count"), [(refuse, None), (ignore, 1)])
def test_no_thread_is_left(tmp_path: Path, report: Callable[[LeftOut], None], count: int | None) -> None:
    data = bytearray((TESTDATA / "speed/lz4.log").read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    before = threading.active_count()
    with open_source(str(path)) as source:
        reader = SegmentReader(source)
        chunks = iter(RecordColumns(reader, segment_file(str(path)), Chunks(NAMES), report, jobs=2))
        if count is None:
            with pytest.raises(InterruptedError, match="crc-mismatch"):
                list(chunks)
        else:
            next(chunks)
            chunks.close()  # type: ignore[attr-defined]
        assert threading.active_count() == before
