"""What a fetch gives, against the records that real consumers got of the same logs from their broker."""

import gzip
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import kseg
from api.consumed import CONSUMED, TESTDATA, id_of, partition_of, rows_of
from kseg.api.archives import readable
from kseg.pytest_plugin import KsegLog
from kseg.serving import logs
from kseg.serving.answers import Records
from kseg.serving.catalog import Catalog
from kseg.serving.logs import LATEST, MAX_TIMESTAMP, OUT_OF_RANGE, FetchAnswer, FoundOffset, ServedLog, Steps
from kseg.stores.place import Place
from serving.peer import consumed
from stores.remote.stores import keys

SERVED = [path for path in CONSUMED if "kafka-0.6" not in str(path) and "kafka-0.7" not in str(path)]
CODECS = TESTDATA / "kafka-4.4.0/codecs/codec-mix-1"
DAMAGED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"


def result(steps: Steps[Any]) -> Any:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


def log_of(place: Path, told: list[Any] | None = None, is_deep: bool = False) -> ServedLog:
    """The only partition at a place; ``told`` gets what is told of it."""
    heard = [] if told is None else told
    found = Catalog([str(place)], (), heard.append, lambda _log, what: heard.append(what), is_deep)
    ((_, topic),) = found.topics.items()
    ((_, log),) = topic.logs.items()
    return log


def fetch(log: ServedLog, offset: int, limit: int = 1 << 20, is_committed: bool = False) -> FetchAnswer:
    found = result(log.fetch(offset, limit, is_committed, True))
    assert isinstance(found, FetchAnswer)
    return found


def bytes_of(records: Records) -> bytes:
    return b"".join(Path(each.path).read_bytes()[each.position :][: each.size] for each in records.ranges)


def answers(log: ServedLog, limit: int, is_committed: bool) -> Iterator[tuple[int, FetchAnswer]]:
    """What a consumer gets from the log start on, fetch by fetch."""
    offset = result(log.find_offset(-2, is_committed)).offset
    while found := fetch(log, offset, limit, is_committed):
        assert found.error_code == 0
        if not found.records:
            return
        yield offset, found
        items = list(kseg.open([each.path for each in found.records.ranges]))
        ends = [each.position + each.size for each in found.records.ranges]
        offset = next(
            item.next_offset
            for item in reversed(items)
            if isinstance(item, kseg.Batch) and item.file == found.records.ranges[-1].path and item.end == ends[-1]
        )


@pytest.mark.sampled(22)
@pytest.mark.parametrize("limit", [1, 3000, 1 << 20])
@pytest.mark.parametrize("path", SERVED, ids=id_of)
def test_consumers_get_what_they_got_of_the_broker(path: Path, limit: int, tmp_path: Path) -> None:
    for is_committed in (False, True):
        truth = path.with_name("read_committed.jsonl.gz")
        wanted = rows_of(truth if is_committed and truth.exists() else path)
        got = [
            record
            for offset, found in answers(log_of(partition_of(path)), limit, is_committed)
            for record in consumed(bytes_of(found.records), found.aborted or [], offset, tmp_path)
        ]
        assert [(record.offset, record.key, record.value) for record in got] == [
            (row["offset"], row["key"], row["value"]) for row in wanted
        ]


@pytest.mark.parametrize("limit", [1, 2000, 5000])
def test_a_fetch_keeps_to_its_limit_or_gives_one_batch(limit: int) -> None:
    sizes = [len(found.records) for _, found in answers(log_of(CODECS), limit, False)]
    batches = [item.size for item in kseg.open(CODECS) if isinstance(item, kseg.Batch)]
    assert sum(sizes) == sum(batches)
    assert all(size <= limit or size in batches for size in sizes)
    assert not result(log_of(CODECS).fetch(0, 1, False, takes_one=False)).records


def test_what_is_scanned_is_found_at_once_and_without_a_file(kseg_log: KsegLog) -> None:
    """The first step of a fetch is done on the event loop."""
    path = kseg_log.write("big-0", [{"value": os.urandom(50_000)} for _ in range(40)])
    log = log_of(path)
    steps = log.fetch(0, 1 << 20, False, True)
    assert next(steps) is None  # before it opens anything
    found = result(steps)
    assert result(log.fetch(20, 1 << 20, False, True)).records
    next(path.glob("*.log")).unlink()
    with pytest.raises(StopIteration) as end:
        next(log.fetch(0, 1 << 20, False, True))
    assert end.value.value.records.ranges == found.records.ranges
    assert (1 << 20) * 3 / 4 <= len(found.records) <= 1 << 20


def test_a_fetch_does_not_begin_with_a_wait_for_the_scan_of_another() -> None:
    is_scanning, may_end, told = threading.Event(), threading.Event(), MagicMock()
    told.append.side_effect = lambda _: (is_scanning.set(), may_end.wait(60))
    log = log_of(DAMAGED, told)
    other = threading.Thread(target=result, args=(log.complete(),))
    other.start()
    assert is_scanning.wait(60)
    steps = log.fetch(116, 1 << 20, False, True)
    assert next(steps) is None
    may_end.set()
    assert result(steps).records
    other.join()


def test_a_fetch_within_a_log_begins_with_the_batch_of_the_offset() -> None:
    log, batches = log_of(CODECS), [item for item in kseg.open(CODECS) if isinstance(item, kseg.Batch)]
    for batch in batches:
        for offset in {batch.base_offset or 0, batch.last_offset}:
            assert fetch(log, offset, 1).records.ranges == [(batch.file, batch.position, batch.size)]


@pytest.mark.parametrize("path", [path for path in SERVED if "codec" in str(path)], ids=id_of)
def test_a_time_finds_the_first_record_that_is_not_older(path: Path) -> None:
    log, rows = log_of(partition_of(path)), [row for row in rows_of(path) if row["timestamp"] is not None]
    stamps = sorted({row["timestamp"] for row in rows})
    for wanted in {*stamps[:3], *stamps[-3:], *(stamp + 1 for stamp in stamps[::7])}:
        first = next((row for row in rows if row["timestamp"] >= wanted), None)
        found = result(log.find_offset(wanted, False))
        assert found == (FoundOffset() if first is None else (first["timestamp"], first["offset"]))
    if stamps:
        assert result(log.find_offset(MAX_TIMESTAMP, False)).timestamp == stamps[-1]


def test_an_open_transaction_holds_back_what_is_committed(tmp_path: Path) -> None:
    """The last marker is lost: its transaction never ends."""
    shutil.copytree(TXN, tmp_path / "txn-0")
    log = max((tmp_path / "txn-0").glob("*.log"))
    marker = [item for item in kseg.open(log) if isinstance(item, kseg.Batch) and item.is_control][-1]
    os.truncate(log, marker.position)
    told: list[Any] = []
    served = log_of(tmp_path / "txn-0", told)
    stable = result(served.find_offset(LATEST, True)).offset
    assert stable < result(served.find_offset(LATEST, False)).offset
    assert told == [f"a transaction is open from offset {stable} on: read_committed consumers stop there"]
    assert not fetch(served, stable, is_committed=True).records


def test_damage_is_a_gap_that_is_told() -> None:
    told: list[Any] = []
    log = log_of(DAMAGED, told)
    intact = [item for item in kseg.open(DAMAGED) if isinstance(item, kseg.Batch) and item.is_valid]
    broken = next(item for item in kseg.open(DAMAGED) if isinstance(item, kseg.Batch) and not item.is_valid)
    got = [found for _, found in answers(log, 1 << 20, False)]
    assert sum(len(found.records) for found in got) == sum(batch.size for batch in intact)
    assert [(each.position, each.code) for each in told] == [(broken.position, "crc-mismatch")]
    assert fetch(log, broken.base_offset or 0, 1).records.ranges[0].position == broken.end


def test_only_a_deep_look_leaves_out_records_that_nobody_can_read() -> None:
    path = TESTDATA / "damaged/4.3.1-crcok-count-plus-1"
    (place,) = (each for each in path.iterdir() if each.is_dir() and each.name != "truth")
    bad = [item for item in kseg.open(place) if isinstance(item, kseg.Batch) and item.check()]
    told: list[Any] = []
    sizes = [
        sum(len(found.records) for _, found in answers(log_of(place, told, deep), 1 << 20, False))
        for deep in (False, True)
    ]
    assert sizes[0] - sizes[1] == sum(batch.size for batch in bad) > 0
    assert {each.position for each in told} == {batch.position for batch in bad}


@pytest.mark.parametrize(
    ("content", "start", "told"),
    [
        ("0\n1\ncodec-mix 1 7\n", 7, 0), ("0\n0\n", 0, 0), ("0\n1\ncodec-mix 1 999\n", 0, 1), ("\0garbage", 0, 1)
    ],
    ids=["an entry", "none", "beyond the end", "not readable"],
)  # fmt: skip
def test_the_log_starts_where_the_checkpoint_says(content: str, start: int, told: int, tmp_path: Path) -> None:
    shutil.copytree(CODECS, tmp_path / "codec-mix-1")
    (tmp_path / "log-start-offset-checkpoint").write_text(content)
    heard: list[Any] = []
    log = log_of(tmp_path / "codec-mix-1", heard)
    assert result(log.find_offset(-2, False)).offset == start
    assert len(heard) == told
    assert fetch(log, start - 1).error_code == OUT_OF_RANGE
    assert fetch(log, start).records


def test_a_start_beyond_all_batches_is_disregarded_even_if_the_last_segment_has_none(tmp_path: Path) -> None:
    source, path = TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path / "dplain-0"
    shutil.copytree(source, path, ignore=shutil.ignore_patterns(f"{0:020}.*"))
    (path / f"{116:020}.log").write_bytes(b"nonsense" * 20)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ndplain 0 999\n")
    log = log_of(path)
    assert [result(log.find_offset(time, False)).offset for time in (LATEST, -2)] == [116, 46]


def test_a_log_is_scanned_only_as_far_as_is_asked_for() -> None:
    log = log_of(TESTDATA / "kafka-0.8.2.2/codecs/compact-0")
    fetch(log, 0, 1)
    seen = log.end
    assert 0 < seen < result(log.find_offset(LATEST, False)).offset


@pytest.mark.parametrize("variant", ["plain", "zstd", "both"])
def test_remote_segments_are_joined_with_local_ones(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_OPEN_SOURCES", 1)
    folder = TESTDATA / "remote" / variant
    (truth,) = (path for path in (folder / "truth").glob("*.ru.jsonl.gz") if "t-int" not in path.name)
    wanted = [json.loads(line)["offset"] for line in gzip.decompress(truth.read_bytes()).splitlines()]
    told: list[Any] = []
    with readable([str(folder / "logs"), str(folder / "remote")], keys()) as places:
        catalog = Catalog(places, ("t-[drt]*",), told.append, lambda _log, what: told.append(what))
        log = catalog.log(truth.name.split(".")[0][:-2], 0)
        assert log is not None
        result(log.complete())
        found = fetch(log, log.log_start, 1 << 30)
        (tmp_path / "all.log").write_bytes(_served_bytes(catalog, found.records))
        remote = [each.path for each in found.records.ranges if Place(each.path).tree is not None]
        assert [*catalog.segments._held] == remote[-1:]  # the last one stays open
        catalog.segments.close()
    got = [
        record.offset
        for batch in kseg.open(tmp_path / "all.log")
        if isinstance(batch, kseg.Batch) and not batch.is_control
        for record in batch
        if record.offset >= log.log_start
    ]
    assert got == wanted
    assert told == []


def _served_bytes(catalog: Catalog, records: Records) -> bytes:
    found = b""
    for each in records.ranges:
        with closing(catalog.segments.open(each.path)) as extent:
            found += extent.pread(each.size, each.position)
    return found
