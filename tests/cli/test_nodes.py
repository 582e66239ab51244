"""Commands on a node of several disks do what they do where all partitions lie in one log directory."""

import shutil
from pathlib import Path

import pytest

import kseg as api
from cli.command import CLEAN, Kseg, changed, files, unchanged
from node.disks import dealt, properties_of, rows_of

NOW = ("--now", "1795300000000")


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return dealt(CLEAN, tmp_path / "node", 2)


def without_place(rows: list[dict[str, object]], *roots: Path) -> list[str]:
    """The objects as text without the log directories, sorted."""
    found = [str({name: value for name, value in row.items() if name != "seconds"}) for row in rows]
    for root in roots:
        found = [text.replace(f"{root}/", "") for text in found]
    return sorted(found)


PLANS = [(["retain", "--explain"], "retention"), (["compact", "-n", "--min-cleanable-ratio", "0"], "compaction")]


@pytest.mark.parametrize(("command", "kind"), PLANS)
def test_a_plan_is_that_of_one_directory(kseg: Kseg, disks: list[Path], command: list[str], kind: str) -> None:
    whole = kseg(*command, "--format", "json", *NOW, CLEAN)
    assert whole.of_type(kind)
    for paths in (disks, [disks[0].parent]):
        found = kseg(*command, "--format", "json", *NOW, *paths)
        assert found.status == whole.status
        assert without_place(found.of_type(kind), *disks) == without_place(whole.of_type(kind), CLEAN)


@pytest.mark.parametrize(
    "command",
    ["dump", "stats", "transactions", "verify", "convert --to csv -o -", "recover -n", "reindex -n", "undo --list"],
)
def test_a_topic_lies_on_some_disks(kseg: Kseg, disks: list[Path], command: str) -> None:
    """The others are no failure."""
    topic = next(path.name for path in disks[1].iterdir() if path.is_dir()).rpartition("-")[0]
    words = (*command.split(), "--topic", topic)
    alone, done = kseg(*words, disks[1]), kseg(*words, *disks)
    assert (done.status, done.out.replace(b"\n\n", b"\n")) == (alone.status, alone.out.replace(b"\n\n", b"\n"))
    assert "--topic names" not in done.err
    kseg(*words[:-1], "none", *disks).expect(3, "no partition of a topic that --topic names")


def test_a_change_is_undone_on_the_disk_of_its_topic(kseg: Kseg, disks: list[Path]) -> None:
    topic = next(path.name for path in disks[1].iterdir() if path.is_dir()).rpartition("-")[0]
    before = files(disks[1], kept=False)
    api.retain(disks, topics=topic, retention_ms=1).apply()  # the policy is that of the metadata log on another disk
    assert changed(before, disks[1])
    kseg("undo", "--topic", topic, *disks).expect(0)
    assert changed(before, disks[1]) <= {".lock"}
    kseg("undo", "--topic", topic, *disks).expect(3, "there is no change of these topics to undo")


def test_the_configuration_stands_for_all_disks(kseg: Kseg, disks: list[Path]) -> None:
    server = properties_of(disks)
    found, named = (
        kseg("retain", "--explain", "--format", "json", *NOW, *words)
        for words in ([server], ["--server-properties", server, *disks])
    )
    assert found.objects == named.objects
    assert {Path(row["directory"]).parent for row in found.of_type("retention")} == set(disks)


def test_the_topic_id_comes_from_the_metadata_log_of_another_disk(kseg: Kseg, disks: list[Path]) -> None:
    for partition in sorted(path for path in disks[1].iterdir() if (path / "partition.metadata").exists()):
        before = (partition / "partition.metadata").read_bytes()
        (partition / "partition.metadata").unlink()
        kseg("recover", *disks)
        assert (partition / "partition.metadata").read_bytes() == before
    for path in filter(Path.is_file, partition.iterdir()):  # an empty log gets it, too
        path.unlink()
    (partition / f"{0:020d}.log").touch()
    kseg("recover", *disks)
    assert (partition / "partition.metadata").read_bytes() == before


def test_a_disk_without_the_metadata_log_loses_nothing_by_age(kseg: Kseg, disks: list[Path]) -> None:
    with unchanged(disks[1]):
        kseg("retain", "--retention-ms", "1", *NOW, disks[1]).expect(3, "__cluster_metadata-0", "--server-properties")
    named = [part for part in disks[1].iterdir() if f"{part.name.rpartition('-')[0]}" == "cmptx"]
    for partition in named:
        kseg("retain", "--retention-ms", "1", "--policy", "delete", *NOW, partition).expect(3, "its topic is compacted")


def test_verify_of_the_configuration_is_that_of_its_directories(kseg: Kseg, disks: list[Path]) -> None:
    server = properties_of(disks)
    by_path, by_option, by_names = (
        kseg("verify", "--format", "json", *words)
        for words in ([server], ["--server-properties", server], ["--server-properties", server, *disks])
    )
    assert by_path.objects == by_option.objects == by_names.objects
    assert [node["logDirectories"] for node in by_path.objects[-1]["nodes"]] == [[str(disk) for disk in disks]]


def test_a_configuration_without_its_disks_is_refused(kseg: Kseg, disks: list[Path]) -> None:
    server = properties_of(disks)
    shutil.rmtree(disks[1])
    kseg("reindex", "-n", server).expect(3, f"{disks[1]}: no such file or directory")
    assert rows_of(disks[0] / "replication-offset-checkpoint")
    server.write_text("node.id=1\nlog.dirs=\n")
    for words in (("verify",), ("dump",), ("groups",), ("reindex", "-n"), ("cluster",), ("quorum", "--rewrite", "-n")):
        kseg(*words, server).expect(3, f"{server}: names no log directory")
    server.write_text(f"\ufefflog.dirs={disks[0]}\n")
    kseg("verify", server).expect(3, f"{server}: begins with a byte order mark")
    server.write_text(f"\ufeff# Licensed\nlog.dirs={disks[0]}\n")
    assert kseg("dump", "-q", server).status == 0
