"""Segments, bytes and records before and after retention."""

import pytest

from kseg.releases.release import RetentionRules
from kseg.retention import planner as module
from kseg.retention.partition_plan import KnownOffsets, Limits, Retention, RetentionRequest, retain
from kseg.retention.planner import amounts
from retention.partitions import NOW_MS, RETENTION

DIRECTORY = RETENTION / "before" / "r-time-half-0"


def retained() -> Retention:
    return retain(
        str(DIRECTORY), KnownOffsets(), RetentionRequest(Limits(retention_ms=3_600_000), RetentionRules(), NOW_MS)
    )


def test_what_is_left_is_counted_without_what_is_deleted() -> None:
    found = amounts(retained(), False)
    sizes = [path.stat().st_size for path in sorted(DIRECTORY.glob("*.log"))]
    assert found.segments == (8, 4)
    assert found.sizes == (sum(sizes), sum(sizes[4:]))
    assert found.records == (500, 233)


@pytest.mark.parametrize("is_asked", [False, True])
def test_records_of_a_log_above_the_limit_are_counted_on_request(
    is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention = retained()
    monkeypatch.setattr(module, "UNASKED_BYTES", retention.log.size - 1)
    found = amounts(retention, is_asked)
    assert found.records == ((500, 233) if is_asked else None)
    assert found.segments == (8, 4)
    monkeypatch.setattr(module, "UNASKED_BYTES", retention.log.size)
    assert amounts(retention, False).records == (500, 233)
