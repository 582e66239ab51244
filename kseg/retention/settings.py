"""Determines the retention limits of a partition, from the options or the topic's settings, and their source."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.errors import KsegError
from kseg.logdir.known_topics import POLICY
from kseg.logdir.server_properties import ServerProperties
from kseg.retention.selection import Limits
from kseg.segment.files import METADATA_TOPIC

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
