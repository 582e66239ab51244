"""The limits of retention, from the options or the topic's settings, and the segments that they delete."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.errors import KsegError
from kseg.logdir.server_properties import ServerProperties
from kseg.logdir.topics import POLICY
from kseg.releases.release import LOG_START, NEWEST, SIZE, RetentionRules
from kseg.segment.files import METADATA_TOPIC

# Selects the segments to delete: UnifiedLog.deletableSegments, from the oldest on, once per rule.
#
# A segment is deleted if the rule holds for it and for all older ones, so a kept segment keeps all younger ones.
# Segments that reach the high watermark are kept, and so is an empty last segment. If all are deleted, an empty one
# is created.

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


RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
TIERED = "remote.storage.enable"
OPTION, TOPIC, SERVER, DEFAULT, UNKNOWN = "option", "topic", "server", "default", "unknown"
_LARGEST = (1 << 63) - 1

Lookup = Callable[[str], str | None]
"""Returns a topic's setting in the cluster metadata, None if it has none."""


class Asked(NamedTuple):
    """The options; None for those not given."""

    retention_ms: int | None = None
    retention_bytes: int | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """The limits. ``refusal``: why the partition is skipped, "" if it is not.

    ``sources``: the source of each setting: OPTION, TOPIC (or the cluster's default), SERVER (the broker's own
    file), DEFAULT (Kafka's), or UNKNOWN, which means no limit because that file may set one.
    """

    limits: Limits
    policy: str = "delete"
    sources: dict[str, str] = field(default_factory=dict)
    refusal: str = ""


def settings_of(
    topic: str | None, lookup: Lookup, asked: Asked, server: ServerProperties | None = None
) -> PartitionLimits:
    """Returns the settings. Raises KsegError for a malformed one."""
    sources: dict[str, str] = {}
    policy, sources[POLICY] = _chosen(POLICY, asked.policy, lookup, server)
    if policy is None:
        policy, sources[POLICY] = "delete", DEFAULT
    found = []
    for name, given in ((RETENTION_MS, asked.retention_ms), (RETENTION_BYTES, asked.retention_bytes)):
        text, sources[name] = _chosen(name, None if given is None else str(given), lookup, server)
        found.append(-1 if text is None else _number(name, text))
    limits = Limits(found[0], found[1], "delete" in [word.strip() for word in policy.split(",")])
    return PartitionLimits(limits, policy, sources, _refusal(topic, lookup))


def _chosen(name: str, given: str | None, lookup: Lookup, server: ServerProperties | None) -> tuple[str | None, str]:
    """Returns a setting and its source."""
    if given is not None:
        return given, OPTION
    if (text := lookup(name)) is not None:
        return text, TOPIC
    if server is None:
        return None, UNKNOWN
    if (text := server.setting(name)) is not None:
        return text, SERVER
    return server.default(name), DEFAULT


def _number(name: str, text: str) -> int:
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or int(digits) > _LARGEST:
        raise KsegError(f"{name} is {text!r}, not a number")
    return int(text)


def _refusal(topic: str | None, lookup: Lookup) -> str:
    if topic == METADATA_TOPIC:
        return "the cluster metadata log is truncated by snapshots, not by retention"
    if (lookup(TIERED) or "").lower() == "true":
        return "its topic is tiered, and the segments in remote storage are unknown"
    return ""


@dataclass(frozen=True, slots=True)
class RetainOptions:
    """The options of `kseg retain`; times in ms, None for an option that is not given.

    ``retention_ms``, ``retention_bytes``: -1 for no limit. ``log_start_offset``: records below it are deleted.
    ``release``: the release of Kafka whose rules apply. ``explains``: each segment is explained, and nothing changes.
    ``counts_records``: the records of the segments are counted.
    """

    retention_ms: int | None = None
    retention_bytes: int | None = None
    policy: str | None = None
    log_start_offset: int | None = None
    topics: tuple[str, ...] = ()
    now_ms: int | None = None
    keeps_active: bool = False
    explains: bool = False
    counts_records: bool = False
    release: tuple[int, ...] = NEWEST
    server: ServerProperties | None = None

    @property
    def asked(self) -> Asked:
        """The settings of topics that options give."""
        return Asked(self.retention_ms, self.retention_bytes, self.policy)
