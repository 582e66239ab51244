"""Repairs of the metadata log: by the node's part in the quorum, as new snapshots, and for a new controller."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from cli.command import LOGS_4_4, TESTDATA, Kseg, copying, files, findings_of, flip, unchanged
from kseg.changes.lock import locked
from kseg.decoders.framed import FramedRecord, framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.formats.record_batch import HEADER_BYTES, KRAFT_VERSION, KRAFT_VOTERS, build_batch
from kseg.kernel.scan.checksums import crc32c
from kseg.segment.files import LAST_OFFSET
from segment.segments import entries

LOG = "00000000000000000000.log"
BORDER, END = 160, 222
VOTERS = "controller.quorum.voters=1@c:9093"
logs = copying(LOGS_4_4, "logs")


def damage(logs: Path) -> None:
    log = logs / "__cluster_metadata-0" / LOG
    flip(log, -5, 0x41)


def append(logs: Path, batch: bytes) -> None:
    with (logs / "__cluster_metadata-0" / LOG).open("ab") as log:
        log.write(batch)


def control_batch(type_id: int, value: bytes) -> bytes:
    return build_batch(END, 1, 1, [(struct.pack(">hh", 0, type_id), value)], is_control=True)


def unreadable_batch() -> bytes:
    """A control batch under a right checksum whose record is longer than the batch."""
    batch = bytearray(control_batch(KRAFT_VERSION, b"\0\0\0\1\0"))
    batch[HEADER_BYTES] = 0x7E
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


def another_node(logs: Path) -> None:
    properties = (logs / "meta.properties").read_text().replace("node.id=1", "node.id=2")
    (logs / "meta.properties").write_text(properties)


@pytest.mark.parametrize(
    ("settings", "is_alone"),
    [
        (None, True),
        ("process.roles=broker\nnode.id=1\n" + VOTERS, False),
        ("process.roles=controller\nnode.id=1\n", True),
    ],
)
def test_advice_by_the_quorum(settings: str | None, is_alone: bool, logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    damage(logs)
    words: list[object] = []
    if settings is not None:
        (tmp_path / "server.properties").write_text(f"log.dirs={logs}\n{settings}\n")
        words = ["--server-properties", tmp_path / "server.properties"]
    *rows, summary = kseg("verify", "--format", "json", *words, logs).objects
    errors = [row for row in rows if row.get("severity") == "error"]
    assert errors
    assert not any("salvage" in word for command in summary["next"] for word in command)
    decisions = [row for row in errors if row["needs"] == "decision"]
    assert any("--rewrite" in json.dumps(row["details"]) for row in decisions) == is_alone
    assert is_alone or summary["next"] == [["kseg", "recover", "--full", f"{logs}/__cluster_metadata-0"]]


@pytest.mark.parametrize("type_id", [KRAFT_VERSION, KRAFT_VOTERS])
def test_control_records_that_cannot_be_read_tell_nothing(type_id: int, logs: Path, kseg: Kseg) -> None:
    log = logs / "__cluster_metadata-0" / LOG
    end = kseg("cluster", "--format", "json", logs).objects[0]["offset"]
    damage(logs)
    log.write_bytes(log.read_bytes() + build_batch(end, 1, 0, [(struct.pack(">hh", 0, type_id), b"")], True))
    assert "--rewrite" in json.dumps(kseg("verify", "--format", "json", logs).objects)
    kseg("quorum", "--rewrite", logs).expect(1, "damaged bytes in the place of offset 221")


@pytest.mark.parametrize("name", [f"{222:020}-{(1 << 31) - 1:010}", f"{LAST_OFFSET - 1:020}-0000000001"])
def test_a_log_that_leaves_no_offset_or_epoch_above_it_is_refused(name: str, logs: Path, kseg: Kseg) -> None:
    (logs / "__cluster_metadata-0" / f"{name}.checkpoint").touch()
    before = files(logs, kept=False)
    done = kseg("quorum", "--rewrite", logs)
    assert (done.status, files(logs, kept=False)) == (3, before)
    assert "is above offset" in done.err


def test_one_of_several_voters_fetches_the_rest(logs: Path, kseg: Kseg) -> None:
    damage(logs)
    another_node(logs)
    assert kseg("verify", "--format", "json", logs).objects[-1]["next"][0][:3] == ["kseg", "recover", "--full"]


def test_a_snapshot_replaces_the_log_and_can_be_undone(logs: Path, kseg: Kseg) -> None:
    whole = kseg("cluster", "--format", "json", logs).objects
    damage(logs)
    before = files(logs, kept=False)
    assert kseg("quorum", "--rewrite", "--dry-run", logs).status == 1
    assert files(logs, kept=False) == before
    kseg("quorum", "--rewrite", logs).expect(1, "left out: ")
    assert {path.name for path in (logs / "__cluster_metadata-0").iterdir() if path.is_file()} == {
        "00000000000000001221-0000000002.checkpoint", "00000000000000001221.log", "partition.metadata", "quorum-state",
    }  # fmt: skip
    assert kseg("verify", "--fail-on", "warning", logs / "__cluster_metadata-0").status == 0
    found = kseg("cluster", "--format", "json", logs).objects
    assert found[1:] == whole[1:]  # of the damaged batch, the last one, nothing comes into an image
    kseg("undo", logs)
    assert files(logs, kept=False) == before


@pytest.mark.parametrize("spelling", ["server.properties", "", "both"])
@pytest.mark.parametrize("job", ["--rewrite", "--survivor", "--new"])
def test_the_disks_of_a_node_are_one_copy(job: str, spelling: str, logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    """Only one of them has the metadata log."""
    second = tmp_path / "second"
    second.mkdir()
    shutil.copy(logs / "meta.properties", second)
    (tmp_path / "server.properties").write_text(f"log.dirs={second},{logs}\n")
    words: list[object] = [job]
    if job == "--survivor":
        shutil.rmtree(logs)
        shutil.copytree(THREE_VOTERS / "node1", logs)
        shutil.copy(logs / "meta.properties", second)
    elif job == "--new":
        words += [9, "--listener", "CONTROLLER://c:9093", "--output", tmp_path / "new"]
    paths = [second, logs] if spelling == "both" else [tmp_path / spelling]
    done = kseg("quorum", *words, *paths).expect(0)
    assert kseg("verify", tmp_path / "new" if job == "--new" else logs / "__cluster_metadata-0").status == 0, done.out
    assert [path.name for path in second.iterdir() if path.is_file()] == ["meta.properties"]


def test_records_that_no_node_can_replay_are_left_out(kseg: Kseg, tmp_path: Path) -> None:
    case = TESTDATA / "damaged" / "findings" / "metadata-record-refused" / "logs"
    logs = Path(shutil.copytree(case, tmp_path / "logs"))
    done = kseg("quorum", "--rewrite", logs)
    assert "no node can replay the record at offset 22" in done.err
    assert "the partitions of topic " in done.err
    assert kseg("verify", logs).status == 0


def test_a_new_quorum_is_a_log_directory(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    new = tmp_path / "new"
    words = ("quorum", "--new", 9, "--listener", "CONTROLLER://10.0.0.9:9093", "--output", new)
    assert kseg(*words, "--dry-run", logs).status == 1
    assert not new.exists()
    assert "node.id=9" in kseg(*words, logs).expect(0).err
    properties = dict(line.split("=") for line in (new / "meta.properties").read_text().splitlines())
    assert (properties["node.id"], properties["cluster.id"]) == ("9", "AAAAAAAAQACAAAAAAAAAAQ")
    (snapshot,) = (new / "__cluster_metadata-0").glob("*.checkpoint")
    control = [
        row["control"] for row in kseg("dump", "--deep-iteration", "--format", "json", snapshot).objects
        if "control" in row
    ]  # fmt: skip
    (voters,) = (each["voters"] for each in control if each["type"] == "KRAFT_VOTERS")
    assert [(voter["voterId"], voter["voterDirectoryId"]) for voter in voters] == [(9, properties["directory.id"])]
    old, image = (kseg("cluster", "--format", "json", path).objects for path in (logs, new))
    assert image[1:] == [row for row in old[1:] if row["recordType"] != "REGISTER_CONTROLLER_RECORD"]
    assert kseg("verify", new).status == 0
    assert "is not empty" in kseg(*words, logs).err


def test_the_image_can_end_before_a_mistake(logs: Path, kseg: Kseg) -> None:
    wanted = kseg("cluster", "--format", "json", "--as-of", BORDER, logs).objects
    kseg("quorum", "--rewrite", "--as-of", BORDER, logs)
    found = kseg("cluster", "--format", "json", logs).objects
    assert {json.dumps(row) for row in found[1:]} == {json.dumps(row) for row in wanted[1:]}


def test_only_the_metadata_log_gets_a_snapshot(logs: Path, kseg: Kseg) -> None:
    shutil.rmtree(logs / "__cluster_metadata-0")
    assert kseg("quorum", "--rewrite", logs).status == 3


def test_control_records_of_an_unreadable_batch_tell_nothing(logs: Path, kseg: Kseg) -> None:
    append(logs, unreadable_batch())
    kseg("quorum", "--rewrite", logs).expect(0)
    kseg("verify", logs / "__cluster_metadata-0").expect(0)


def test_a_node_that_is_not_the_only_voter_gets_no_snapshot(logs: Path, kseg: Kseg) -> None:
    damage(logs)
    another_node(logs)
    with unchanged(logs):
        kseg("quorum", "--rewrite", logs).expect(3, "this node is not the only one")


def test_snapshots_without_a_log_are_a_decision_of_the_only_voter(logs: Path, kseg: Kseg) -> None:
    kseg("quorum", "--rewrite", "--no-quarantine", logs).expect(0)
    for log in (logs / "__cluster_metadata-0").glob("*.log"):
        log.unlink()
    (lost,) = findings_of(kseg, logs, code="metadata-lost")
    assert lost["details"]["otherRepair"][2] == "--rewrite"
    kseg("quorum", "--rewrite", logs).expect(0)
    kseg("verify", logs / "__cluster_metadata-0").expect(0)


def refused_snapshot(logs: Path, kseg: Kseg) -> Path:
    """A snapshot, the newest, under right checksums, with a record that no node can replay."""
    kseg("quorum", "--rewrite", "--no-quarantine", logs).expect(0)
    (path,) = (logs / "__cluster_metadata-0").glob("*.checkpoint")
    data = path.read_bytes()
    footer = data.rindex(struct.pack(">ib", 2, 2)) - 12
    (offset,) = struct.unpack_from(">q", data, footer)
    change = FramedRecord(17, 0, {"brokerId": 77, "brokerEpoch": 5})
    batch = build_batch(offset, 2, 1, [(None, framed(change, CLUSTER_METADATA))])
    path.write_bytes(data[:footer] + batch + struct.pack(">q", offset + 1) + data[footer + 8 :])
    return path


def test_a_record_of_a_snapshot_that_no_node_can_replay_is_an_error(logs: Path, kseg: Kseg) -> None:
    path = refused_snapshot(logs, kseg)
    *rows, summary = kseg("verify", "--format", "json", logs).objects
    (found,) = (row for row in rows if row.get("severity") == "error")
    assert (found["code"], found["file"]) == ("metadata-record-refused", str(path))
    assert "broker 77 is not registered" in found["message"]
    assert summary["nodes"][0]["starts"] is False


def test_a_record_of_the_log_that_no_node_can_replay_stops_a_start(logs: Path, kseg: Kseg) -> None:
    change = FramedRecord(17, 0, {"brokerId": 77, "brokerEpoch": 5})
    append(logs, build_batch(END, 1, 1, [(None, framed(change, CLUSTER_METADATA))]))
    assert [node["starts"] for node in kseg("verify", "--format", "json", logs).objects[-1]["nodes"]] == [False]


def test_differences_of_a_snapshot_show_no_secrets(logs: Path, kseg: Kseg) -> None:
    secret = {
        "name": "u",
        "mechanism": 1,
        "salt": "c2FsdA==",
        "storedKey": "c2VjcmV0",
        "serverKey": "c2VjcmV0",
        "iterations": 4096,
    }
    append(logs, build_batch(END, 1, 1, [(None, framed(FramedRecord(11, 0, secret), CLUSTER_METADATA))]))
    kseg("quorum", "--rewrite", "--output", logs.parent / "new", logs).expect(0)
    (made,) = (logs.parent / "new" / "__cluster_metadata-0").glob("*.checkpoint")
    shutil.copy(made, logs / "__cluster_metadata-0" / f"{END:020}-0000000001.checkpoint")
    done = kseg("verify", "--format", "json", logs)
    (found,) = (row for row in done.objects if row.get("code") == "metadata-snapshot-mismatch")
    assert "USER_SCRAM_CREDENTIAL_RECORD" in found["message"]
    assert "c2FsdA" not in done.out.decode()


@pytest.mark.parametrize(
    ("path", "listener", "status", "text"),
    [
        ("nothing", "C://h:1", 3, "nothing: is no directory"),
        ("few-0", "C://h:1", 3, "holds no __cluster_metadata-0"),
        (".", "C://[::1]:9093", 0, "controller.quorum.bootstrap.servers=[::1]:9093"),
    ],
)
def test_a_new_quorum_says_what_is_wrong_and_what_to_set(
    path: str, listener: str, status: int, text: str, logs: Path, kseg: Kseg, tmp_path: Path
) -> None:
    words = ("quorum", "--new", 9, "--listener", listener, "--output", tmp_path / "new")
    assert "controller.quorum.voters" not in kseg(*words, logs / path).expect(status, text).err


@pytest.mark.parametrize("damaged", [LOG, f"{END:020}-0000000001.checkpoint"])
def test_damage_of_what_other_files_have_loses_nothing(damaged: str, logs: Path, kseg: Kseg) -> None:
    metadata = logs / "__cluster_metadata-0"
    whole = kseg("cluster", "--format", "json", logs).objects
    kseg("quorum", "--rewrite", "--output", logs.parent / "new", logs).expect(0)
    (made,) = (logs.parent / "new" / "__cluster_metadata-0").glob("*.checkpoint")
    shutil.copy(made, metadata / f"{END:020}-0000000001.checkpoint")
    flip(metadata / damaged, bits=0x41)
    assert "left out" not in kseg("quorum", "--rewrite", logs).expect(0).err
    assert kseg("cluster", "--format", "json", logs).objects[1:] == whole[1:]


def test_a_broker_that_runs_on_the_copy_is_refused(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    words = ("quorum", "--new", 9, "--listener", "C://h:1", "--output", tmp_path / "new", logs)
    with locked(str(logs)):
        kseg(*words, "--dry-run").expect(1, "a running broker")
        kseg(*words).expect(3, "stop it, or use --no-lock")
        assert not (tmp_path / "new").exists()
        kseg(*words, "--no-lock").expect(0, "is not in the new one")


def test_a_controller_needs_an_id_that_no_broker_has(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    broker = next(row for row in kseg("cluster", "--format", "json", logs).objects if "BROKER" in str(row))
    other = FramedRecord(0, 4, broker["data"] | {"brokerId": 7})
    append(logs, build_batch(END, 1, 1, [(None, framed(other, CLUSTER_METADATA))]))
    words = ("quorum", "--listener", "C://h:1", "--output", tmp_path / "new", logs, "--new")
    kseg(*words, 7).expect(3, "7 is the id of a broker")
    kseg(*words, 1).expect(0, "it must be broker and controller in one process")


@pytest.mark.parametrize(
    ("folder", "output"), [(".", "{}/logs/new"), (".", "link/new"), ("logs", "new"), ("link", "new")]
)
def test_a_new_log_directory_is_not_made_inside_another(
    folder: str, output: str, logs: Path, tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(logs / "__cluster_metadata-0")
    monkeypatch.chdir(tmp_path / folder)
    words = ("quorum", "--new", 9, "--listener", "C://h:1", "--output", output.format(tmp_path), logs)
    kseg(*words).expect(3, "is inside the log directory")
    assert not list(logs.rglob("new"))


def test_the_advice_names_the_settings_that_it_goes_by(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    """quorum-state, which is older than the settings, has other voters."""
    damage(logs)
    settings = tmp_path / "server.properties"
    settings.write_text(f"process.roles=controller\nnode.id=1\n{VOTERS}\n")
    rows = kseg("verify", "--format", "json", "--server-properties", settings, logs).objects
    advised = {tuple(row["details"].get("otherRepair", ())) for row in rows if row.get("needs") == "decision"}
    assert advised == {
        ("kseg", "quorum", "--rewrite", "--server-properties", str(settings), f"{logs}/__cluster_metadata-0")
    }
    kseg(*next(iter(advised))[1:]).expect(1)


def test_the_settings_of_the_node_say_that_it_is_no_voter(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("process.roles=broker\nnode.id=1\n")
    kseg("quorum", "--rewrite", "--server-properties", settings, logs).expect(3, "is not the only one")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
def test_a_new_quorum_belongs_to_the_owner_of_the_copy(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    for path in (logs, *logs.rglob("*")):
        os.chown(path, 1234, 1234)
    kseg("quorum", "--new", 9, "--listener", "C://h:1", "--output", tmp_path / "new", logs).expect(0)
    assert {path.stat().st_uid for path in (tmp_path / "new").rglob("*")} == {1234}


def test_the_id_of_a_cluster_is_one_word(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    (logs / "meta.properties").write_text("version=1\ncluster.id=a\\nnode.id=5\nnode.id=1\n")
    words = ("quorum", "--new", 9, "--listener", "C://h:1", "--output", tmp_path / "new")
    kseg(*words, logs).expect(3, "is no cluster.id")
    assert not (tmp_path / "new").exists()


def test_voters_whose_batch_in_the_log_is_damaged_are_those_of_the_bootstrap_snapshot(logs: Path, kseg: Kseg) -> None:
    log = logs / "__cluster_metadata-0" / LOG
    flip(log, HEADER_BYTES + 8)
    kseg("quorum", "--rewrite", logs).expect(1)
    (path,) = (logs / "__cluster_metadata-0").glob("*.checkpoint")
    shown = kseg("dump", "--deep-iteration", "--format", "json", path).objects
    assert [row["control"]["type"] for row in shown if "control" in row].count("KRAFT_VOTERS") == 1


def test_no_snapshot_is_written_without_voters(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    log = logs / "__cluster_metadata-0" / LOG
    (logs / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").unlink()
    flip(log, HEADER_BYTES + 8)
    append(logs, control_batch(KRAFT_VERSION, b"\0\0\0\1\0"))
    kseg("quorum", "--rewrite", logs).expect(3, "no record of the voters can be read")
    words = ("quorum", "--new", 9, "--listener", "C://h:1", "--output", tmp_path / "new")
    kseg(*words, logs).expect(1, "controller.quorum.bootstrap.servers")


def of_broker(protocol: int) -> FramedRecord:
    endpoint = {"name": "L", "host": "h", "port": 9092, "securityProtocol": protocol}
    fields = {
        "brokerId": 77, "incarnationId": "AAAAAAAAAAAAAAAAAAAAAQ", "brokerEpoch": 5, "endPoints": [endpoint],
        "features": [], "rack": None, "fenced": True, "inControlledShutdown": False, "logDirs": [],
        "isMigratingZkBroker": False,
    }  # fmt: skip
    return FramedRecord(0, 3, fields)


STOPPING = {
    "feature no.such": [FramedRecord(12, 0, {"name": "no.such", "featureLevel": 1})],
    "group.version is 9; Kafka 4.4 accepts": [FramedRecord(12, 0, {"name": "group.version", "featureLevel": 9})],
    "share.version is -2; Kafka 4.4 accepts": [FramedRecord(12, 0, {"name": "share.version", "featureLevel": -2})],
    "two ids": [
        FramedRecord(2, 0, {"name": "twice", "topicId": f"AAAAAAAAAAAAAAAAAAAAA{end}"}) for end in "gw"
    ],
    "security protocol 77": [of_broker(77)],
}  # fmt: skip


def with_records(logs: Path, records: list[FramedRecord]) -> None:
    batch = build_batch(END, 1, 1, [(None, framed(record, CLUSTER_METADATA)) for record in records])
    append(logs, batch)


@pytest.mark.parametrize("kind", STOPPING)
def test_what_replays_but_no_node_takes_is_named_and_left_out(kind: str, logs: Path, kseg: Kseg) -> None:
    with_records(logs, STOPPING[kind])
    found = [row for row in findings_of(kseg, logs) if kind in row["message"]]
    assert [row["code"] for row in found] == ["metadata-record-refused"]
    kseg("quorum", "--rewrite", logs).expect(1, kind)
    assert not any(row["code"] == "metadata-record-refused" for row in findings_of(kseg, logs / "__cluster_metadata-0"))


def test_a_log_without_its_node_may_be_that_of_a_broker(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    with_records(logs, STOPPING["two ids"])
    alone = shutil.copytree(logs / "__cluster_metadata-0", tmp_path / "alone/__cluster_metadata-0")
    for path, severity in ((logs, "error"), (alone, "warning")):
        assert [row["severity"] for row in findings_of(kseg, path) if "two ids" in row["message"]] == [severity]


def test_no_snapshot_is_made_of_a_level_of_no_release(logs: Path, kseg: Kseg) -> None:
    with_records(logs, [FramedRecord(12, 0, {"name": "metadata.version", "featureLevel": 34})])
    with unchanged(logs):
        kseg("quorum", "--rewrite", logs).expect(3, "metadata.version is 34 (4.5-IV0); Kafka 4.4 accepts")


THREE_VOTERS = TESTDATA / "damaged" / "findings" / "leader-copy-missing" / "cluster"
"""Logs of the static voters 1 and 2 of three, of 4.4.0."""


@pytest.fixture
def voters(tmp_path: Path) -> tuple[Path, Path]:
    shutil.copytree(THREE_VOTERS, tmp_path / "cluster")
    return tmp_path / "cluster" / "node1", tmp_path / "cluster" / "node2"


def cut(logs: Path, batches: int) -> None:
    """Takes batches from the end of a metadata log."""
    log = logs / "__cluster_metadata-0" / LOG
    log.write_bytes(b"".join(entries(log.read_bytes())[:-batches]))


def test_the_most_advanced_voter_survives(voters: tuple[Path, Path], kseg: Kseg) -> None:
    """The copy that ends first stays as it is; of a damaged one counts what a start keeps."""
    one, two = voters
    cut(one, 2)
    before = files(one, kept=False), files(two, kept=False)
    planned = kseg("quorum", "--survivor", "--dry-run", one, two).expect(1, "what only voter 3 had is not known")
    assert "are lost" not in planned.err
    kseg("quorum", "--survivor", "--endpoints", "2=new:9093", one, two).expect(0, "controller.quorum.voters=2@new:9093")
    assert files(one, kept=False) == before[0]
    state = json.loads((two / "__cluster_metadata-0" / "quorum-state").read_text())
    assert (state["currentVoters"], state["leaderId"]) == ([{"voterId": 2}], -1)
    kseg("verify", "--fail-on", "warning", two / "__cluster_metadata-0").expect(0)
    kseg("undo", two).expect(0)
    assert files(two, kept=False) == before[1]
    flip(two / "__cluster_metadata-0" / LOG, 3000, 0x41)
    assert "voters=1@" in kseg("quorum", "--survivor", one, two).err


def test_the_epoch_of_the_survivor_is_above_those_of_the_others(voters: tuple[Path, Path], kseg: Kseg) -> None:
    """Also above one of an election, of which no record was written."""
    one, two = voters
    cut(one, 2)
    path = one / "__cluster_metadata-0" / "quorum-state"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"leaderEpoch": 41}))
    kseg("quorum", "--survivor", one, two).expect(0)
    (snapshot,) = (two / "__cluster_metadata-0").glob("*.checkpoint")
    assert int(snapshot.stem.split("-")[1]) == 42


def test_a_snapshot_tells_the_epoch_of_an_empty_log(voters: tuple[Path, Path], kseg: Kseg) -> None:
    """The voter that goes on alone has a snapshot of epoch 3 and nothing behind it: it is ahead of the other's log."""
    one, two = voters
    kseg("quorum", "--survivor", one).expect(0)
    (cluster,) = kseg("verify", "--format", "json", one, two).objects[-1]["clusters"]
    assert [(row["node"], row["epoch"]) for row in cluster["voters"]] == [(1, 3)]


def test_what_the_new_quorum_does_not_know_is_named(voters: tuple[Path, Path], kseg: Kseg) -> None:
    """Node 1 has a later epoch, node 2 more records of the one before."""
    one, two = voters
    cut(one, 1)
    end = kseg("cluster", "--format", "json", one).objects[0]["offset"]
    append_to = one / "__cluster_metadata-0" / LOG
    append_to.write_bytes(
        append_to.read_bytes() + build_batch(end, 9, 1, [(struct.pack(">hh", 0, 2), bytes(15))], True)
    )
    (one / "__cluster_metadata-0" / "leader-epoch-checkpoint").unlink()
    done = kseg("quorum", "--survivor", "--dry-run", one, two).expect(1, "will be lost: kseg cluster --since ")
    assert f"{two}/__cluster_metadata-0: offsets {end} to " in done.err


def test_copies_that_cannot_go_on_are_refused(voters: tuple[Path, Path], logs: Path, kseg: Kseg) -> None:
    one, two = voters
    kseg("quorum", "--survivor", logs).expect(3, "the node is the only voter")
    properties = (logs / "meta.properties").read_text()
    (logs / "meta.properties").write_text(properties.replace("cluster.id=", "cluster.id=Another"))
    kseg("quorum", "--survivor", one, logs).expect(3, "is of cluster Another")
    kseg("quorum", "--survivor", one, one).expect(2, "copies of one node")
    kseg("quorum", "--survivor", "--endpoints", "7=c:1", one).expect(2, "7 is none of the voters")
    kseg("quorum", "--endpoints", "1=c:1", "--rewrite", logs).expect(2, "--endpoints is for --survivor")
    kseg("quorum", "--survivor", "--endpoints", "1", one).expect(2, "has not the form NODE=HOST:PORT")
    (two / "meta.properties").write_text((two / "meta.properties").read_text().replace("node.id=2", "node.id=7"))
    kseg("quorum", "--survivor", two).expect(3, "node 7 is none of the voters 1, 2, 3")
