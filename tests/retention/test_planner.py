"""Retention plans: damaged and malformed partitions, and refusals that require recovery first."""

import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kseg.changes.apply import Keeping, apply
from kseg.errors import KsegError
from kseg.node.cluster_metadata import TopicSettings
from kseg.node.log_directory import BrokerState, LogDirectory
from kseg.node.metadata_image import TOPIC_RESOURCE, MetadataImage
from kseg.node.node import Node, Partition
from kseg.releases.release import LOG_START, SIZE, TIME, RetentionRules
from kseg.retention import planner
from kseg.retention.planner import (
    Limits,
    LogState,
    RetainOptions,
    Retention,
    RetentionRequest,
    RetentionSegment,
    deciding_record,
    explain,
    first_in_future,
    limits_of,
    retain,
    select_deletions,
)
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source
from retention.partitions import NOW_MS, RETENTION

# The selection of segments, compared with a model that takes one segment after another from a list.

NOW = 1000
RELEASES = ((0, 7), (0, 8, 1), (0, 10, 0), (0, 10, 2), (0, 11), (2, 0), (2, 8), (3, 0), (4, 3))


SIZES, TIMES_MS = st.sampled_from(range(0, 20, 5)), st.sampled_from(range(0, NOW + 101, 100))
"""Coarse, so that segments often are exactly as old or as large as a limit."""


@st.composite
def logs(draw: st.DrawFn) -> LogState:
    counts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    first, spans = draw(st.integers(0, 3)), []
    base = first
    for i, count in enumerate(counts):
        is_empty = i + 1 == len(counts) and draw(st.booleans())
        spans.append(RetentionSegment(base, 0 if is_empty else draw(SIZES), draw(TIMES_MS)))
        base += 0 if is_empty else count
    end = base
    start = draw(st.integers(first, end))
    return LogState(tuple(spans), start, draw(st.integers(start, end)), end)


limits = st.builds(Limits, TIMES_MS | st.just(-1), st.sampled_from(range(-5, 45, 5)), st.booleans())


def model(state: LogState, limit: Limits, rules: RetentionRules) -> tuple[list[str], int]:
    """The rules of each release as in its source, one segment at a time."""
    left, why, start = list(state.segments), list[str](), state.log_start_offset
    orders = {(0, 7): (TIME, SIZE), (0, 11): (TIME, SIZE, LOG_START), (3, 0): (LOG_START, SIZE, TIME)}
    order = orders[max(since for since in orders if since <= rules.release)]
    for rule in order:
        total = sum(span.size for span in left)
        gone = 0
        while gone < len(left):
            span, rest = left[gone], left[gone + 1 :]
            upper = rest[0].base_offset if rest else state.end_offset
            if rules.release >= (0, 11) and upper > state.high_watermark:
                break
            if not rest and span.size == 0:
                break
            if rule == LOG_START:
                goes = bool(rest) and rest[0].base_offset <= start and (limit.deletes or rules.release >= (2, 1))
            elif rule == SIZE:
                remaining = total - sum(one.size for one in left[: gone + 1])
                goes = limit.deletes and limit.retention_bytes >= 0 and remaining >= limit.retention_bytes
            else:
                goes = limit.deletes and limit.retention_ms >= 0 and NOW - span.largest_ms > limit.retention_ms
            if not goes:
                break
            gone += 1
        why += [rule] * gone
        left = left[gone:] or [RetentionSegment(state.end_offset, 0, NOW)]
        start = max(start, left[0].base_offset) if gone else start
    return why, start


@given(logs(), limits, st.sampled_from(RELEASES))
def test_it_equals_a_walk_over_the_segments(state: LogState, limit: Limits, release: tuple[int, ...]) -> None:
    request = RetentionRequest(limit, RetentionRules(release), NOW)
    why, start = select_deletions(state, request)
    assert (why, start) == model(state, limit, request.rules)
    kept, _ = select_deletions(state, replace(request, keeps_active=True))
    assert kept == why[: len(state.segments) - 1]


TIME_HALF = RETENTION / "before" / "r-time-half-0"
LAST = f"{459:020d}"
HOUR = Limits(retention_ms=3_600_000)
ALL = Limits(retention_ms=0)
LATE_MS = 2 * NOW_MS
UNKNOWN = BrokerState()


def starting(log_start: int | None, watermark: int | None = None) -> BrokerState:
    return BrokerState(log_start_offset=log_start, high_watermark=watermark)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TIME_HALF, tmp_path / TIME_HALF.name))


def planned(
    directory: Path = TIME_HALF, limits: Limits = HOUR, now_ms: int = NOW_MS, known: BrokerState = UNKNOWN, **more: Any
) -> Retention:
    request = RetentionRequest(limits, RetentionRules(), now_ms, **more)
    found = retain(str(directory), known, request)
    assert len(explained(found)) == len(found.log.segments)
    return found


def test_a_damaged_end_must_be_recovered_before_the_last_segment_is_deleted(partition: Path) -> None:
    with (partition / f"{LAST}.log").open("ab") as file:
        file.write(b"\x17" * 100)
    assert planned(partition).plan
    with pytest.raises(KsegError, match=r"not intact at position 15269.*kseg recover first"):
        planned(partition, ALL, LATE_MS)
    assert planned(partition, ALL, LATE_MS, keeps_active=True).plan


def test_an_uncleanly_stopped_log_must_be_recovered_before_the_last_segment_is_deleted(partition: Path) -> None:
    (partition / f"{500:020d}.snapshot").unlink()
    with pytest.raises(KsegError, match="no producer snapshot at the log end"):
        planned(partition, ALL, LATE_MS)
    for path in partition.glob("*.snapshot"):
        path.unlink()
    assert planned(partition, ALL, LATE_MS).rolls  # releases without snapshots


def test_a_log_start_after_the_end_must_be_recovered(partition: Path) -> None:
    with pytest.raises(KsegError, match=r"starts at offset 501.*ends at 500"):
        planned(partition, known=starting(501))


@pytest.mark.parametrize(
    ("name", "size", "told"),
    [
        (f"{LAST}.timeindex", 1 << 31, "2147483648 bytes are too many for a time index; rebuild it with"),
        (f"{0:020d}.timeindex", 1 << 40, "too many for a time index"),
        ("0.log", 0, "not a segment name that brokers use"),
        ("000000000000000000001.log", 0, "not a segment name that brokers use"),
        (f"{0:020d}.log.swap", 0, "kseg recover first"),
    ],
)
def test_files_that_no_broker_leaves_behind_are_refused(partition: Path, name: str, size: int, told: str) -> None:
    (partition / name).touch()
    os.truncate(partition / name, size)
    with pytest.raises(KsegError, match=told):
        planned(partition)


def test_leader_epochs_that_cannot_be_read_are_left_to_be_repaired(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n1\nzero zero\n")
    with pytest.raises(KsegError, match="kseg recover first"):
        planned(partition)
    assert not planned(partition, Limits()).plan


def test_links_are_refused(partition: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    os.rename(partition / f"{0:020d}.log", target)
    os.symlink(target, partition / f"{0:020d}.log")
    with pytest.raises(KsegError, match="regular file"):
        planned(partition)


def test_a_fifo_for_an_index_holds_nobody_up(partition: Path) -> None:
    (partition / f"{0:020d}.timeindex").unlink()
    os.mkfifo(partition / f"{0:020d}.timeindex")
    with pytest.raises(KsegError, match="not a regular file"):
        planned(partition)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_files_give_a_plan_or_an_error(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    partition = Path(shutil.copytree(TIME_HALF, tmp_path_factory.mktemp("hostile") / "orders-0"))
    names = sorted(path.name for path in partition.iterdir())
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)):
        content = bytearray((partition / name).read_bytes())
        kind = data.draw(st.sampled_from(["cut", "flip", "replace", "remove"]))
        if kind == "remove":
            (partition / name).unlink()
            continue
        at = data.draw(st.integers(0, len(content)))
        noise = data.draw(st.binary(max_size=40))
        if kind == "cut":
            content = content[:at]
        elif kind == "flip":
            content[at : at + len(noise)] = noise
        else:
            content = bytearray(noise)
        (partition / name).write_bytes(content)
    offsets = st.none() | st.integers(-2, 600) | st.sampled_from([-(1 << 63), (1 << 63) - 1])
    known = starting(data.draw(offsets), data.draw(offsets))
    limits = Limits(
        data.draw(st.sampled_from([-1, 0, 3_600_000, (1 << 63) - 1])), data.draw(st.sampled_from([-1, 0, 70_000]))
    )
    try:
        found = planned(partition, limits, data.draw(st.sampled_from([0, NOW_MS, LATE_MS])), known)
    except KsegError:
        return
    apply(found.plan, "retain", Keeping(keeps=False))
    logs = sorted(path.name for path in partition.glob("*.log"))
    kept = [segment.file.name for segment in found.log.segments[len(found.why) :]]
    assert logs == (kept or [f"{found.log.end_offset:020d}.log"])
    assert not {path.stem for path in partition.glob("*.index")} - {Path(name).stem for name in (*logs, *names)}


def partition_with(settings: dict[str, str]) -> Partition:
    """A partition whose topic has these settings in the metadata log."""
    image = MetadataImage()
    image.configs[TOPIC_RESOURCE, "orders"] = settings
    image.topic_ids["orders"] = "B" * 22
    node = Node([LogDirectory("logs", frozenset({"meta.properties"}), ("orders-0",))])
    node.topics = TopicSettings(image, "", [])
    return node.partition("logs/orders-0")


def values(limits: Limits) -> tuple[int, int, bool]:
    return limits.retention_ms, limits.retention_bytes, limits.deletes


def test_a_policy_that_nothing_tells_is_asked_for() -> None:
    partition = Node([LogDirectory("logs", frozenset({"meta.properties"}), ("orders-0",))]).partition("logs/orders-0")
    by_age = RetainOptions(retention_ms=1)
    found = limits_of(partition, by_age)
    assert (found.policy, found.sources["cleanup.policy"], found.deletes) == ("unknown", "unknown", False)
    assert "--policy or --topic" in found.refusal
    assert not limits_of(partition, RetainOptions(log_start_offset=1)).refusal
    for decided in (replace(by_age, policy="delete"), replace(by_age, topics=("orders",))):
        assert values(limits_of(partition, decided)) == (1, -1, True)


def test_what_the_cleaner_has_cleaned_is_never_deleted_by_age() -> None:
    directory = LogDirectory("logs", frozenset({"meta.properties"}), ("orders-0",))
    directory.offsets["cleaner-offset-checkpoint"] = {("orders", 0): 5}
    partition = Node([directory]).partition("logs/orders-0")
    for topics in ((), ("orders",)):
        for policy in (None, "delete"):
            found = limits_of(partition, RetainOptions(retention_ms=1, topics=topics, policy=policy))
            assert not found.deletes
    assert limits_of(partition, RetainOptions()).policy == "compact"


def test_an_option_wins_over_the_topic_and_the_topic_over_nothing() -> None:
    told = partition_with({"retention.ms": "1000", "cleanup.policy": " compact , delete "})
    found = limits_of(told, RetainOptions(retention_bytes=7))
    assert values(found) == (1000, 7, True)
    assert found.sources == {"cleanup.policy": "topic", "retention.ms": "topic", "retention.bytes": "option"}
    assert limits_of(told, RetainOptions(policy="compact")).deletes is False
    assert values(limits_of(partition_with({"cleanup.policy": ""}), RetainOptions())) == (-1, -1, False)
    assert limits_of(partition_with({"remote.storage.enable": "true"}), RetainOptions()).refusal


@pytest.mark.parametrize(("text", "limit"), [
    ("+5", 5), ("-1", -1), (" \t7\0", 7), ("007", 7), ("٣", 3), (str((1 << 63) - 1), (1 << 63) - 1),
    (str(1 << 63), None), ("soon", None), ("1_000", None), ("1 000", None), ("\u00a07", None), ("", None),
])  # fmt: skip
def test_a_limit_is_read_as_java_reads_it(text: str, limit: int | None) -> None:
    for name in ("retention.ms", "retention.bytes"):
        partition = partition_with({name: text})
        if limit is None:
            with pytest.raises(KsegError, match="not a number"):
                limits_of(partition, RetainOptions())
        else:
            assert limit in values(limits_of(partition, RetainOptions()))
        assert name != "retention.ms" or partition.state.retention_ms == limit


# Why a segment stays: the clock's limits to the millisecond.

HOUR_MS = 3_600_000


Row = dict[str, Any]


def explained(found: Retention) -> list[Row]:
    return list(explain(found, (None,) * len(found.log.segments)))


FILES = sorted(TIME_HALF.glob("*.log"))
BASES = [int(path.stem) for path in FILES]
END = 500


def last_entry(path: Path) -> tuple[int, int]:
    """Timestamp and offset of the last entry of a segment's time index."""
    data = path.with_suffix(".timeindex").read_bytes()
    entries = [struct.unpack_from(">qI", data, at) for at in range(0, len(data), 12)]
    timestamp, relative = max(entries)
    return timestamp, int(path.stem) + relative


def first_record_at(path: Path, timestamp: int) -> int:
    with open_source(str(path)) as source:
        reader = SegmentReader(source)
        return next(record.offset for batch in reader for record in batch if record.timestamp == timestamp)


TIMES = [last_entry(path)[0] for path in FILES]
RECORDS = [first_record_at(path, time) for path, time in zip(FILES, TIMES, strict=True)]
NOWS = st.sampled_from([NOW_MS, *(time + change for time in TIMES for change in (-1, 0, HOUR_MS, HOUR_MS + 1))])
LOG_BYTES = sum(path.stat().st_size for path in FILES)


@given(
    now_ms=NOWS,
    ms=st.sampled_from([-1, 0, HOUR_MS]),
    size=st.sampled_from([-1, 0, LOG_BYTES - FILES[0].stat().st_size, LOG_BYTES]),
    deletes=st.sampled_from([True, True, False]),
    watermark=st.sampled_from([None, 0, BASES[2], BASES[2] + 1, END - 1, END]),
    keeps_active=st.booleans(),
)
def test_verdicts(now_ms: int, ms: int, size: int, deletes: bool, watermark: int | None, keeps_active: bool) -> None:
    """Those of a log of several segments, of its files alone."""
    limits = Limits(ms, size, deletes)
    found = planned(TIME_HALF, limits, now_ms, starting(None, watermark), keeps_active=keeps_active)
    gone, bytes_to = len(found.why), 0
    left_bytes = sum(path.stat().st_size for path in FILES[gone:])
    for i, (path, row) in enumerate(zip(FILES, explained(found), strict=True)):
        upper, size_bytes = [*BASES, END][i + 1], path.stat().st_size
        expected: Row = {
            "type": "segmentRetention", "file": str(path), "size": size_bytes, "records": None, "baseOffset": BASES[i],
            "lastOffset": upper - 1, "rule": None, "largestTimestamp": TIMES[i], "largestTimestampSource": "timeIndex",
            "recordOffset": RECORDS[i], "isFuture": TIMES[i] > now_ms, "goesAt": None, "goesAfterBytes": None,
            "blockedBy": None, "held": None,
        }  # fmt: skip
        if i < gone:
            expected["rule"] = found.why[i]
        else:
            bytes_to += size_bytes
            if i == len(FILES) - 1 and keeps_active:
                expected["held"] = "keep-active"
            elif watermark is not None and upper > watermark:
                expected["held"] = "high watermark"
            if deletes and ms >= 0:
                newest = max(range(gone, i + 1), key=lambda k: (TIMES[k], k))
                expected["goesAt"] = TIMES[newest] + ms + 1
                expected["blockedBy"] = None if newest == i else FILES[newest].name
            if deletes and size >= 0:
                expected["goesAfterBytes"] = max(0, size + bytes_to - left_bytes)
        assert row == expected
    future = [found.log.segments[i] for i in range(gone, len(FILES)) if TIMES[i] > now_ms]
    assert first_in_future(found) == (future[0] if future and deletes and ms >= 0 else None)


def test_an_empty_last_segment_is_held(partition: Path) -> None:
    (partition / f"{END:020d}.log").write_bytes(b"")
    rows = explained(planned(partition, ALL, LATE_MS))
    assert [row["held"] for row in rows] == [None] * len(FILES) + ["empty"]
    assert [row["rule"] for row in rows] == ["time"] * len(FILES) + [None]
    assert rows[-1]["recordOffset"] is None


def test_the_deciding_record_is_searched_in_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = planned().log.segments[0]
    walked = deciding_record(segment)
    assert walked == RECORDS[0]
    found = []
    for limit in range(12):
        monkeypatch.setattr(planner, "WALK_BATCHES", limit)
        found.append(deciding_record(segment))
    assert found == sorted(found, key=lambda offset: offset is not None)
    assert set(found) <= {None, walked}


@pytest.mark.parametrize("wanted", [END, END + 1])
@pytest.mark.parametrize("watermark", [None, END - 1, END])
def test_a_log_start_above_the_high_watermark_is_refused(wanted: int, watermark: int | None) -> None:
    asked: dict[str, Any] = {"limits": Limits(), "known": starting(None, watermark), "log_start_offset": wanted}
    if wanted <= (END if watermark is None else watermark):
        assert planned(**asked).log.log_start_offset == wanted
        return
    with pytest.raises(KsegError, match="log end, 500" if watermark != END - 1 else "high watermark, 499"):
        planned(**asked)


def test_the_state_of_a_log() -> None:
    for known, start, watermark in [
        (UNKNOWN, 0, END),
        (starting(7, 9), 7, 9),
        (starting(9, 7), 9, 9),
        (starting(-1, END + 1), 0, END),
        (starting(END), END, END),
    ]:
        found = planned(limits=Limits(), known=known).log
        assert (found.log_start_offset, found.high_watermark, found.end_offset) == (start, watermark, END)


def test_a_segment_of_no_offsets_has_no_range(partition: Path) -> None:
    for path in partition.glob(f"{LAST}.*index"):
        path.unlink()
    os.truncate(partition / f"{LAST}.log", 5)
    log = planned(partition, Limits(retention_bytes=6)).log
    assert (log.end_offset, log.damaged_at) == (BASES[-1], 0)


@pytest.mark.parametrize("is_asked", [False, True])
def test_records_of_a_log_above_the_limit_are_counted(is_asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    retention, records = planned(), (END, END - BASES[4])
    monkeypatch.setattr(planner, "UNASKED_BYTES", LOG_BYTES - 1)
    assert retention.records(retention.record_counts(is_asked)) == (records if is_asked else None)
    assert (len(retention.log.segments), len(retention.left)) == (len(FILES), len(FILES) - 4)
    monkeypatch.setattr(planner, "UNASKED_BYTES", LOG_BYTES)
    assert retention.records(retention.record_counts(False)) == records
