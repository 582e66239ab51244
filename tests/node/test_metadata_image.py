"""The image of a metadata log is what Kafka's own classes make of it (testdata/metadata/images.json)."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cli.command import TESTDATA, flip
from kseg.decoders.framed import FRAME_VERSION, FramedRecord, framed, type_name
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.formats.record_batch import build_batch
from kseg.node.cluster_metadata import bag, load_image, load_readable, load_snapshot, replay_log, snapshots_among
from kseg.node.metadata_image import MetadataImage, PartitionImage, ReplayError
from kseg.segment.files import list_segments

IMAGES: dict[str, Any] = json.loads((TESTDATA / "metadata" / "images.json").read_text("utf-8"))
ALL_TYPES = TESTDATA / "metadata" / "4.4.0-all-types" / "__cluster_metadata-0"
TOPIC, OTHER = "AAAAAAAAQACAAAAAAAAAAQ", "AAAAAAAAQACAAAAAAAAAAg"
TOPIC_RECORD, PARTITION_RECORD, CONFIG_RECORD, PARTITION_CHANGE, REMOVE_TOPIC = 2, 3, 4, 5, 9


@pytest.mark.parametrize("case", IMAGES)
def test_an_image_is_that_of_kafka(case: str) -> None:
    folder, _, end = case.partition(" ")
    wanted = IMAGES[case]
    found = load_image(list_segments(str(TESTDATA / folder)), int(end) if end else None)
    assert not found.lacking
    assert (found.offset, found.epoch, found.snapshot) == (wanted["offset"], wanted["epoch"], wanted["snapshot"])
    records = Counter(
        json.dumps([type_name(CLUSTER_METADATA[record.api_key]), record.version, record.fields], sort_keys=True)
        for record in found.image.records()
    )
    theirs = Counter(
        json.dumps([record["type"], record["version"], record["data"]], sort_keys=True) for record in wanted["records"]
    )
    assert records == theirs


@pytest.mark.parametrize("folder", sorted({case.partition(" ")[0] for case in IMAGES}))
def test_the_snapshots_of_a_broker_are_what_its_log_gives(folder: str) -> None:
    found = replay_log(list_segments(str(TESTDATA / folder)))
    assert found.refused is None
    assert not found.different


def test_an_image_of_a_snapshot_alone_is_that_of_the_log() -> None:
    files = list_segments(str(ALL_TYPES))
    snapshot = snapshots_among(files)[-1]
    alone = load_snapshot(snapshot.path)
    assert bag(alone.image) == bag(load_image(files, snapshot.base_offset).image)
    assert alone.offset == snapshot.base_offset


def test_an_image_ends_at_damage_or_a_missing_segment(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(TESTDATA / "kafka-4.3.1" / "internal" / "__cluster_metadata-0", tmp_path / "logs"))
    for snapshot in snapshots_among(list_segments(str(logs))):
        Path(snapshot.path).unlink()
    (logs / "00000000000000000164.log").rename(tmp_path / "elsewhere")
    assert load_image(list_segments(str(logs))).lacking == "the log lacks offsets 164 to 321"
    data = bytearray((tmp_path / "elsewhere").read_bytes())
    data[len(data) // 2] ^= 1
    (logs / "00000000000000000164.log").write_bytes(data)
    found = load_image(list_segments(str(logs)))
    assert 164 < found.offset < 322
    assert found.lacking == f"00000000000000000164.log is damaged behind offset {found.offset - 1}"


def topic(name: str = "orders", topic_id: str = TOPIC) -> tuple[int, dict[str, Any]]:
    return TOPIC_RECORD, {"name": name, "topicId": topic_id}


def log_of(folder: Path, batches: dict[int, list[tuple[int, dict[str, Any]]]]) -> str:
    """A log with these records, by the base offsets of their batches."""
    with (folder / f"{0:020}.log").open("wb") as log:
        for base, records in batches.items():
            values = [framed(FramedRecord(api_key, 0, fields), CLUSTER_METADATA) for api_key, fields in records]
            log.write(build_batch(base, 1, 1, [(None, value) for value in values]))
    return str(folder)


BEGIN, END, ABORT = (23, {"name": "t"}), (24, {}), (25, {"reason": "r"})


@pytest.mark.parametrize(
    ("last", "names"),
    [
        # The rest of a transaction whose beginning or middle is missing makes no state.
        ([topic("c"), END], ["a", "d"]),
        ([topic("c"), ABORT], ["a", "d"]),
        # It has ended in what is missing.
        ([topic("c"), BEGIN, END], ["a", "c", "d"]),
        ([topic("c")], ["a", "c", "d"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_open", [True, False])
def test_a_transaction_that_is_cut_counts_for_nothing(
    last: list[tuple[int, dict[str, Any]]], names: list[str], is_open: bool, tmp_path: Path
) -> None:
    before = [topic("a"), BEGIN, topic("b", OTHER)] if is_open else [topic("a"), BEGIN, END]
    last = [(api_key, {"topicId": fields["topicId"][:-1] + "w", "name": fields["name"]}) if api_key == TOPIC_RECORD
            else (api_key, fields) for api_key, fields in last]  # fmt: skip
    log = log_of(tmp_path, {0: before, 5: last, 9: [topic("d", TOPIC[:-2] + "zg")]})
    found, errors = load_readable(list_segments(log))
    assert sorted(each.name for each in found.image.topics.values()) == names
    texts = [str(error).partition(": ")[2] for error in errors]
    assert texts[0] == "the missing offsets 3 to 4" + ("; the transaction that is open there" if is_open else "")
    ends = [5 + last.index(marker) for marker in (END, ABORT) if marker in last and BEGIN not in last]
    assert texts[1 : 1 + len(ends)] == [f"the transaction that ends at offset {end}" for end in ends]
    whole = load_image(list_segments(log))
    assert [each.name for each in whole.image.topics.values()] == ["a"]
    assert whole.lacking.endswith("the transaction that is open there is left out") == is_open


@pytest.mark.parametrize("markers", [[BEGIN, BEGIN], [END], [BEGIN, ABORT, ABORT]], ids=str)
def test_markers_out_of_turn_are_refused(markers: list[tuple[int, dict[str, Any]]], tmp_path: Path) -> None:
    found = load_image(list_segments(log_of(tmp_path, {0: [topic(), *markers]})))
    assert f"no node can replay the record at offset {len(markers)}: a transaction " in found.lacking


def test_damage_that_a_snapshot_replaces_costs_nothing(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(ALL_TYPES, tmp_path / ALL_TYPES.name))
    log = logs / f"{0:020}.log"
    flip(log, 200)
    files = list_segments(str(logs))
    found, errors = load_readable(files)
    assert errors == []
    assert bag(found.image) == bag(load_image(list_segments(str(ALL_TYPES))).image)
    newest = Path(snapshots_among(files)[-1].path)
    newest.write_bytes(newest.read_bytes()[:-20])
    log.unlink()
    (logs / f"{201:020}.log").write_bytes(b"")
    found, errors = load_readable(list_segments(str(logs)))
    assert (found.offset, found.snapshot) == (201, newest.name)
    assert [str(error) for error in errors] == [f"{newest}: it is damaged"]
    assert len(found.image.topics) > 1


def partition(number: int = 0, topic_id: str = TOPIC, **more: Any) -> tuple[int, dict[str, Any]]:
    fields = {"partitionId": number, "topicId": topic_id, "replicas": [1], "isr": [1], "removingReplicas": [],
              "addingReplicas": [], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}  # fmt: skip
    return PARTITION_RECORD, fields | more


def replayed(*deltas: list[tuple[int, dict[str, Any]]]) -> MetadataImage:
    image = MetadataImage()
    for delta in deltas:
        for api_key, fields in delta:
            image.replay(api_key, fields)
        image.apply()
    return image


REFUSED = {
    "a partition of no topic": [partition()],
    "a change of no partition": [topic(), (PARTITION_CHANGE, {"partitionId": 3, "topicId": TOPIC})],
    "a removal of no topic": [(REMOVE_TOPIC, {"topicId": TOPIC})],
    "a removal twice": [topic(), (REMOVE_TOPIC, {"topicId": TOPIC}), (REMOVE_TOPIC, {"topicId": TOPIC})],
    "directories for other replicas": [topic(), partition(directories=[TOPIC, OTHER])],
    "an unknown recovery state": [topic(), partition(leaderRecoveryState=2)],
    "an unknown metadata.version": [(12, {"name": "metadata.version", "featureLevel": 6})],
    "an unknown broker": [(7, {"id": 1, "epoch": 2})],
    "a token of nobody": [
        (10, {"owner": "alice", "requester": "User:bob", "renewers": [], "issueTimestamp": 1, "maxTimestamp": 1,
              "expirationTimestamp": 1, "tokenId": "t"})
    ],
    "no such ACL": [(19, {"id": TOPIC})],
    "ELR of no topic": [(28, {"topicName": "orders"})],
    "a transaction inside a snapshot": [(23, {})],
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_record_that_no_node_can_replay_is_refused(what: str) -> None:
    with pytest.raises(ReplayError):
        replayed(REFUSED[what])


def test_a_change_moves_the_epochs() -> None:
    change = {"partitionId": 0, "topicId": TOPIC, "leader": 2, "replicas": [1, 2]}
    image = replayed([topic(), partition()], [(PARTITION_CHANGE, change)])
    found: PartitionImage = image.topics[TOPIC].partitions[0]
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (2, 1, 1)
    assert found.directories == ("A" * 22,) * 2


def setting(name: str, value: str | None) -> tuple[int, dict[str, Any]]:
    return CONFIG_RECORD, {"resourceType": 2, "resourceName": "orders", "name": name, "value": value}


def test_settings_of_a_topic_that_came_in_the_same_batch_outlive_it() -> None:
    removal = (REMOVE_TOPIC, {"topicId": TOPIC})
    assert replayed([topic(), setting("a", "1")], [removal]).configs == {}
    assert replayed([topic(), setting("a", "1"), removal]).configs == {(2, "orders"): {"a": "1"}}
    assert replayed([setting("a", "1")], [setting("a", None)]).configs == {}


def test_what_follows_the_removal_of_the_last_user_is_lost_in_the_order_of_a_map() -> None:
    def user(name: str) -> tuple[int, dict[str, Any]]:
        return 11, {"name": name, "mechanism": 1, "salt": "", "storedKey": "", "serverKey": "", "iterations": 1}

    def removed(name: str) -> tuple[int, dict[str, Any]]:
        return 22, {"name": name, "mechanism": 1}

    # In a HashMap b comes before c: see java.util.HashMap, and String.hashCode, 98 and 99 here.
    assert replayed([user("b")], [removed("b"), user("c")]).scram == {}
    assert set(replayed([user("c")], [removed("c"), user("b")]).scram[1]) == {"b"}


def test_random_records_can_be_taken_back_or_are_refused() -> None:
    rng = random.Random(FRAME_VERSION)
    change, cleared = (PARTITION_CHANGE, {"partitionId": 0, "topicId": TOPIC, "isr": []}), (28, {"topicName": ""})
    records = [topic(), topic("other", OTHER), partition(), partition(1), (REMOVE_TOPIC, {"topicId": TOPIC}), change]
    records += [cleared, setting("a", None), setting("b", "2"), setting("b", None), setting("c", "1")]
    refused = 0
    for number in range(400):
        image = replayed([topic(), partition(), setting("a", "1"), setting("b", "1")] * (number % 2))
        before = bag(image)
        try:
            for api_key, fields in rng.choices(records, k=6):
                image.replay(api_key, fields)
        except ReplayError:
            refused += 1
        image.discard()
        assert bag(image) == before
    assert 0 < refused < 400
