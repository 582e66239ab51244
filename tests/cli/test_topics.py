"""``--topic`` on log directories: only these topics are read or changed."""

import shutil
from pathlib import Path

import pytest

from cli.command import CLEAN, ZEROED, Kseg, changed, copying, files

# What __cluster_metadata of a log directory says of topics is what commands take, and not what indexes look like.

known_logs = copying(CLEAN, "logs")


@pytest.mark.parametrize("command", [["recover"], ["reindex"], ["convert", "--codec", "gzip", "--in-place"]])
def test_commands_take_the_interval_of_the_topic_and_say_so(kseg: Kseg, known_logs: Path, command: list[str]) -> None:
    """The indexes are gone, so that there is nothing to guess it from."""
    for path in [*(known_logs / "zs-2").glob("*.index"), *(known_logs / "zs-2").glob("*.timeindex")]:
        path.unlink()
    done = kseg(*command, known_logs / "zs-2").expect(0)
    assert "index.interval.bytes 2048, as __cluster_metadata-0 has it" in " ".join(done.err.split())


def test_recover_says_what_keeps_the_node_from_starting(kseg: Kseg, known_logs: Path) -> None:
    assert kseg("recover", known_logs).status == 0
    (known_logs / "__cluster_metadata-0" / "quorum-state").write_bytes(b"\0\1")
    (known_logs / "meta.properties").unlink()
    words = " ".join(kseg("recover", known_logs).expect(1).err.split())
    assert "meta.properties: is missing: a node of KRaft does not start without it" in words
    assert "a node of KRaft does not start with it; move it away" in words


CHANGING = (
    ("recover",), ("recover", "--mode", "salvage"), ("reindex",), ("convert", "--codec", "gzip", "--in-place"),
)  # fmt: skip


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory of three topics, each with the same damage."""
    for name in ("orders-0", "orders-1", "audit-a-0", "audit-b-0"):
        shutil.copytree(ZEROED, tmp_path / "logs" / name)
    return tmp_path / "logs"


def test_undo_restores_only_these_topics(logs: Path, kseg: Kseg) -> None:
    before = files(logs, kept=False)
    kseg("recover", logs)
    assert changed(before, logs) == {"orders-0", "orders-1", "audit-a-0", "audit-b-0"}
    listed = kseg("undo", "--list", "--topic", "orders", "--format", "json", logs).of_type("change")
    assert {Path(row["directory"]).name for row in listed} == {"orders-0", "orders-1"}
    assert kseg("undo", "--dry-run", "--topic", "orders", logs).status == 1
    assert kseg("undo", "--topic", "orders", logs).status == 0
    assert changed(before, logs) == {"audit-a-0", "audit-b-0"}
    kseg("undo", "--topic", "orders", logs).expect(3, "no change of these topics")
    assert kseg("undo", "--purge", "--topic", "audit-a", logs).status == 0
    assert not kseg("undo", "--list", "--topic", "audit-a", "--format", "json", logs).of_type("change")
    assert kseg("undo", "--topic", "audit-b", logs).status == 0
    assert changed(before, logs) == {"audit-a-0"}


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_exports_hold_only_these_topics(logs: Path, kseg: Kseg, form: str) -> None:
    kseg("recover", "--mode", "salvage", logs)
    lines = kseg("convert", "--to", form, "--topic", "audit-b", "-o", "-", logs).out
    assert lines == kseg("convert", "--to", form, "-o", "-", logs / "audit-b-0").out
    assert lines


READING = [("convert", "--to", "csv", "-o", "-"), ("dump",), ("verify",), ("stats",), ("transactions",)]


@pytest.mark.parametrize("words", [*CHANGING, ("undo",), *READING], ids=" ".join)
def test_a_name_of_no_topic_is_refused(logs: Path, kseg: Kseg, words: tuple[str, ...]) -> None:
    before = files(logs, kept=False)
    kseg(*words, "--topic", "none", logs).expect(3, "no partition of a topic that --topic names")
    assert changed(before, logs) == set()


@pytest.mark.parametrize("words", [*CHANGING, *READING], ids=" ".join)
def test_one_of_several_names_is_refused(logs: Path, kseg: Kseg, words: tuple[str, ...]) -> None:
    before = files(logs, kept=False)
    done = kseg(*words, "--topic", "orders", "--topic", "none", logs)
    assert (done.status, "no partition of a topic that --topic names: none" in done.err) == (3, True)
    assert changed(before, logs) == set()
    dry = ("-n",) * (words in CHANGING)
    assert "no topic matches --topic nope*" in kseg(*words, *dry, "--topic", "orders", "--topic", "nope*", logs).err


def test_replicas_are_compared_for_only_these_topics(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(logs, tmp_path / "replica")
    done = kseg("verify", "--against", tmp_path / "replica", "--topic", "audit-*", "--format", "json", logs)
    assert [Path(row["file"]).name for row in done.of_type("comparison")] == ["audit-a-0", "audit-b-0"]
    assert kseg("verify", "--manifest", tmp_path / "new", "--topic", "orders", logs).status == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", [("stats",), ("recover", "--dry-run", "--full")])
def test_a_segment_that_strayed_into_a_log_directory_hides_no_partition(
    command: tuple[str, ...], kseg: Kseg, known_logs: Path
) -> None:
    before = kseg(*command, "--format", "json", known_logs)
    (known_logs / "0.log").touch()
    after = kseg(*command, "--format", "json", known_logs)
    assert (after.status, after.objects[:-1]) == (before.status, before.objects[:-1])
