"""Why a segment stays: the clock's limits to the millisecond."""

import pytest

from kseg.releases.retention import RetentionRules
from kseg.retention.explanation import explain, first_in_future
from kseg.retention.partition_plan import Known, Request, Retention, retain
from kseg.retention.selection import Limits
from retention.partitions import NOW_MS, RETENTION

DIRECTORY = str(RETENTION / "before" / "r-time-half-0")
HOUR_MS = 3_600_000


def retained(now_ms: int) -> tuple[Retention, Request]:
    request = Request(Limits(retention_ms=HOUR_MS), RetentionRules(), now_ms)
    return retain(DIRECTORY, Known(), request), request


@pytest.mark.parametrize(("late_ms", "is_future"), [(0, False), (-1, True)])
def test_a_time_lies_in_the_future_only_after_now(late_ms: int, is_future: bool) -> None:
    newest = max(segment.largest.timestamp for segment in retained(NOW_MS)[0].log.segments)
    found, request = retained(newest + late_ms)
    verdicts = {verdict.segment.largest.timestamp: verdict for verdict in explain(found, request)}
    assert verdicts[newest].is_future is is_future
    future = first_in_future(found, request)
    assert (future is not None) is is_future


def test_a_segment_goes_one_millisecond_after_its_time() -> None:
    found, request = retained(NOW_MS)
    kept = next(verdict for verdict in explain(found, request) if not verdict.rule)
    assert kept.goes_at_ms is not None
    assert kept.goes_at_ms > NOW_MS
    gone = len(found.selection.why)
    for now_ms, count in ((kept.goes_at_ms - 1, gone), (kept.goes_at_ms, gone + 1)):
        assert len(retained(now_ms)[0].selection.why) == count
