"""The range to clean: LogCleanerManager's rules on artificial segments."""

import pytest

from kseg.cleaner.log import CleanerSegment, group_segments, segments_between
from kseg.cleaner.ranges import TRANSACTION, LogLimits, cleanable_range
from kseg.cleaner.settings import CleanerSettings
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX

SECOND_NS = 1_000_000_000


def segments(*bases: int, size: int = 100) -> list[CleanerSegment]:
    """Segments written one second apart, the first at second 0."""
    return [
        CleanerSegment(base, i * SECOND_NS, {LOG: ""}, {LOG: size, INDEX: 8, TIME_INDEX: 12})
        for i, base in enumerate(bases)
    ]


def limits(end: int, last_stable: int | None = None, start: int = 0) -> LogLimits:
    return LogLimits(start, end, end if last_stable is None else last_stable)


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
    found = cleanable_range(segments(0, 10, 20, 30), checkpoint, limits(40), CleanerSettings(0))
    assert (found.start, found.dirty_bytes, found.clean_bytes) == (start, dirty, clean)
    assert found.end == max(30, found.end)


def test_a_checkpoint_below_the_log_start_is_moved_there() -> None:
    found = cleanable_range(segments(10, 20, 30), 5, limits(40, start=12), CleanerSettings(0))
    assert (found.start, found.end) == (12, 30)


@pytest.mark.parametrize(("last_stable", "end"), [(40, 30), (30, 30), (29, 20), (20, 20), (15, 10), (0, 0)])
def test_cleaning_stops_before_an_open_transaction(last_stable: int, end: int) -> None:
    found = cleanable_range(segments(0, 10, 20, 30), None, limits(40, last_stable), CleanerSettings(0, min_ratio=0.0))
    assert found.end == end
    assert found.is_due == (end > 0)
    assert any(stop.code == TRANSACTION for stop in found.stops) == (last_stable < 30)


@pytest.mark.parametrize(("lag_ms", "end"), [(0, 30), (1, 30), (1000, 20), (2000, 10), (9000, 0)])
def test_segments_younger_than_the_lag_are_not_cleaned(lag_ms: int, end: int) -> None:
    found = cleanable_range(segments(0, 10, 20, 30), None, limits(40), CleanerSettings(2001, min_lag_ms=lag_ms))
    assert found.end == end


def test_the_ratio_has_to_be_exceeded() -> None:
    for ratio, is_due in [(0.5, False), (0.49, True)]:
        found = cleanable_range(segments(0, 10, 20), 10, limits(30), CleanerSettings(0, min_ratio=ratio))
        assert (found.ratio, found.is_due) == (0.5, is_due)


def test_the_active_segment_is_cleaned_only_on_request() -> None:
    alone = segments(0)
    assert not cleanable_range(alone, None, limits(40), CleanerSettings(0)).is_due
    found = cleanable_range(alone, None, limits(40), CleanerSettings(0, includes_active=True))
    assert (found.is_due, found.end) == (True, 40)


def test_segments_between_begins_with_the_one_that_holds_the_first_offset() -> None:
    found = segments(10, 20, 30)
    for start, end, bases in [(0, 40, [10, 20, 30]), (15, 30, [10, 20]), (20, 21, [20]), (35, 40, [30]), (20, 20, [])]:
        assert [segment.base_offset for segment in segments_between(found, start, end)] == bases


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
    found = group_segments(segments(0, 10, 20, 30), 40, CleanerSettings(0, **changed))  # type: ignore[arg-type]
    assert [[segment.base_offset for segment in group] for group in found] == groups


def test_offsets_that_overflow_an_index_start_another_group() -> None:
    far = 1 << 31
    assert len(group_segments(segments(0, 10), far, CleanerSettings(0))) == 1
    assert len(group_segments(segments(0, 10), far + 1, CleanerSettings(0))) == 2
    assert len(group_segments(segments(0, 10, far), far + 5, CleanerSettings(0))) == 2


@pytest.mark.parametrize(
    ("now_ms", "age"),
    [(2000, "1.000 s old"), (1000, "0.000 s old"), (999, "0.001 s in the future"), (0, "1.000 s in the future")],
)
def test_the_age_of_a_segment_that_is_too_recent(now_ms: int, age: str) -> None:
    (stop,) = cleanable_range(segments(0, 10, 20)[1:], None, limits(40), CleanerSettings(now_ms, 10_000)).stops
    assert f"its newest record is {age}, " in stop.text
