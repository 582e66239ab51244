"""Members of groups join, share, leave, are silent and commit, as with a broker."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from kseg.node.coordinators import Partition
from kseg.serving import groups as module
from kseg.serving.groups import Commit, GroupCoordinator

UNKNOWN_MEMBER, ILLEGAL_GENERATION, INCONSISTENT, REBALANCE, FENCED, FULL = 25, 22, 23, 27, 82, 81


def text(data: bytes) -> str:
    return b64encode(data).decode()


def joining(member: str = "", *names: str, instance: str | None = None, session_ms: int = 60_000) -> dict[str, Any]:
    protocols = [{"name": name, "metadata": text(name.encode())} for name in names or ("range",)]
    return {
        "groupId": "g", "memberId": member, "groupInstanceId": instance, "sessionTimeoutMs": session_ms,
        "rebalanceTimeoutMs": session_ms, "protocolType": "consumer", "protocols": protocols,
    }  # fmt: skip


def of(joined: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The fields by which a member names itself."""
    return {"groupId": "g", "generationId": joined["generationId"], "memberId": joined["memberId"], **more}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_JOIN_SECONDS", 0.05)


async def joined(found: GroupCoordinator, *asked: dict[str, Any]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(found.join(each, "client", "/host") for each in asked)))


async def two(found: GroupCoordinator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two members that are stable: the leader first."""
    first, second = sorted(await joined(found, joining(), joining()), key=lambda each: not each["members"])
    shares = [{"memberId": each["memberId"], "assignment": text(each["memberId"].encode())} for each in (first, second)]
    answers = await asyncio.gather(
        found.sync(of(second, assignments=[])), found.sync(of(first, assignments=shares))
    )  # fmt: skip
    assert [each["assignment"] for each in answers] == [shares[1]["assignment"], shares[0]["assignment"]]
    return first, second


@pytest.fixture
def found() -> GroupCoordinator:
    return GroupCoordinator()


def played(scene: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is played on an event loop."""

    @wraps(scene)
    def test(**given: Any) -> None:
        async def play() -> None:
            await asyncio.wait_for(scene(**given), 30)

        asyncio.run(play())

    return test


@played
async def test_a_leader_shares_out_for_all(found: GroupCoordinator) -> None:
    first, second = await two(found)
    assert {each["memberId"] for each in first["members"]} == {first["memberId"], second["memberId"]}
    assert (first["leader"], second["members"]) == (first["memberId"], [])
    assert found.heartbeat(of(first)) == {"errorCode": 0}
    assert list(found.states()) == [("g", "consumer", "Stable")]


@played
async def test_the_protocol_that_all_have_is_taken(found: GroupCoordinator) -> None:
    answers = await joined(found, joining("", "sticky", "range"), joining("", "range", "robin"))
    assert {each["protocolName"] for each in answers} == {"range"}
    (refused,) = await joined(found, joining("", "other"))
    assert refused["errorCode"] == INCONSISTENT


@played
async def test_those_who_stay_share_anew_when_one_leaves(found: GroupCoordinator) -> None:
    first, second = await two(found)
    left = found.leave({"groupId": "g", "members": [{"memberId": second["memberId"], "groupInstanceId": None}]})
    assert (left["errorCode"], left["members"][0]["errorCode"]) == (0, 0)
    assert found.heartbeat(of(first)) == {"errorCode": REBALANCE}
    assert found.heartbeat(of(second)) == {"errorCode": UNKNOWN_MEMBER}
    (again,) = await joined(found, joining(first["memberId"]))
    assert again["generationId"] == first["generationId"] + 1
    assert [each["memberId"] for each in again["members"]] == [first["memberId"]]
    assert found.heartbeat(of(first)) == {"errorCode": ILLEGAL_GENERATION}
    assert found.leave({"groupId": "g", "memberId": first["memberId"]})["errorCode"] == 0
    assert list(found.states()) == []


@played
async def test_one_that_leaves_while_it_joins_is_not_waited_for(found: GroupCoordinator) -> None:
    first, second = await two(found)
    waiting = asyncio.ensure_future(found.join(joining(second["memberId"], "range", "other"), "client", "/host"))
    await asyncio.sleep(0)
    found.leave({"groupId": "g", "memberId": second["memberId"]})
    assert (await waiting)["errorCode"] == UNKNOWN_MEMBER
    (again,) = await joined(found, joining(first["memberId"]))
    assert [each["memberId"] for each in again["members"]] == [first["memberId"]]


@played
async def test_a_silent_member_is_left_out(found: GroupCoordinator) -> None:
    first, second = await joined(found, joining(), joining("", session_ms=100))
    while second["memberId"] in [each.id for each in found.of("g").members.values()]:
        await asyncio.sleep(0.01)
        found.heartbeat(of(first))
    assert found.heartbeat(of(first)) == {"errorCode": REBALANCE}


@played
async def test_a_new_member_lets_all_join_again(found: GroupCoordinator) -> None:
    first, second = await two(found)
    newcomer = asyncio.ensure_future(found.join(joining(), "client", "/host"))
    await asyncio.sleep(0)
    assert found.heartbeat(of(first)) == {"errorCode": REBALANCE}
    assert (await found.sync(of(second, assignments=[])))["errorCode"] == REBALANCE
    answers = await joined(found, *(joining(each["memberId"]) for each in (first, second)))
    assert {each["generationId"] for each in [*answers, await newcomer]} == {first["generationId"] + 1}


@played
async def test_a_member_that_joins_again_unchanged_disturbs_nobody(found: GroupCoordinator) -> None:
    first, second = await two(found)
    (again,) = await joined(found, joining(second["memberId"]))
    assert again["generationId"] == second["generationId"]
    assert found.heartbeat(of(first)) == {"errorCode": 0}


@played
async def test_a_static_member_takes_its_own_place(found: GroupCoordinator) -> None:
    (old,) = await joined(found, joining(instance="one"))
    (new,) = await joined(found, joining(instance="one"))
    assert new["memberId"] != old["memberId"]
    assert [each["groupInstanceId"] for each in new["members"]] == ["one"]
    assert found.heartbeat(of(old, groupInstanceId="one"))["errorCode"] == FENCED
    leaving = [{"memberId": "", "groupInstanceId": "one"}]
    assert found.leave({"groupId": "g", "members": leaving})["members"][0]["errorCode"] == 0


def committing(place: Partition, offset: int, **more: Any) -> tuple[dict[str, Any], dict[Partition, Commit]]:
    values = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", **more}
    return values, {place: Commit(offset, metadata="m")}


@played
async def test_offsets_are_kept_until_the_end(found: GroupCoordinator) -> None:
    found.stored = {"g": {("t", 0): [Commit(5, topic_id="old"), Commit(3, topic_id="new", timestamp=1)]}}
    assert found.offsets("g", {"t": "old"})["t", 0].offset == 5
    assert found.offsets("g", {})["t", 0].offset == 3
    assert found.commit(*committing(("t", 0), 9)) == {("t", 0): 0}
    (member,) = await joined(found, joining())
    assert found.commit(*committing(("t", 0), 11)) == {("t", 0): UNKNOWN_MEMBER}
    own = {"memberId": member["memberId"], "generationIdOrMemberEpoch": member["generationId"]}
    assert found.commit(*committing(("t", 0), 11, **own)) == {("t", 0): REBALANCE}
    await found.sync(of(member, assignments=[]))
    assert found.commit(*committing(("t", 1), 11, **own)) == {("t", 1): 0}
    assert {place: each.offset for place, each in found.offsets("g", {}).items()} == {("t", 0): 9, ("t", 1): 11}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"memberId": "x"}, UNKNOWN_MEMBER),
        ({"groupId": ""}, 24),
        ({"sessionTimeoutMs": 0}, 26),
        ({"protocols": []}, 23),
    ],
)
@played
async def test_a_join_that_makes_no_sense_is_refused(
    found: GroupCoordinator, change: dict[str, Any], code: int
) -> None:
    (answer,) = await joined(found, joining() | change)
    assert answer["errorCode"] == code
    assert list(found.states()) == []


@played
async def test_groups_take_no_more_memory_than_they_may(
    found: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STATE_BYTES", 3000)
    answers = await joined(found, *(joining() | {"groupId": f"g{n}"} for n in range(5)))
    assert [each["errorCode"] for each in answers].count(FULL) >= 3
    (member,) = found.of("g0").members
    again = joining(member, "range", "a" * 3000) | {"groupId": "g0"}
    assert [each["errorCode"] for each in await joined(found, again)] == [FULL]
    assert set(found.commit(*committing(("t" * 3000, 0), 1)).values()) == {12}
