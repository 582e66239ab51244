"""Side files that hold a single JSON object: ``.kafka_cleanshutdown`` and ``quorum-state``."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kseg.formats.rows import Sliceable
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import text_bytes


def read_object(buffer: Sliceable) -> dict[str, Any] | SideFileProblem:
    """Returns the object, or the problem if the bytes are not a JSON object."""
    import json  # imported late: most runs read no such file

    try:
        found = json.loads(text_bytes(buffer).decode())
    except (ValueError, RecursionError) as error:
        return SideFileProblem("unreadable-json", 0, len(buffer), str(error)[:200])
    if isinstance(found, dict):
        return found
    return SideFileProblem("unreadable-json", 0, len(buffer), f"a {type(found).__name__}, not an object")


def number(found: dict[str, Any], name: str) -> int | None:
    """Returns the integer under that name, or None."""
    value = found.get(name)
    return value if type(value) is int else None


# ``.kafka_cleanshutdown``: the marker file of a cleanly closed log directory (CleanShutdownFileHandler).
#
# Up to 3.6 the file is empty. Since 3.7 it holds ``{"version":0,"brokerEpoch":N}``. If the contents are unreadable, the
# broker loses only the epoch; the shutdown still counts as clean.

VERSION = 0


class CleanShutdown(NamedTuple):
    """The contents of the file; both fields are None if it is empty."""

    version: int | None
    broker_epoch: int | None


def read_clean_shutdown(buffer: Sliceable) -> Iterator[CleanShutdown | SideFileProblem]:
    """Yields exactly one entry, whatever the bytes, then the problems."""
    if not len(buffer):
        yield CleanShutdown(None, None)
        return
    found = read_object(buffer)
    if isinstance(found, SideFileProblem):
        yield CleanShutdown(None, None)
        yield found
        return
    entry = CleanShutdown(number(found, "version"), number(found, "brokerEpoch"))
    yield entry
    if entry.version != VERSION:
        yield SideFileProblem("unknown-version", 0, len(buffer), f"version {found.get('version')!r} is not {VERSION}")
    if entry.broker_epoch is None:
        yield SideFileProblem("missing-field", 0, len(buffer), "brokerEpoch is missing or not a number")


# ``quorum-state``: a KRaft node's persistent election state, one JSON object (QuorumStateData; FileQuorumStateStore).
#
# Version 0: clusterId, leaderId, leaderEpoch, votedId, appliedOffset, currentVoters. Version 1 (kraft.version 1,
# 3.9): leaderId, leaderEpoch, votedId, votedDirectoryId.

_FIELDS = {
    0: {"cluster_id", "leader_id", "leader_epoch", "voted_id", "applied_offset", "current_voters"},
    1: {"leader_id", "leader_epoch", "voted_id", "voted_directory_id"},
}
_NULLABLE = {"current_voters"}


class QuorumState(NamedTuple):
    """None for a missing field. ``current_voters`` are node ids; a ``leader_id`` of -1 means no leader."""

    data_version: int | None
    cluster_id: str | None
    leader_id: int | None
    leader_epoch: int | None
    voted_id: int | None
    voted_directory_id: str | None
    applied_offset: int | None
    current_voters: list[int] | None

    def foreign_fields(self) -> set[str]:
        """Names of missing fields that this version does not define."""
        own = {"data_version"} | _FIELDS.get(-1 if self.data_version is None else self.data_version, set(self._fields))
        return {name for name in self._fields if name not in own and getattr(self, name) is None}


def read_quorum_state(buffer: Sliceable) -> Iterator[QuorumState | SideFileProblem]:
    """Yields the one entry, then the problems."""
    found = read_object(buffer)
    if isinstance(found, SideFileProblem):
        yield found
        return
    entry = QuorumState(
        number(found, "data_version"), _text(found, "clusterId"), number(found, "leaderId"),
        number(found, "leaderEpoch"), number(found, "votedId"), _text(found, "votedDirectoryId"),
        number(found, "appliedOffset"), _voters(found),
    )  # fmt: skip
    yield entry
    if entry.data_version not in _FIELDS:
        message = f"data_version {found.get('data_version')!r} is neither 0 nor 1"
        yield SideFileProblem("unknown-version", 0, len(buffer), message[:200])
        return
    for name in sorted(_FIELDS[entry.data_version]):
        if name not in _NULLABLE and getattr(entry, name) is None:
            yield SideFileProblem("missing-field", 0, len(buffer), f"{name} is missing or of another type")


def _text(found: dict[str, Any], name: str) -> str | None:
    value = found.get(name)
    return value if isinstance(value, str) else None


def _voters(found: dict[str, Any]) -> list[int] | None:
    voters = found.get("currentVoters")
    if not isinstance(voters, list):
        return None
    ids = [number(voter, "voterId") if isinstance(voter, dict) else None for voter in voters]
    return [voter for voter in ids if voter is not None] if None not in ids else None
