"""What the log cleaner waits for, in partitions that a broker wrote."""

from pathlib import Path
from typing import Any

import pytest

from cleaner.partitions import PAIRS, Pair
from kseg.cleaner.active_producers import Producers
from kseg.cleaner.log import read_segments
from kseg.cleaner.ranges import ACTIVE, DAMAGE, LAG, RATIO, TRANSACTION, WATERMARK, Backlog, backlog_of
from kseg.logdir.log_directory import BrokerState

IDEMPOTENT = PAIRS[0]
DAY = 86_400_000


def backlog(partition: Path, damaged: str = "", producers: Producers | None = None, **state: Any) -> Backlog:
    broker = BrokerState(**{"is_compacted": True, **state})
    found = backlog_of(str(partition), broker, IDEMPOTENT.now_ms, damaged, producers)
    assert found is not None
    return found


def codes(found: Backlog) -> list[str]:
    return [stop.code for stop in found.stops]


def test_a_topic_that_is_not_compacted_has_none() -> None:
    for policy in (False, None):
        assert backlog_of(str(IDEMPOTENT.before), BrokerState(is_compacted=policy), IDEMPOTENT.now_ms) is None


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.release}-{pair.name}")
def test_a_log_that_a_broker_cleaned_was_due_and_is_clean(pair: Pair) -> None:
    settings = {"min.cleanable.dirty.ratio": "0"}
    before = backlog(pair.before, cleaner_offset=pair.checkpoint, cleaner_settings=settings)
    assert before.is_due
    assert before.short.startswith("due, dirty ")
    after = backlog(pair.after, cleaner_offset=pair.checkpoint_after, cleaner_settings=settings)
    is_whole = pair.name.endswith("-empty-0")  # the active segment is empty
    assert (after.is_due, after.dirty_bytes, codes(after)) == (False, 0, [] if is_whole else [ACTIVE])
    assert after.short == ("clean" if is_whole else "segment roll")


def test_the_dirty_ratio_is_not_reached() -> None:
    found = backlog(IDEMPOTENT.before, cleaner_settings={"min.cleanable.dirty.ratio": "1"})
    assert (codes(found), found.short) == ([RATIO], "dirty 100% of 100%")


def test_max_compaction_lag() -> None:
    settings = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(400 * DAY)}
    waiting = backlog(IDEMPOTENT.before, cleaner_settings=settings)
    assert (waiting.is_due, codes(waiting)) == (False, [RATIO])
    assert "max.compaction.lag.ms makes it due in " in waiting.stops[0].text
    assert backlog(IDEMPOTENT.before, cleaner_settings=settings | {"max.compaction.lag.ms": "1"}).is_due


def test_min_compaction_lag() -> None:
    found = backlog(IDEMPOTENT.before, cleaner_settings={"min.compaction.lag.ms": str(4000 * DAY)})
    assert (found.is_due, codes(found), found.short) == (False, [LAG], "min.compaction.lag.ms 4000 d 0 h")


def test_offsets_that_are_not_stable() -> None:
    end = 213
    held = backlog(IDEMPOTENT.before, producers=Producers(end, 5))
    assert (codes(held), held.short) == ([TRANSACTION], "open transaction at 5")
    behind = backlog(IDEMPOTENT.before, producers=Producers(end), high_watermark=7)
    assert (codes(behind), behind.short) == ([WATERMARK], "high watermark 7")


def test_damage_stops_a_cleaner() -> None:
    found = backlog(IDEMPOTENT.before, damaged="bad-length in 0.log")
    assert (found.is_due, codes(found), found.short) == (False, [DAMAGE], "uncleanable: bad-length in 0.log")


def test_a_damaged_end_is_told(tmp_path: Path) -> None:
    partition = IDEMPOTENT.copy(tmp_path)
    last = read_segments(str(partition))[-1]
    Path(last.path).write_bytes(b"\1" * 100)
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    found = backlog(partition)
    assert (found.is_due, found.dirty_bytes, codes(found)) == (None, None, [DAMAGE])
    assert last.path in found.as_object()["waitsFor"][0]["message"]
