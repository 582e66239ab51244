"""Selects the segments to delete: UnifiedLog.deletableSegments, from the oldest on, once per rule.

A segment is deleted if the rule holds for it and for all older ones, so a kept segment keeps all younger ones. Segments
that reach the high watermark are kept, and so is an empty last segment. If all are deleted, an empty one is created.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kseg.releases.retention import LOG_START, SIZE, RetentionRules

Predicate = Callable[["AgedSegment", "AgedSegment | None"], bool]


class AgedSegment(NamedTuple):
    """One segment: ``size`` of its .log in bytes, ``largest_ms`` the timestamp that decides its age."""

    base_offset: int
    size: int
    largest_ms: int


@dataclass(frozen=True, slots=True)
class LogState:
    """The broker's state of the log when retention runs; ``spans`` are sorted by base offset."""

    spans: tuple[AgedSegment, ...]
    log_start_offset: int
    high_watermark: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Limits:
    """``deletes``: whether cleanup.policy includes delete; a negative limit means no limit."""

    retention_ms: int = -1
    retention_bytes: int = -1
    deletes: bool = True


@dataclass(frozen=True, slots=True)
class Deletions:
    """``why``: the rule for each deleted segment, oldest first. ``rolls``: all are deleted, so an empty one is
    created."""

    why: tuple[str, ...]
    rolls: bool
    log_start_offset: int


def select_deletions(
    state: LogState, limits: Limits, rules: RetentionRules, now_ms: int, keeps_active: bool = False
) -> Deletions:
    """Applies the rules. ``keeps_active``: the last segment is never deleted."""
    left, why, rolls, log_start = list(state.spans), list[str](), False, state.log_start_offset
    for rule in rules.order:
        if not _applies(rule, limits, rules):
            continue
        predicate = _predicate(rule, left, limits, log_start, now_ms)
        count = _deletable(left, predicate, state, rules)
        if keeps_active and count == len(left):
            count = max(0, count - 1)
        if not count:
            continue
        if count == len(left):
            rolls = True
            left.append(AgedSegment(state.end_offset, 0, now_ms))
        why += [rule] * count
        left = left[count:]
        log_start = max(log_start, left[0].base_offset)
    return Deletions(tuple(why), rolls, log_start)


def _applies(rule: str, limits: Limits, rules: RetentionRules) -> bool:
    if rule == LOG_START:
        return limits.deletes or rules.starts_compacted_logs
    return limits.deletes and (limits.retention_bytes if rule == SIZE else limits.retention_ms) >= 0


def _predicate(rule: str, left: list[AgedSegment], limits: Limits, log_start: int, now_ms: int) -> Predicate:
    if rule == LOG_START:
        return lambda _, following: following is not None and following.base_offset <= log_start
    if rule == SIZE:
        return _TooMuch(sum(span.size for span in left) - limits.retention_bytes)
    return lambda span, _: now_ms - span.largest_ms > limits.retention_ms


class _TooMuch:
    """Holds while the log without the segment still has at least retention.bytes."""

    def __init__(self, excess_bytes: int) -> None:
        self._excess_bytes = excess_bytes

    def __call__(self, span: AgedSegment, _following: AgedSegment | None) -> bool:
        if self._excess_bytes < span.size:
            return False
        self._excess_bytes -= span.size
        return True


def _deletable(left: list[AgedSegment], holds: Predicate, state: LogState, rules: RetentionRules) -> int:
    """Returns the number of segments to delete, from the oldest on."""
    for i, span in enumerate(left):
        following = left[i + 1] if i + 1 < len(left) else None
        upper = following.base_offset if following else state.end_offset
        if rules.has_log_start and state.high_watermark < upper:
            return i
        if not holds(span, following) or (following is None and not span.size):
            return i
    return len(left)
