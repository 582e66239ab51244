"""Consumer groups of the classic protocol, in memory, and the offsets that real ones have committed.

A group is a state machine: members join until all have, the leader among them assigns partitions, and all are stable
until one joins, changes what it asks for, leaves or is silent for its session timeout. Sources: ClassicGroup and
GroupMetadataManager of Kafka 4.4.0, KIP-345 (static members).
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.node.coordinators import CommittedOffsets, Partition
from kseg.node.log_directory import intact_batches
from kseg.segment.paths import segments_at
from kseg.serving.logs import ServedLog, Steps

NONE, UNKNOWN_MEMBER, ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, INVALID_GROUP, REBALANCE_IN_PROGRESS = (
    0, 25, 22, 23, 24, 27,
)  # fmt: skip
INVALID_SESSION_TIMEOUT, TOO_LARGE_METADATA, GROUP_IS_FULL, FENCED_INSTANCE = 26, 12, 81, 82
"""Kafka's error codes."""
EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"

FIRST_JOIN_SECONDS = 0.2
"""How long a group waits for more members when its first one joins."""
MAX_TIMEOUT_MS = 30 * 60 * 1000
MAX_STATE_BYTES = 32 << 20
"""Of what members ask for and are assigned, and of the offsets that they commit, in all groups together."""
MAX_METADATA_BYTES = 4096
Answer = asyncio.Future[dict[str, Any]]
"""The fields of a response, once the other members have come so far. It holds nothing of the request."""
_ENTRY_BYTES = 500
"""What a member or an offset takes in memory, at most, besides its texts."""


class Commit(NamedTuple):
    """A committed offset; ``topic_id`` None if it is not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: str | None = None
    timestamp: int = -1


def commits_in(logs: Sequence[ServedLog]) -> Steps[dict[str, dict[Partition, list[Commit]]]]:
    """Reads the committed offsets of each group in partitions of __consumer_offsets: several for a topic whose name was
    used again. A segment that cannot be read is left out."""
    found: dict[str, dict[Partition, list[Commit]]] = {}
    for log in logs:
        replay = CommittedOffsets()
        for batch in intact_batches(file for place in log.places for file in segments_at(place)):
            replay.add(batch)
            yield
        for each in replay.found():
            if each["offset"] is not None:
                commit = Commit(each["offset"], -1, each["metadata"], each["topicId"], each["commitTimestamp"] or -1)
                found.setdefault(each["group"], {}).setdefault((each["topic"], each["partition"]), []).append(commit)
        yield
    return found


@dataclass(eq=False)
class GroupMember:
    """A member; bytes are in base64. ``joining`` and ``syncing`` are answered when the group has come so far."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    session_ms: int = 0
    rebalance_ms: int = 0
    protocols: dict[str, str] = field(default_factory=dict)
    assignment: str = ""
    joining: Answer | None = None
    syncing: Answer | None = None
    expiry: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + sum(map(len, self.protocols)) + sum(map(len, self.protocols.values()))

    def end(self, error: int) -> None:
        """Answers what the member waits for with an error, and ends its session."""
        for waiting in (self.joining, self.syncing):
            _answer(waiting, {"errorCode": error, "memberId": self.id})
        if self.expiry is not None:
            self.expiry.cancel()


class Group:
    """One group. Its methods return the fields of responses."""

    def __init__(self, group_id: str) -> None:
        self.id, self.state, self.generation = group_id, EMPTY, 0
        self.protocol_type, self.protocol, self.leader = "", "", ""
        self.members: dict[str, GroupMember] = {}
        self.offsets: dict[Partition, Commit] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + sum(each.size + len(each.assignment) for each in self.members.values())

    def takes(self, values: dict[str, Any], member: GroupMember | None) -> bool:
        """Whether a member that asks for these protocols has one in common with all others."""
        others = [each for each in self.members.values() if each is not member]
        names = [each["name"] for each in values["protocols"]]
        if not names or not values["protocolType"]:
            return False
        if not others:
            return True
        return values["protocolType"] == self.protocol_type and any(
            all(name in each.protocols for each in others) for name in names
        )

    def join(self, member: GroupMember, values: dict[str, Any]) -> Answer:
        """Answers when all members have joined. ``member``: a new one, or one that joins again."""
        protocols = {each["name"]: each["metadata"] for each in values["protocols"]}
        is_same = member.id in self.members and member.protocols == protocols
        member.protocols = protocols
        member.session_ms = values["sessionTimeoutMs"]
        member.rebalance_ms = min(max(values.get("rebalanceTimeoutMs", -1), member.session_ms), MAX_TIMEOUT_MS)
        self.protocol_type = values["protocolType"]
        self.members[member.id] = member
        if is_same and (self.state == COMPLETING or (self.state == STABLE and member.id != self.leader)):
            self.heard(member)
            return _now(self._joined(member))
        _answer(member.joining, {"errorCode": UNKNOWN_MEMBER, "memberId": member.id})
        member.joining = joining = asyncio.get_running_loop().create_future()
        self.heard(member)
        self._rebalance()
        return joining

    def _rebalance(self) -> None:
        """Lets all members join again, unless they are about to."""
        if self.state != PREPARING:
            is_first = self.state == EMPTY
            self.state = PREPARING
            for each in self.members.values():
                _answer(each.syncing, {"errorCode": REBALANCE_IN_PROGRESS})
                each.syncing = None
            longest = max((each.rebalance_ms for each in self.members.values()), default=0) / 1000
            seconds = FIRST_JOIN_SECONDS if is_first else longest
            self._set_timer(seconds)
            if is_first:
                return
        elif self.generation == 0:
            return  # the first timer ends the wait
        if all(each.joining is not None for each in self.members.values()):
            self._set_timer(0)

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._complete_join)

    def _complete_join(self) -> None:
        """Begins a generation with the members that have joined."""
        if self.state != PREPARING:
            return
        for each in [each for each in self.members.values() if each.joining is None]:
            self._drop(each)
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.leader = EMPTY, "", ""
            return
        common = set.intersection(*(set(each.protocols) for each in self.members.values()))
        votes = Counter(next(name for name in each.protocols if name in common) for each in self.members.values())
        self.protocol = votes.most_common(1)[0][0]
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.state = COMPLETING
        for each in self.members.values():
            _answer(each.joining, self._joined(each))
            each.joining = None
            self.heard(each)

    def _joined(self, member: GroupMember) -> dict[str, Any]:
        is_leader = member.id == self.leader
        return {
            "errorCode": NONE, "generationId": self.generation, "protocolType": self.protocol_type,
            "protocolName": self.protocol, "leader": self.leader, "memberId": member.id,
            "members": [
                {"memberId": each.id, "groupInstanceId": each.instance_id, "metadata": each.protocols[self.protocol]}
                for each in self.members.values() if is_leader and self.protocol in each.protocols
            ],
        }  # fmt: skip

    def sync(self, member: GroupMember, values: dict[str, Any]) -> Answer:
        """Answers with the member's assignment, when the leader has made it."""
        if self.state == PREPARING:
            return _now({"errorCode": REBALANCE_IN_PROGRESS})
        if self.state == COMPLETING and member.id == self.leader:
            made = {each["memberId"]: each["assignment"] for each in values["assignments"]}
            self.state = STABLE
            for each in self.members.values():
                each.assignment = made.get(each.id, "")
                _answer(each.syncing, self._assigned(each))
                each.syncing = None
        if self.state == COMPLETING:
            member.syncing = syncing = asyncio.get_running_loop().create_future()
            return syncing
        return _now(self._assigned(member))

    def _assigned(self, member: GroupMember) -> dict[str, Any]:
        return {
            "errorCode": NONE, "protocolType": self.protocol_type, "protocolName": self.protocol,
            "assignment": member.assignment,
        }  # fmt: skip

    def error_of(self, values: dict[str, Any]) -> int:
        """Returns what is wrong with the member and generation that a request names."""
        member, instance = self.members.get(values["memberId"]), values.get("groupInstanceId")
        owner = next((each for each in self.members.values() if instance and each.instance_id == instance), member)
        if owner is not member:
            return FENCED_INSTANCE
        if member is None:
            return UNKNOWN_MEMBER
        given = values.get("generationId", values.get("generationIdOrMemberEpoch"))
        return NONE if given == self.generation else ILLEGAL_GENERATION

    def heard(self, member: GroupMember) -> None:
        """Starts the member's session timeout anew; one that waits for others to join has none."""
        if member.expiry is not None:
            member.expiry.cancel()
        if member.joining is None:
            loop = asyncio.get_running_loop()
            member.expiry = loop.call_later(member.session_ms / 1000, self.leave, member)

    def leave(self, member: GroupMember) -> None:
        """Takes a member out; the others join again."""
        if self.members.get(member.id) is member:
            self._drop(member)
            if self.members:
                self._rebalance()
            else:
                self.state, self.protocol, self.leader = EMPTY, "", ""
                self.generation += 1

    def _drop(self, member: GroupMember) -> None:
        del self.members[member.id]
        member.end(UNKNOWN_MEMBER)

    def replace(self, old: GroupMember, new: GroupMember) -> None:
        """Lets a static member take the place of the one with the same instance id, which is fenced."""
        old.end(FENCED_INSTANCE)
        self.members = {
            new.id if each is old else each.id: new if each is old else each for each in self.members.values()
        }
        new.assignment = old.assignment
        if self.leader == old.id:
            self.leader = new.id


def _now(values: dict[str, Any]) -> Answer:
    """Returns an answer that waits for nobody."""
    found: Answer = asyncio.get_running_loop().create_future()
    found.set_result(values)
    return found


def _answer(waiting: Answer | None, values: dict[str, Any]) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(values)


class GroupCoordinator:
    """All groups. ``stored``: the offsets that real groups have committed, once they are read."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.stored: dict[str, dict[Partition, list[Commit]]] = {}
        self._commit_bytes = 0

    def of(self, group_id: str) -> Group:
        """Returns a group, which is empty if it has neither members nor offsets in memory."""
        return self._groups.get(group_id) or Group(group_id)

    def is_known(self, group_id: str) -> bool:
        return group_id in self._groups or group_id in self.stored

    def states(self) -> Iterator[tuple[str, str, str]]:
        """Yields id, protocol type and state of each group."""
        for group_id in dict.fromkeys([*self._groups, *self.stored]):
            group = self.of(group_id)
            yield group_id, group.protocol_type or "consumer", group.state

    def _is_full(self, more: int) -> bool:
        if self._commit_bytes + sum(group.size for group in self._groups.values()) + more <= MAX_STATE_BYTES:
            return False
        self._groups = {each.id: each for each in self._groups.values() if each.members or each.offsets}
        return self._commit_bytes + sum(group.size for group in self._groups.values()) + more > MAX_STATE_BYTES

    def join(self, values: dict[str, Any], client_id: str, host: str) -> Answer:
        """Answers a request to join."""
        group_id, member_id, instance_id = values["groupId"], values["memberId"], values.get("groupInstanceId")
        refusal = {"memberId": member_id, "generationId": -1, "protocolName": ""}
        if not group_id:
            return _now({**refusal, "errorCode": INVALID_GROUP})
        if not 0 < values["sessionTimeoutMs"] <= MAX_TIMEOUT_MS:
            return _now({**refusal, "errorCode": INVALID_SESSION_TIMEOUT})
        group = self.of(group_id)
        old = next((each for each in group.members.values() if instance_id and each.instance_id == instance_id), None)
        member = group.members.get(member_id)
        if member_id and (member is None or (old is not None and old is not member)):
            return _now({**refusal, "errorCode": UNKNOWN_MEMBER if member is None else FENCED_INSTANCE})
        if not group.takes(values, member or old):
            return _now({**refusal, "errorCode": INCONSISTENT_PROTOCOL})
        asking = GroupMember(f"{(instance_id or client_id)[:200]}-{uuid.uuid4()}", instance_id, client_id, host)
        asking.protocols = {each["name"]: each["metadata"] for each in values["protocols"]}
        if self._is_full(2 * asking.size if member is None else asking.size - member.size):
            return _now({**refusal, "errorCode": GROUP_IS_FULL})
        if member is None:
            member = asking
            if old is not None:
                group.replace(old, member)
                member.protocols = {}
        self._groups[group_id] = group
        return group.join(member, values)

    def sync(self, values: dict[str, Any]) -> Answer:
        """Answers a request for an assignment."""
        group = self.of(values["groupId"])
        if error := group.error_of(values):
            return _now({"errorCode": error})
        if self._is_full(sum(len(each["assignment"]) for each in values["assignments"])):
            return _now({"errorCode": GROUP_IS_FULL})
        member = group.members[values["memberId"]]
        group.heard(member)
        return group.sync(member, values)

    def heartbeat(self, values: dict[str, Any]) -> dict[str, Any]:
        """Answers a sign of life."""
        group = self.of(values["groupId"])
        if error := group.error_of(values):
            return {"errorCode": error}
        group.heard(group.members[values["memberId"]])
        return {"errorCode": REBALANCE_IN_PROGRESS if group.state == PREPARING else NONE}

    def leave(self, values: dict[str, Any]) -> dict[str, Any]:
        """Lets members leave: one by its id, or several by theirs or their instance ids."""
        group = self.of(values["groupId"])
        wanted = values.get("members", [{"memberId": values.get("memberId", ""), "groupInstanceId": None}])
        found = []
        for each in wanted:
            instance_id, member = each["groupInstanceId"], None
            for one in group.members.values():
                is_it = one.instance_id == instance_id if instance_id is not None else one.id == each["memberId"]
                member = one if is_it else member
            if member is not None:
                group.leave(member)
            error = UNKNOWN_MEMBER if member is None else NONE
            found.append({"memberId": each["memberId"], "groupInstanceId": instance_id, "errorCode": error})
        if not group.members and not group.offsets:
            self._groups.pop(group.id, None)
        return {"errorCode": found[0]["errorCode"] if "memberId" in values else NONE, "members": found}

    def commit(self, values: dict[str, Any], commits: dict[Partition, Commit]) -> dict[Partition, int]:
        """Takes offsets. Returns the error code of each."""
        group = self.of(values["groupId"])
        error = NONE
        if values["generationIdOrMemberEpoch"] >= 0 or group.members:  # otherwise a consumer that is in no group
            error = group.error_of(values)
            if not error:
                group.heard(group.members[values["memberId"]])
                error = REBALANCE_IN_PROGRESS if group.state == COMPLETING else NONE
        found = dict.fromkeys(commits, error or (INVALID_GROUP if not values["groupId"] else NONE))
        for place, commit in commits.items():
            size = _ENTRY_BYTES + len(place[0]) + len(commit.metadata or "")
            if found[place]:
                continue
            if len(commit.metadata or "") > MAX_METADATA_BYTES or self._is_full(size):
                found[place] = TOO_LARGE_METADATA
                continue
            group = self._groups.setdefault(group.id, group)
            self._commit_bytes += size if place not in group.offsets else 0
            group.offsets[place] = commit
        return found

    def offsets(self, group_id: str, topic_ids: dict[str, str]) -> dict[Partition, Commit]:
        """Returns the offsets of a group: of those in the files the one of the topic that is there now wins."""
        found = {}
        for place, several in self.stored.get(group_id, {}).items():
            own = topic_ids.get(place[0], "")
            found[place] = max(several, key=lambda each: (each.topic_id == own, each.timestamp))
        return found | self.of(group_id).offsets
