"""Repairs of the metadata log: by the node's part in the quorum, as new snapshots, and for a new controller."""

import json
import shutil
import struct
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg
from kseg.formats.record_batch import KRAFT_VERSION, KRAFT_VOTERS, build_batch
from kseg.segment.files import LAST_OFFSET

LOGS = TESTDATA / "log-directories" / "4.4.0" / "logs"
LOG = "00000000000000000000.log"
BORDER = 160
VOTERS = "controller.quorum.voters=1@c:9093"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOGS, tmp_path / "logs"))


def damage(logs: Path) -> None:
    log = logs / "__cluster_metadata-0" / LOG
    data = bytearray(log.read_bytes())
    data[len(data) - 5] ^= 0x41
    log.write_bytes(data)


def tree(logs: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(logs)): path.read_bytes()
        for path in sorted(logs.rglob("*"))
        if path.is_file() and path.name != ".lock" and ".kseg-quarantine" not in path.parts
    }


@pytest.mark.parametrize(
    ("settings", "is_alone"),
    [
        (None, True),
        ("process.roles=broker\nnode.id=1\n" + VOTERS, False),
        ("process.roles=controller\nnode.id=1\n", True),
    ],
)
def test_the_advice_goes_by_the_part_in_the_quorum(
    settings: str | None, is_alone: bool, logs: Path, kseg: Kseg, tmp_path: Path
) -> None:
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
    assert any("--metadata-snapshot" in json.dumps(row["details"]) for row in decisions) == is_alone
    assert is_alone or summary["next"] == [["kseg", "recover", "--full", f"{logs}/__cluster_metadata-0"]]


@pytest.mark.parametrize("type_id", [KRAFT_VERSION, KRAFT_VOTERS])
def test_control_records_that_cannot_be_read_tell_nothing(type_id: int, logs: Path, kseg: Kseg) -> None:
    log = logs / "__cluster_metadata-0" / LOG
    end = kseg("dump", "--image", "--format", "json", logs).objects[0]["offset"]
    damage(logs)
    log.write_bytes(log.read_bytes() + build_batch(end, 1, 0, [(struct.pack(">hh", 0, type_id), b"")], True))
    rows = kseg("verify", "--format", "json", logs).objects
    assert "--metadata-snapshot" in json.dumps(rows)
    assert kseg("recover", "--metadata-snapshot", logs).status == 0


@pytest.mark.parametrize("name", [f"{222:020}-{(1 << 31) - 1:010}", f"{LAST_OFFSET - 1:020}-0000000001"])
def test_a_log_that_leaves_no_offset_or_epoch_above_it_is_refused(name: str, logs: Path, kseg: Kseg) -> None:
    (logs / "__cluster_metadata-0" / f"{name}.checkpoint").touch()
    before = tree(logs)
    done = kseg("recover", "--metadata-snapshot", logs)
    assert (done.status, tree(logs)) == (3, before)
    assert "is above offset" in done.err


def test_one_of_several_voters_fetches_the_rest(logs: Path, kseg: Kseg) -> None:
    damage(logs)
    properties = (logs / "meta.properties").read_text().replace("node.id=1", "node.id=2")
    (logs / "meta.properties").write_text(properties)
    assert kseg("verify", "--format", "json", logs).objects[-1]["next"][0][:3] == ["kseg", "recover", "--full"]


def test_a_snapshot_replaces_the_log_and_can_be_undone(logs: Path, kseg: Kseg) -> None:
    whole = kseg("dump", "--image", "--format", "json", logs).objects
    damage(logs)
    before = tree(logs)
    assert kseg("recover", "--metadata-snapshot", "--dry-run", logs).status == 1
    assert tree(logs) == before
    done = kseg("recover", "--metadata-snapshot", logs)
    assert done.status == 0
    assert "left out: " in done.err
    assert {path.name for path in (logs / "__cluster_metadata-0").iterdir() if path.is_file()} == {
        "00000000000000001221-0000000002.checkpoint", "00000000000000001221.log", "partition.metadata", "quorum-state",
    }  # fmt: skip
    assert kseg("verify", logs / "__cluster_metadata-0").status == 0
    found = kseg("dump", "--image", "--format", "json", logs).objects
    assert found[1:] == whole[1:]  # of the damaged batch, the last one, nothing comes into an image
    kseg("undo", logs)
    assert tree(logs) == before


def test_records_that_no_node_can_replay_are_left_out(kseg: Kseg, tmp_path: Path) -> None:
    case = TESTDATA / "damaged" / "findings" / "metadata-record-refused" / "logs"
    logs = Path(shutil.copytree(case, tmp_path / "logs"))
    done = kseg("recover", "--metadata-snapshot", logs)
    assert "no node can replay the record at offset 22" in done.err
    assert "the partitions of topic " in done.err
    assert kseg("verify", logs).status == 0


def test_a_new_quorum_is_a_log_directory(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    new = tmp_path / "new"
    words = ("recover", "--new-quorum", 9, "--listener", "CONTROLLER://10.0.0.9:9093", "--output", new)
    assert kseg(*words, "--dry-run", logs).status == 1
    assert not new.exists()
    done = kseg(*words, logs)
    assert done.status == 0
    assert "node.id=9" in done.err
    properties = dict(line.split("=") for line in (new / "meta.properties").read_text().splitlines())
    assert (properties["node.id"], properties["cluster.id"]) == ("9", "AAAAAAAAQACAAAAAAAAAAQ")
    (snapshot,) = (new / "__cluster_metadata-0").glob("*.checkpoint")
    control = [
        row["control"] for row in kseg("dump", "--deep-iteration", "--format", "json", snapshot).objects
        if "control" in row
    ]  # fmt: skip
    (voters,) = (each["voters"] for each in control if each["type"] == "KRAFT_VOTERS")
    assert [(voter["voterId"], voter["voterDirectoryId"]) for voter in voters] == [(9, properties["directory.id"])]
    old, image = (kseg("dump", "--image", "--format", "json", path).objects for path in (logs, new))
    assert image[1:] == [row for row in old[1:] if row["recordType"] != "REGISTER_CONTROLLER_RECORD"]
    assert kseg("verify", new).status == 0
    assert "is not empty" in kseg(*words, logs).err


def test_the_image_can_end_before_a_mistake(logs: Path, kseg: Kseg) -> None:
    wanted = kseg("dump", "--image", "--format", "json", "--as-of", BORDER, logs).objects
    kseg("recover", "--metadata-snapshot", "--as-of", BORDER, logs)
    found = kseg("dump", "--image", "--format", "json", logs).objects
    assert {json.dumps(row) for row in found[1:]} == {json.dumps(row) for row in wanted[1:]}


@pytest.mark.parametrize(
    "words",
    [
        ["--metadata-snapshot", "--mode", "salvage"],
        ["--new-quorum", 9],
        ["--new-quorum", 1 << 31, "--listener", "CONTROLLER://h:1", "--output", "new"],
        ["--new-quorum", 9, "--listener", "CONTROLLER://h:1"],
        ["--new-quorum", 9, "--listener", "h:1", "--output", "new"],
        ["--listener", "CONTROLLER://h:1"],
        ["--as-of", 3],
    ],
)
def test_options_that_do_not_belong_together_are_refused(words: list[object], logs: Path, kseg: Kseg) -> None:
    before = tree(logs)
    assert kseg("recover", *words, logs).status == 2
    assert tree(logs) == before


def test_only_the_metadata_log_gets_a_snapshot(logs: Path, kseg: Kseg) -> None:
    assert kseg("recover", "--metadata-snapshot", logs / "few-0").status == 2
    shutil.rmtree(logs / "__cluster_metadata-0")
    assert kseg("recover", "--metadata-snapshot", logs).status == 3
