"""The range to clean: LogCleanerManager's rules on artificial segments."""

from pathlib import Path
from typing import Any

import pytest

from cleaner.partitions import PAIRS, Pair
from kseg.cleaner import log
from kseg.cleaner.settings import CleanerSettings, settings_for
from kseg.errors import UnsupportedError
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX
from kseg.node.log_directory import BrokerState

SECOND_NS = 1_000_000_000


def segments(*bases: int, size: int = 100) -> list[log.CleanerSegment]:
    """Segments written one second apart, the first at second 0."""
    return [
        log.CleanerSegment(base, i * SECOND_NS, {LOG: ""}, {LOG: size, INDEX: 8, TIME_INDEX: 12})
        for i, base in enumerate(bases)
    ]


def cleanable(
    found: list[log.CleanerSegment], checkpoint: int | None = None, now_ms: int = 0, **more: Any
) -> log.CleanableRange:
    """The range of a log that ends at offset 40; ``stable``: where its first open transaction begins."""
    known = BrokerState(log_start_offset=more.pop("start", 0), cleaner_offset=checkpoint)
    producers = log.Producers(more.pop("end", 40), more.pop("stable", None))
    return log.cleanable_range(found, known, producers, CleanerSettings(now_ms, **more))


@pytest.mark.parametrize(
    ("checkpoint", "start", "dirty", "clean"),
    [
        (None, 0, 300, 0),
        (0, 0, 300, 0),
        (10, 10, 200, 100),
        (15, 15, 200, 200),  # a partly clean segment counts as clean and as dirty
        (30, 30, 0, 300),
        (35, 35, 0, 400),
        (99, 0, 300, 0),  # a checkpoint beyond the log end: the whole log is dirty
    ],
)
def test_the_checkpoint_divides_clean_from_dirty(checkpoint: int | None, start: int, dirty: int, clean: int) -> None:
    found = cleanable(segments(0, 10, 20, 30), checkpoint)
    assert (found.start, found.dirty_bytes, found.clean_bytes) == (start, dirty, clean)
    assert found.end == max(30, found.end)


def test_a_checkpoint_below_the_log_start_is_moved_there() -> None:
    found = cleanable(segments(10, 20, 30), 5, start=12)
    assert (found.start, found.end) == (12, 30)


@pytest.mark.parametrize(("last_stable", "end"), [(40, 30), (30, 30), (29, 20), (20, 20), (15, 10), (0, 0)])
def test_cleaning_stops_before_an_open_transaction(last_stable: int, end: int) -> None:
    found = cleanable(segments(0, 10, 20, 30), stable=last_stable, min_ratio=0.0)
    assert found.end == end
    assert found.is_due == (end > 0)
    assert any(stop.code == log.TRANSACTION for stop in found.stops) == (last_stable < 30)


@pytest.mark.parametrize(("lag_ms", "end"), [(0, 30), (1, 30), (1000, 20), (2000, 10), (9000, 0)])
def test_segments_younger_than_the_lag_are_not_cleaned(lag_ms: int, end: int) -> None:
    found = cleanable(segments(0, 10, 20, 30), now_ms=2001, min_lag_ms=lag_ms)
    assert found.end == end


def test_the_ratio_has_to_be_exceeded() -> None:
    for ratio, is_due in [(0.5, False), (0.49, True)]:
        found = cleanable(segments(0, 10, 20), 10, end=30, min_ratio=ratio)
        assert (found.ratio, found.is_due) == (0.5, is_due)


def test_the_active_segment_is_cleaned_only_on_request() -> None:
    alone = segments(0)
    assert not cleanable(alone).is_due
    found = cleanable(alone, includes_active=True)
    assert (found.is_due, found.end) == (True, 40)


def test_segments_between_begins_with_the_one_that_holds_the_first_offset() -> None:
    found = segments(10, 20, 30)
    for start, end, bases in [(0, 40, [10, 20, 30]), (15, 30, [10, 20]), (20, 21, [20]), (35, 40, [30]), (20, 20, [])]:
        assert [segment.base_offset for segment in log.segments_between(found, start, end)] == bases


@pytest.mark.parametrize(
    ("changed", "groups"),
    [
        ({"segment_bytes": 1000}, [[0, 10, 20, 30]]),
        ({"segment_bytes": 200}, [[0, 10], [20, 30]]),
        ({"segment_bytes": 99}, [[0], [10], [20], [30]]),
        ({"index_bytes": 24}, [[0, 10], [20, 30]]),
    ],
)
def test_neighbours_become_one_while_they_fit(changed: dict[str, int], groups: list[list[int]]) -> None:
    found = log.group_segments(segments(0, 10, 20, 30), 40, CleanerSettings(0, **changed))  # type: ignore[arg-type]
    assert [[segment.base_offset for segment in group] for group in found] == groups


def test_offsets_that_overflow_an_index_start_another_group() -> None:
    far = 1 << 31
    assert len(log.group_segments(segments(0, 10), far, CleanerSettings(0))) == 1
    assert len(log.group_segments(segments(0, 10), far + 1, CleanerSettings(0))) == 2
    assert len(log.group_segments(segments(0, 10, far), far + 5, CleanerSettings(0))) == 2


@pytest.mark.parametrize(
    ("now_ms", "age"),
    [(2000, "1.000 s old"), (1000, "0.000 s old"), (999, "0.001 s in the future"), (0, "1.000 s in the future")],
)
def test_the_age_of_a_segment_that_is_too_recent(now_ms: int, age: str) -> None:
    (stop,) = cleanable(segments(0, 10, 20)[1:], now_ms=now_ms, min_lag_ms=10_000).stops
    assert f"its newest record is {age}, " in stop.text


@pytest.mark.parametrize(("name", "text", "number"), [
    ("delete.retention.ms", " +5 ", 5), ("delete.retention.ms", str(1 << 63), None), ("segment.bytes", "1_000", None),
    ("segment.bytes", str(1 << 31), None), ("min.cleanable.dirty.ratio", " 0.25", 0.25),
    ("min.cleanable.dirty.ratio", "half", None),
])  # fmt: skip
def test_a_setting_of_a_topic_is_read_as_java_reads_it(name: str, text: str, number: float | None) -> None:
    def settings() -> CleanerSettings:
        return settings_for(CleanerSettings(0), {}, lambda each: (text if each == name else None, "topic"))[0]

    if number is None:
        with pytest.raises(UnsupportedError, match=f"{name} is {text!r}, not a number"):
            settings()
    else:
        found = settings()
        assert number in (found.delete_retention_ms, found.segment_bytes, found.min_ratio)


# What the log cleaner waits for, in partitions that a broker wrote.

IDEMPOTENT = PAIRS[0]
DAY = 86_400_000


def backlog(partition: Path, damaged: str = "", producers: log.Producers | None = None, **state: Any) -> log.Backlog:
    broker = BrokerState(**{"is_compacted": True, **state})
    found = log.backlog_of(str(partition), broker, IDEMPOTENT.now_ms, damaged, producers)
    assert found is not None
    return found


def codes(found: log.Backlog) -> list[str]:
    return [stop.code for stop in found.stops]


def test_a_topic_that_is_not_compacted_has_none() -> None:
    for policy in (False, None):
        assert log.backlog_of(str(IDEMPOTENT.before), BrokerState(is_compacted=policy), IDEMPOTENT.now_ms) is None


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.release}-{pair.name}")
def test_a_log_that_a_broker_cleaned_was_due_and_is_clean(pair: Pair) -> None:
    settings = {"min.cleanable.dirty.ratio": "0"}
    before = backlog(pair.before, cleaner_offset=pair.checkpoint, cleaner_settings=settings)
    assert before.is_due
    assert before.short.startswith("due, dirty ")
    after = backlog(pair.after, cleaner_offset=pair.checkpoint_after, cleaner_settings=settings)
    is_whole = pair.name.endswith("-empty-0")  # the active segment is empty
    assert (after.is_due, after.dirty_bytes, codes(after)) == (False, 0, [] if is_whole else [log.ACTIVE])
    assert after.short == ("clean" if is_whole else "segment roll")


RARELY = {"min.cleanable.dirty.ratio": "1"}


@pytest.mark.parametrize(
    ("known", "code", "short"),
    [
        ({"cleaner_settings": RARELY}, log.RATIO, "dirty 100% of 100%"),
        ({"cleaner_settings": {"min.compaction.lag.ms": str(4000 * DAY)}}, log.LAG, "min.compaction.lag.ms 4000 d 0 h"),
        ({"producers": log.Producers(213, 5)}, log.TRANSACTION, "open transaction at 5"),
        ({"producers": log.Producers(213), "high_watermark": 7}, log.WATERMARK, "high watermark 7"),
        ({"damaged": "bad-length in 0.log"}, log.DAMAGE, "uncleanable: bad-length in 0.log"),
    ],
    ids=str,
)
def test_what_a_cleaner_waits_for(known: dict[str, Any], code: str, short: str) -> None:
    found = backlog(IDEMPOTENT.before, **known)
    assert (found.is_due, codes(found), found.short) == (False, [code], short)


def test_max_compaction_lag() -> None:
    waiting = backlog(IDEMPOTENT.before, cleaner_settings=RARELY | {"max.compaction.lag.ms": str(400 * DAY)})
    assert (waiting.is_due, codes(waiting)) == (False, [log.RATIO])
    assert "max.compaction.lag.ms makes it due in " in waiting.stops[0].text
    assert backlog(IDEMPOTENT.before, cleaner_settings=RARELY | {"max.compaction.lag.ms": "1"}).is_due


def test_a_damaged_end_is_told(tmp_path: Path) -> None:
    partition = IDEMPOTENT.copy(tmp_path)
    last = log.read_segments(str(partition))[-1]
    Path(last.path).write_bytes(b"\1" * 100)
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    found = backlog(partition)
    assert (found.is_due, found.dirty_bytes, codes(found)) == (None, None, [log.DAMAGE])
    assert last.path in found.as_object()["waitsFor"][0]["message"]


# The information that the cleaner takes from a segment's side files.

ENTRIES = [(1_790_000_000_000 + 7 * number, 3 * number) for number in range(5000)]


@pytest.mark.parametrize("count", [1, 2, 1365, 1366, 5000])
@pytest.mark.parametrize("unused_bytes", [0, 12 * 100, 10 << 20])
def test_largest_timestamp_is_that_of_the_last_entry_in_use(tmp_path: Path, count: int, unused_bytes: int) -> None:
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(b"".join(time.to_bytes(8, "big") + offset.to_bytes(4, "big") for time, offset in ENTRIES[:count]))
    with open(path, "r+b") as stream:
        stream.truncate(path.stat().st_size + unused_bytes)
    segment = log.CleanerSegment(0, 5_000_000, {LOG: str(tmp_path / "0.log"), TIME_INDEX: str(path)})
    assert segment.largest_timestamp() == ENTRIES[count - 1][0]


@pytest.mark.parametrize(("size", "timestamp_ms"), [(0, 5), (11, 5), (10 << 20, 5), (12, 0)])
def test_an_index_without_an_entry_leaves_the_time_of_the_file(tmp_path: Path, size: int, timestamp_ms: int) -> None:
    """A single entry of zeros is timestamp 0."""
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(bytes(size))
    assert log.CleanerSegment(0, 5_000_000, {TIME_INDEX: str(path)}).largest_timestamp() == timestamp_ms
