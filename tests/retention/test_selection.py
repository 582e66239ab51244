"""The selection of segments, compared with a model that takes one segment after another from a list."""

from hypothesis import given
from hypothesis import strategies as st

from kseg.releases.release import LOG_START, SIZE, TIME, RetentionRules
from kseg.retention.partition_plan import AgedSegment, Deletions, Limits, LogState, select_deletions

NOW = 1000
RELEASES = ((0, 7), (0, 8, 1), (0, 10, 0), (0, 10, 2), (0, 11), (2, 0), (2, 8), (3, 0), (4, 3))


@st.composite
def logs(draw: st.DrawFn) -> LogState:
    counts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    first, spans = draw(st.integers(0, 3)), []
    base = first
    for i, count in enumerate(counts):
        is_empty = i + 1 == len(counts) and draw(st.booleans())
        spans.append(AgedSegment(base, 0 if is_empty else draw(st.integers(0, 9)), draw(st.integers(0, NOW + 20))))
        base += 0 if is_empty else count
    end = base
    start = draw(st.integers(first, end))
    return LogState(tuple(spans), start, draw(st.integers(start, end)), end)


limits = st.builds(Limits, st.integers(-1, 900), st.integers(-1, 40), st.booleans())


def model(state: LogState, limit: Limits, rules: RetentionRules) -> tuple[list[str], int]:
    """The rules of each release as in its source, one segment at a time."""
    left, why, start = list(state.spans), list[str](), state.log_start_offset
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
        left = left[gone:] or [AgedSegment(state.end_offset, 0, NOW)]
        start = max(start, left[0].base_offset) if gone else start
    return why, start


@given(logs(), limits, st.sampled_from(RELEASES))
def test_it_equals_a_walk_over_the_segments(state: LogState, limit: Limits, release: tuple[int, ...]) -> None:
    rules = RetentionRules(release)
    found = select_deletions(state, limit, rules, NOW)
    assert (list(found.why), found.log_start_offset) == model(state, limit, rules)
    assert found.rolls == (len(found.why) == len(state.spans))


@given(logs(), limits)
def test_the_active_segment_is_kept_where_that_is_asked_for(state: LogState, limit: Limits) -> None:
    free = select_deletions(state, limit, RetentionRules(), NOW)
    kept = select_deletions(state, limit, RetentionRules(), NOW, keeps_active=True)
    assert kept.why == free.why[: len(state.spans) - 1]
    assert not kept.rolls


@given(logs(), limits)
def test_a_second_run_finds_nothing(state: LogState, limit: Limits) -> None:
    found = select_deletions(state, limit, RetentionRules(), NOW)
    left = state.spans[len(found.why) :] or (AgedSegment(state.end_offset, 0, NOW),)
    assert not select_deletions(
        LogState(left, found.log_start_offset, state.high_watermark, state.end_offset), limit, RetentionRules(), NOW
    ).why


def three(sizes: tuple[int, ...] = (10, 10, 10), times: tuple[int, ...] = (1, 2, 3), start: int = 0) -> LogState:
    spans = tuple(AgedSegment(100 * i, size, time) for i, (size, time) in enumerate(zip(sizes, times, strict=True)))
    return LogState(spans, start, 300, 300)


def test_what_is_left_is_never_less_than_the_limit() -> None:
    assert select_deletions(three(), Limits(retention_bytes=20), RetentionRules(), NOW).why == (SIZE,)
    assert select_deletions(three(), Limits(retention_bytes=21), RetentionRules(), NOW).why == ()
    assert select_deletions(three(), Limits(retention_bytes=0), RetentionRules(), NOW) == Deletions(
        (SIZE,) * 3, True, 300
    )
    assert select_deletions(three((0, 10, 10)), Limits(retention_bytes=20), RetentionRules(), NOW).why == (SIZE,)
    assert select_deletions(three((0, 10, 10)), Limits(retention_bytes=21), RetentionRules(), NOW).why == ()


def test_a_segment_is_deleted_only_once_it_is_older_than_the_limit() -> None:
    assert select_deletions(three(), Limits(retention_ms=NOW - 2), RetentionRules(), NOW).why == (TIME,)
    assert select_deletions(three(), Limits(retention_ms=NOW - 1), RetentionRules(), NOW).why == ()


def test_a_time_in_the_future_shields_all_that_is_later() -> None:
    assert select_deletions(three(times=(1, NOW + 1, 3)), Limits(retention_ms=0), RetentionRules(), NOW).why == (TIME,)


def test_a_compacted_log_loses_only_segments_below_its_start() -> None:
    limit = Limits(retention_ms=0, retention_bytes=0, deletes=False)
    assert select_deletions(three(start=150), limit, RetentionRules(), NOW) == Deletions((LOG_START,), False, 150)
    assert select_deletions(three(start=150), limit, RetentionRules((2, 0)), NOW).why == ()


def test_the_order_of_the_rules_is_that_of_the_release() -> None:
    limit = Limits(retention_ms=NOW - 2, retention_bytes=5)
    assert select_deletions(three(start=100), limit, RetentionRules(), NOW).why == (LOG_START, SIZE)
    assert select_deletions(three(start=100), limit, RetentionRules((2, 8)), NOW).why == (TIME, SIZE)
