"""``quorum-state``: a KRaft node's persistent election state, one JSON object (QuorumStateData; FileQuorumStateStore).

Version 0: clusterId, leaderId, leaderEpoch, votedId, appliedOffset, currentVoters. Version 1 (kraft.version 1, 3.9):
leaderId, leaderEpoch, votedId, votedDirectoryId.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kseg.formats.rows import Sliceable
from kseg.sidefiles.clean_shutdown import number, read_object
from kseg.sidefiles.problems import SideFileProblem

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
