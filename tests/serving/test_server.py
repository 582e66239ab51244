"""Connections to a server, by a client that speaks the protocol and by others that do not."""

import json
import lzma
import os
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA
from kseg.pytest_plugin import KsegLog
from kseg.serving import connections, groups
from serving.peer import Peer, fetch_of, request

CODECS = TESTDATA / "kafka-4.4.0/codecs/codec-mix-1"
COMMITTED = TESTDATA / "kafka-4.3.1/committed"
NO_TOPIC, UNKNOWN_TOPIC_ID, NO_SESSION, POLICY, DENIED = 3, 100, 70, 44, 31
ZERO_ID = "A" * 22

Serve = Callable[..., "kseg.LogServer"]


@pytest.fixture
def peer(kseg_server: Serve) -> Iterator[Peer]:
    with Peer(kseg_server(COMMITTED)) as found:
        yield found


def records_of(answer: dict[str, Any]) -> bytes:
    from base64 import b64decode

    (topic,) = answer["responses"]
    return b64decode(topic["partitions"][0]["records"] or "")


def test_topics_have_all_partitions_up_to_the_highest(kseg_server: Serve) -> None:
    with Peer(kseg_server(CODECS)) as peer:
        found = peer.ask("Metadata", 9, topics=None)
        (topic,) = found["topics"]
        assert [part["partitionIndex"] for part in topic["partitions"]] == [0, 1]
        assert [(one["nodeId"], one["host"]) for one in found["brokers"]] == [(0, "127.0.0.1")]
        asked = [(0, -1), (0, -2), (0, -3), (0, 5), (1, -1), (2, -1)]
        offsets = [{"partitionIndex": number, "timestamp": time} for number, time in asked]
        found = peer.ask("ListOffsets", 7, replicaId=-1, topics=[{"name": "codec-mix", "partitions": offsets}])
        answers = [(part["errorCode"], part["offset"]) for part in found["topics"][0]["partitions"]]
        # A partition that is not there is like an empty one, which has no record with a newest or any other timestamp.
        assert answers == [(0, 0), (0, 0), (0, -1), (0, -1), (0, 240), (NO_TOPIC, -1)]


def test_topics_are_asked_for_by_name_and_id(peer: Peer) -> None:
    all_topics = {each["name"]: each["topicId"] for each in peer.ask("Metadata", 12, topics=None)["topics"]}
    assert len(set(all_topics.values())) == len(all_topics) > 3
    asked = [{"name": "orders", "topicId": ZERO_ID}, {"name": None, "topicId": all_topics["empty"]}]
    asked += [{"name": "none", "topicId": ZERO_ID}, {"name": None, "topicId": "AQIDBAUGBwgJCgsMDQ4PEA"}]
    found = peer.ask("Metadata", 12, topics=asked)["topics"]
    assert [(each["name"], each["errorCode"]) for each in found] == [
        ("orders", 0), ("empty", 0), ("none", NO_TOPIC), (None, UNKNOWN_TOPIC_ID)
    ]  # fmt: skip
    assert len(peer.ask("Metadata", 0, topics=[])["topics"]) == len(all_topics)
    assert peer.ask("Metadata", 1, topics=[])["topics"] == []


def test_a_copy_of_a_topic_has_an_id_of_its_own(kseg_server: Serve, tmp_path: Path) -> None:
    for name in ("one-0", "two-0"):
        shutil.copytree(COMMITTED / "orders-0", tmp_path / name)
    with Peer(kseg_server(tmp_path)) as peer:
        ids = [each["topicId"] for each in peer.ask("Metadata", 12, topics=None)["topics"]]
    assert len(set(ids)) == 2


def test_partitions_of_a_topic_are_described_in_parts(peer: Peer) -> None:
    asked = {"topics": [{"name": "orders"}, {"name": "empty"}], "responsePartitionLimit": 2, "cursor": None}
    found = peer.ask("DescribeTopicPartitions", 0, **asked)
    assert [(each["name"], len(each["partitions"])) for each in found["topics"]] == [("empty", 1), ("orders", 1)]
    assert found["nextCursor"] == {"topicName": "orders", "partitionIndex": 1}
    everything = peer.ask("DescribeTopicPartitions", 0, **asked | {"topics": [], "responsePartitionLimit": 99})
    all_topics = peer.ask("Metadata", 12, topics=None)["topics"]
    assert [each["name"] for each in everything["topics"]] == sorted(each["name"] for each in all_topics)
    rest = peer.ask("DescribeTopicPartitions", 0, **asked | {"cursor": found["nextCursor"]})
    assert [part["partitionIndex"] for part in rest["topics"][0]["partitions"]] == [1]
    assert rest["nextCursor"] is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["directory", "tar", "tar.xz", "segment.xz"])
def test_bytes_go_out_as_they_lie(form: str, kseg_log: KsegLog, kseg_server: Serve, tmp_path: Path) -> None:
    """Large ranges, by sendfile, and small ones."""
    rows = [{"key": b"k", "value": os.urandom(50_000 if n % 3 else 10)} for n in range(40)]
    path: Path = kseg_log.write("big-0", rows)
    (log,) = path.glob("*.log")
    if form.startswith("tar"):
        path = tmp_path / f"logs.{form}"
        with tarfile.open(path, "w:xz" if form.endswith("xz") else "w") as archive:
            archive.add(kseg_log.path, "kafka-logs")
    elif form == "segment.xz":
        path = tmp_path / "packed" / "big-0" / "00000000000000000000.log.xz"
        path.parent.mkdir(parents=True)
        path.write_bytes(lzma.compress(log.read_bytes()))
    whole = log.read_bytes()
    with Peer(kseg_server(path)) as peer:
        assert records_of(peer.ask("Fetch", 11, **fetch_of("big", 0, 0, limit=1 << 24, maxBytes=1 << 24))) == whole
        found, offset = b"", 0
        while offset < 40:
            piece = records_of(peer.ask("Fetch", 4, **fetch_of("big", 0, offset, limit=120_000)))
            assert len(piece) <= 120_000 or piece.startswith(whole[len(found) :][: len(piece)])
            found += piece
            (tmp_path / "part.log").write_bytes(found)
            *_, last = kseg.open(tmp_path / "part.log")
            assert isinstance(last, kseg.Batch)
            offset = last.next_offset
        assert found == whole


def test_the_offsets_that_groups_have_committed_are_served(peer: Peer) -> None:
    truth = [json.loads(line) for line in (COMMITTED / "truth/committed-offsets.jsonl").read_text().splitlines()]
    groups: dict[str, dict[tuple[str, int], tuple[int, str]]] = {}
    for row in truth:
        groups.setdefault(row["group"], {})[row["topic"], row["partition"]] = row["offset"], row["metadata"]
    listed = peer.ask("ListGroups", 5, statesFilter=[], typesFilter=[])["groups"]
    assert {each["groupId"] for each in listed} == groups.keys()
    for name, wanted in groups.items():
        asked = [{"groupId": name, "memberId": None, "topics": None}]
        (found,) = peer.ask("OffsetFetch", 8, groups=asked, requireStable=True)["groups"]
        assert wanted == {
            (topic["name"], part["partitionIndex"]): (part["committedOffset"], part["metadata"])
            for topic in found["topics"] for part in topic["partitions"]
        }  # fmt: skip
    (group,) = peer.ask("DescribeGroups", 5, groups=["billing"])["groups"]
    assert (group["groupState"], group["protocolType"]) == ("Empty", "consumer")


def test_each_log_directory_has_the_sizes_of_its_own_partitions(kseg_server: Serve) -> None:
    (segment,) = CODECS.glob("*.log")
    with Peer(kseg_server([COMMITTED, segment])) as peer:
        for topics in (None, [{"topic": "codec-mix", "partitions": [0, 1]}]):
            found = peer.ask("DescribeLogDirs", 4, topics=topics)["results"]
            sizes = {each["logDir"]: each["totalBytes"] for each in found}
            assert sizes.keys() == {str(COMMITTED), str(CODECS.parent)}
            assert sizes[str(CODECS.parent)] == segment.stat().st_size
            assert (sizes[str(COMMITTED)] > 0) == (topics is None)


@pytest.mark.parametrize("version", [7, 8, 10])
def test_offsets_of_what_is_not_served_are_left_out(version: int, kseg_server: Serve) -> None:
    """The directory of one broker has offsets for the partitions of all: tools that ask for the ends of these would
    fail at the first that is unknown."""
    with Peer(kseg_server([*COMMITTED.glob("__*"), COMMITTED / "orders-0"])) as peer:
        one = {"groupId": "billing", "memberId": None, "memberEpoch": -1, "topics": None}
        found = peer.ask("OffsetFetch", version, **one, groups=[one], requireStable=True)
        (topic,) = found["topics"] if version < 8 else found["groups"][0]["topics"]
        assert [part["partitionIndex"] for part in topic["partitions"]] == [0]


def test_committed_offsets_are_asked_for_by_topic_id(peer: Peer) -> None:
    """Without the error a client takes a topic that it does not find for one without commits."""
    ids = {each["name"]: each["topicId"] for each in peer.ask("Metadata", 12, topics=None)["topics"]}
    topics = [{"topicId": each, "partitionIndexes": [0]} for each in (ids["orders"], "AQIDBAUGBwgJCgsMDQ4PEA")]
    asked = [{"groupId": "classic-group", "memberId": None, "memberEpoch": -1, "topics": topics}]
    (found,) = peer.ask("OffsetFetch", 10, groups=asked, requireStable=True)["groups"]
    parts = [topic["partitions"][0] for topic in found["topics"]]
    assert [(part["committedOffset"] >= 0, part["errorCode"]) for part in parts] == [
        (True, 0), (False, UNKNOWN_TOPIC_ID)
    ]  # fmt: skip
    part = {"partitionIndex": 0, "committedOffset": 1, "committedLeaderEpoch": -1, "committedMetadata": ""}
    member = {"groupId": "new", "generationIdOrMemberEpoch": -1, "memberId": "", "groupInstanceId": None}
    topics = [{"topicId": topic["topicId"], "partitions": [part]} for topic in topics]
    answered = peer.ask("OffsetCommit", 10, **member, topics=topics)["topics"]
    assert [topic["partitions"][0]["errorCode"] for topic in answered] == [0, UNKNOWN_TOPIC_ID]


_TOPIC = {"name": "orders", "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
_PARTS = [{"name": "orders", "partitions": [{"partitionIndex": 0, "offset": 0}]}]


@pytest.mark.parametrize(
    ("name", "version", "values", "field", "code"),
    [
        ("CreateTopics", 7, {"topics": [_TOPIC]}, "topics", POLICY),
        ("DeleteTopics", 6, {"topics": [{"name": "orders", "topicId": ZERO_ID}]}, "responses", POLICY),
        ("DeleteTopics", 4, {"topicNames": ["orders"]}, "responses", POLICY),
        ("CreatePartitions", 3, {"topics": [{"name": "orders", "count": 9, "assignments": None}]}, "results", POLICY),
        ("DeleteGroups", 2, {"groupsNames": ["billing"]}, "results", POLICY),
        ("IncrementalAlterConfigs", 1, {"resources": [{"resourceType": 2, "resourceName": "orders", "configs": []}]},
         "responses", POLICY),
        ("DeleteRecords", 2, {"topics": _PARTS}, "topics", POLICY),
        ("OffsetDelete", 0, {"groupId": "billing", "topics": _PARTS}, "topics", POLICY),
        ("InitProducerId", 4, {"transactionalId": None, "transactionTimeoutMs": 1}, None, DENIED),
        ("InitProducerId", 4, {"transactionalId": "t", "transactionTimeoutMs": 1}, None, 53),
        ("DescribeAcls", 3, {"resourceTypeFilter": 1, "operation": 1, "permissionType": 1}, None, 54),
        ("Fetch", 12, fetch_of("orders", 0, 0, replicaId=3), None, DENIED),
        ("Fetch", 12, fetch_of("orders", 0, 0, sessionId=77), None, NO_SESSION),
        ("FindCoordinator", 3, {"key": "g", "keyType": 2}, None, 42),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_a_dead_log_cannot_do_is_refused(
    name: str, version: int, values: dict[str, Any], field: str | None, code: int, peer: Peer
) -> None:
    found = peer.ask(name, version, **values)
    if field is not None:
        found = found[field][0]
        found = found["partitions"][0] if "partitions" in found else found
    assert found["errorCode"] == code
    assert code != POLICY or "read-only" in found.get("errorMessage", "read-only")


@pytest.mark.parametrize("version", [3, 9, 12])
def test_producers_are_refused_or_cut_off(version: int, peer: Peer) -> None:
    part = {"name": "orders", "partitionData": [{"index": 0, "records": None}]}
    (topic,) = peer.ask("Produce", version, transactionalId=None, acks=1, timeoutMs=1, topicData=[part])["responses"]
    assert topic["partitionResponses"][0]["errorCode"] == POLICY
    peer.send("Produce", version, transactionalId=None, acks=0, timeoutMs=1, topicData=[part])
    assert peer.is_closed()


def test_an_offset_beyond_the_log_is_out_of_range(peer: Peer) -> None:
    for offset, code in ((21, 0), (22, 1), (-1, 1), (1 << 62, 1)):
        (topic,) = peer.ask("Fetch", 12, **fetch_of("orders", 0, offset))["responses"]
        assert topic["partitions"][0]["errorCode"] == code


def test_a_file_that_becomes_shorter_ends_the_connection(kseg_log: KsegLog, kseg_server: Serve) -> None:
    path = kseg_log.write("cut-0", [{"value": os.urandom(40_000)} for _ in range(10)])
    server = kseg_server(kseg_log.path)
    with Peer(server) as first, Peer(server) as second:
        assert len(records_of(first.ask("Fetch", 11, **fetch_of("cut", 0, 0, limit=1 << 20)))) > 400_000
        os.truncate(next(path.glob("*.log")), 100_000)
        first.send("Fetch", 11, **fetch_of("cut", 0, 0, limit=1 << 20))
        with pytest.raises((EOFError, ConnectionError)):
            first.answer("Fetch", 11)
        assert second.ask("ApiVersions", 0)["errorCode"] == 0


def test_an_unknown_version_of_apiversions_gets_the_list(peer: Peer) -> None:
    peer.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    found = peer.answer("ApiVersions", 0)
    assert found["errorCode"] == 35
    ranges = {each["apiKey"]: (each["minVersion"], each["maxVersion"]) for each in found["apiKeys"]}
    assert (ranges[0], ranges[1]) == ((0, 13), (4, 18))


HOSTILE = {
    "size of 2 GiB": struct.pack(">i", 0x7FFFFFFF), "negative size": struct.pack(">i", -5),
    "http": b"GET / HTTP/1.1\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "unknown request": struct.pack(">ihhih", 10, 999, 0, 7, -1),
    "2^31 topics": struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0x7FFFFFFF), "too large": struct.pack(">i", (4 << 20) + 1),
}  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_nonsense_ends_its_connection_and_no_other(data: bytes, kseg_server: Serve) -> None:
    server = kseg_server(CODECS)
    with Peer(server) as calm, Peer(server) as hostile:
        hostile.socket.sendall(data)
        assert hostile.is_closed()
        assert calm.ask("ApiVersions", 0)["errorCode"] == 0


def test_silent_and_idle_connections_are_closed(kseg_server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.2)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5)
    server = kseg_server(CODECS)
    with Peer(server) as silent, Peer(server) as idle:
        idle.ask("ApiVersions", 0)
        silent.socket.sendall(request("ApiVersions", 0)[:9])
        assert silent.is_closed()
        assert idle.is_closed()


def test_one_that_never_asks_is_closed_before_idle_ones(kseg_server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.2)
    server = kseg_server(CODECS)
    with Peer(server) as idle, Peer(server) as mute:
        idle.ask("ApiVersions", 0)
        assert mute.is_closed()
        assert idle.ask("ApiVersions", 0)["errorCode"] == 0


def test_a_client_that_reads_nothing_holds_up_no_other(kseg_log: KsegLog, kseg_server: Serve) -> None:
    kseg_log.write("big-0", [{"value": os.urandom(500_000)} for _ in range(10)])
    server = kseg_server(kseg_log.path)
    with Peer(server) as greedy, Peer(server) as other:
        for _ in range(20):
            greedy.send("Fetch", 11, **fetch_of("big", 0, 0, limit=0x7FFFFFFF, maxBytes=0x7FFFFFFF))
        assert len(records_of(other.ask("Fetch", 11, **fetch_of("big", 0, 5, limit=1)))) > 500_000


def test_more_connections_than_are_served_are_closed(kseg_server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    server = kseg_server(CODECS)
    with Peer(server) as first, Peer(server) as second:
        for each in (first, second):
            each.ask("ApiVersions", 0)
        with Peer(server) as third:
            assert third.is_closed()
        assert first.ask("ApiVersions", 0)["errorCode"] == 0


def test_a_request_larger_than_all_together_may_be_is_read(kseg_server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LARGE_BYTES", connections.SMALL_BYTES)
    asked = [{"name": f"topic-{n:05}"} for n in range(6000)]
    with Peer(kseg_server(COMMITTED)) as peer:
        for _ in range(2):
            assert {each["errorCode"] for each in peer.ask("Metadata", 4, topics=asked)["topics"]} == {NO_TOPIC}


def test_a_member_that_waits_for_others_holds_up_no_large_request(
    kseg_server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LARGE_BYTES", connections.SMALL_BYTES)
    monkeypatch.setattr(groups, "FIRST_JOIN_SECONDS", 60)
    server = kseg_server(COMMITTED)
    with Peer(server) as member, Peer(server, seconds=5) as other:
        protocols = [{"name": "range", "metadata": "A" * 120_000}]
        member.send(
            "JoinGroup", 5, groupId="g", memberId="", groupInstanceId=None, sessionTimeoutMs=60_000,
            rebalanceTimeoutMs=60_000, protocolType="consumer", protocols=protocols,
        )  # fmt: skip
        while "g" not in [each["groupId"] for each in other.ask("ListGroups", 2)["groups"]]:
            pass
        assert len(other.ask("Metadata", 4, topics=[{"name": f"topic-{n:05}"} for n in range(6000)])["topics"]) == 6000


def test_the_end_comes_at_once_whatever_clients_do(kseg_server: Serve) -> None:
    server = kseg_server(CODECS)
    with Peer(server) as waiting, Peer(server) as idle:
        waiting.send("Fetch", 11, **fetch_of("codec-mix", 1, 240, maxWaitMs=60_000))
        idle.ask("ApiVersions", 0)
        closing = threading.Thread(target=server.close)
        closing.start()
        closing.join(20)
        assert not closing.is_alive()
        assert waiting.is_closed()
    with pytest.raises(ConnectionError):
        socket.create_connection((server.host, server.port))


@pytest.mark.parametrize(
    ("path", "options", "error"),
    [
        ("nowhere", {}, kseg.PathError), (CODECS, {"topics": "none"}, kseg.PathError),
        (CODECS, {"listen": "127.0.0.1"}, kseg.RequestError), (CODECS, {"listen": "::1:9"}, kseg.RequestError),
        (CODECS, {"listen": "no-such-host.invalid:0"}, kseg.PathError),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_told(path: object, options: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        kseg.serve(str(path), **options)  # type: ignore[arg-type]


def test_a_partition_in_two_places_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(CODECS, tmp_path / name / "codec-mix-1")
    with pytest.raises(kseg.PathError, match="codec-mix-1 is in two places"):
        kseg.serve([tmp_path / "a", tmp_path / "b"])
    kseg.serve([tmp_path / "a", tmp_path / "a/codec-mix-1"]).close()


def test_a_program_ends_that_has_not_closed_its_server() -> None:
    script = "import sys, kseg; server = kseg.serve(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", script, str(CODECS)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_damage_is_logged_once(kseg_server: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with Peer(kseg_server(TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0", advertise="elsewhere:7")) as peer:
        for _ in range(2):
            peer.ask("Fetch", 11, **fetch_of("dplain", 0, 116))
        (broker,) = peer.ask("Metadata", 1, topics=[])["brokers"]
    assert (broker["host"], broker["port"]) == ("elsewhere", 7)
    assert [record.message.partition(": ")[2] for record in caplog.records] == ["a batch with a wrong checksum"]
