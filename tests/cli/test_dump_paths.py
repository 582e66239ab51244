"""What a PATH of ``kseg dump`` may be, in what order paths are worked on, and what happens to those that cannot be."""

import gzip
import os
import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import LOGS, TESTDATA, ZEROED, Kseg, flip
from failing_disk import PAGE, FailDisk

# No command passes over in silence what looks like a segment, or a log directory further down.

SKIPPED_SEGMENT = "00000000000000000116.log"
COMMANDS = [
    ["dump"], ["recover", "-n"], ["compact", "-n"], ["retain", "-n"], ["reindex", "-n"],
    ["convert", "--to", "jsonl"], ["convert", "--to", "v2", "--output", "out"],
]  # fmt: skip


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outer").mkdir()
    return Path(shutil.copytree(LOGS, tmp_path / "outer" / "data-1"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_other_names_and_packed_segments_are_told(command: list[str], logs: Path, kseg: Kseg) -> None:
    assert "not read" not in kseg(*command, logs).err
    shutil.rmtree("out", ignore_errors=True)
    partition = logs / "dplain-0"
    shutil.copy(partition / SKIPPED_SEGMENT, partition / "segment-old.log.bak")
    (partition / f"{SKIPPED_SEGMENT}.gz").write_bytes(gzip.compress((partition / SKIPPED_SEGMENT).read_bytes()))
    (partition / "00000000000000000200.log").symlink_to("00000000000000000200.log")
    (partition / "notes.txt").write_text("not Kafka's\n")
    shutil.copy(partition / SKIPPED_SEGMENT, logs / "evidence")
    done = kseg(*command, logs)
    names = f"{SKIPPED_SEGMENT}.gz, 00000000000000000200.log, segment-old.log.bak"
    packed = partition / f"{SKIPPED_SEGMENT}.gz"
    hints = "kseg verify shows more; kseg dump reads a packed segment that it is given by name"
    assert f"{partition}: not read: {names} ({hints})" in done.err
    assert kseg("dump", packed).status == 0
    assert f"{logs}: not read: evidence (kseg verify shows more)" in done.err


def test_salvage_passes_over_what_it_cannot_read(logs: Path, kseg: Kseg) -> None:
    partition = logs / "dplain-0"
    shutil.copy(partition / SKIPPED_SEGMENT, partition / "segment-old.log.bak")
    (partition / f"{SKIPPED_SEGMENT}.gz").write_bytes(gzip.compress((partition / SKIPPED_SEGMENT).read_bytes()))
    for path in (logs, partition):
        done = kseg("recover", "--mode", "salvage", "-n", path)
        assert f"{partition}: not read: {SKIPPED_SEGMENT}.gz (kseg" in done.err


@pytest.mark.parametrize("command", [*COMMANDS, ["undo", "--list"]], ids=" ".join)
def test_the_directory_that_holds_log_directories_stands_for_them(command: list[str], logs: Path, kseg: Kseg) -> None:
    if "--output" in command:
        command = [*command, "--dry-run"]
    inside, above = (kseg(*command, path) for path in (logs, logs.parent))
    assert (inside.status, inside.out, inside.err) == (above.status, above.out, above.err)


@pytest.mark.parametrize("command", [*COMMANDS, ["undo", "--list"]], ids=" ".join)
def test_a_directory_further_above_names_the_log_directories(command: list[str], logs: Path, kseg: Kseg) -> None:
    done = kseg(*command, logs.parent.parent)
    done.expect(3, f"{logs.parent.parent}: neither a partition nor a log directory; log directories in it: {logs}")


@pytest.mark.parametrize("command", [["dump"], *COMMANDS[-2:]], ids=" ".join)
def test_packed_segments_alone_are_no_empty_partition(command: list[str], tmp_path: Path, kseg: Kseg) -> None:
    partition = tmp_path / "dplain-0"
    partition.mkdir()
    (partition / f"{SKIPPED_SEGMENT}.gz").write_bytes(gzip.compress((LOGS / "dplain-0" / SKIPPED_SEGMENT).read_bytes()))
    kseg(*command, partition).expect(3, f"not read: {SKIPPED_SEGMENT}.gz")


def test_a_manifest_that_matches_says_so(logs: Path, kseg: Kseg) -> None:
    assert "written, 4 files" in kseg("verify", "--manifest", "m", logs).err
    assert "m: compared, 4 files; they match" in kseg("verify", "--manifest", "m", logs).err
    flip(logs / "dplain-0" / SKIPPED_SEGMENT, 200)
    assert "m: compared, 4 files; differences: 1" in kseg("verify", "--manifest", "m", logs).err


def test_a_directory_of_metadata_alone_is_checked(logs: Path, tmp_path: Path, kseg: Kseg) -> None:
    configuration = tmp_path / "controller.properties"
    for lines in (f"metadata.log.dir={logs}\n", f"log.dirs={tmp_path}/none\nmetadata.log.dir={logs}\n"):
        configuration.write_text(lines)
        done = kseg("verify", configuration)
        assert "kseg: files: 5 " in done.err
        assert kseg("verify", "--server-properties", configuration) == done


def test_a_manifest_of_the_disks_of_a_node(tmp_path: Path, kseg: Kseg) -> None:
    """However the node is named, each file of each disk is covered, and is missing where it was."""
    disks = [Path(shutil.copytree(LOGS, tmp_path / "node" / name)) for name in "ab"]
    configuration = tmp_path / "server.properties"
    configuration.write_text(f"log.dirs={disks[1]},{disks[0]}\n")
    archive = shutil.make_archive(str(tmp_path / "copy"), "tar", tmp_path, "node")
    spellings = [disks, [configuration], [tmp_path / "node"], [archive]]
    assert "written, 8 files" in kseg("verify", "--manifest", tmp_path / "m", *disks).err
    for paths in spellings:
        assert "compared, 8 files; they match" in kseg("verify", "--manifest", tmp_path / "m", *paths).err
    for disk in disks:
        flip(disk / "meta.properties", 3)
        (disk / "dplain-0" / SKIPPED_SEGMENT).unlink()
    for paths in spellings[:3]:
        found = kseg("verify", "--manifest", tmp_path / "m", "--format", "json", *paths).objects
        places = {(row["code"], row["file"]) for row in found if row["type"] == "finding"}
        for disk in disks:
            assert ("manifest-side-file", str(disk / "meta.properties")) in places
            assert ("manifest-missing", str(disk / "dplain-0" / SKIPPED_SEGMENT)) in places
    assert kseg("verify", "--manifest", disks[0] / "m", configuration).status == 2


def test_sectors_that_cannot_be_read(logs: Path, kseg: Kseg, fail_disk: FailDisk) -> None:
    damaged = logs / "dplain-0" / SKIPPED_SEGMENT
    other = shutil.copytree(LOGS, logs.parent.parent / "other")
    flip(other / "dplain-0" / SKIPPED_SEGMENT, 300)
    fail_disk(damaged, PAGE, PAGE + 512)
    fail_disk(logs / "replication-offset-checkpoint", 0, 1)
    done = kseg("verify", "--format", "json", logs, other)
    found = {(row["code"], row["file"]) for row in done.objects if row["type"] == "finding"}
    assert done.status == 1
    assert ("unreadable-bytes", str(damaged)) in found
    assert ("crc-mismatch", str(other / "dplain-0" / SKIPPED_SEGMENT)) in found
    dumped = kseg("dump", "--format", "json", damaged)
    rows = [row for row in dumped.objects if row["type"] == "damage"]
    assert (dumped.status, [row["code"] for row in rows]) == (1, ["unreadable-bytes"])
    assert sum(row["type"] == "batch" for row in dumped.objects) > 1


def test_a_file_cut_short_while_it_is_dumped(logs: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    from kseg.stores.source import Source

    monkeypatch.setattr(Source, "current_size", lambda source: source.size // 2)
    done = kseg("dump", logs / "dplain-0" / SKIPPED_SEGMENT)
    done.expect(1, "the file shrank while it was read: 7137 of 14274 bytes are left")


SEGMENT = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0/00000000000000000000.log"
NAME = SEGMENT.name
OLD = next((TESTDATA / "kafka-0.6/magic0/MagicByte0-0").glob("*.kafka"))
COMPACT_V0 = TESTDATA / "kafka-0.8.2.2/codecs/compact-0"
needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_created() -> Iterator[None]:
    """No test here may find a file of kseg's making in testdata, or in a directory that it dumped."""
    before = sorted(TESTDATA.rglob("*"))
    yield
    assert sorted(TESTDATA.rglob("*")) == before


def partition(parent: Path, name: str, *segments: str) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    for segment in segments or (NAME,):
        shutil.copy(SEGMENT, folder / segment)
    return folder


def dumped(kseg: Kseg, *arguments: object, not_read: str = "") -> list[str]:
    """The files of the ``Dumping`` lines; standard error tells of nothing, or of what is ``not_read``."""
    done = kseg("dump", *arguments)
    assert (done.status, done.err.count("\n")) == (0, bool(not_read))
    assert (f"not read: {not_read} (" in done.err) == bool(not_read)
    return [line.removeprefix("Dumping ") for line in done.lines if line.startswith("Dumping ")]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("./orders-0/{}", "./orders-0/{}"),
        ("orders-0//{}", "orders-0/{}"),
        ("orders-0/../orders-0/{}", "orders-0/../orders-0/{}"),
        ("./orders-0/", "./orders-0/{}"),
    ],
)
def test_paths_are_kafkas(path: str, shown: str, tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    """java.io.File folds doubled slashes and nothing else."""
    partition(tmp_path, "orders-0")
    monkeypatch.chdir(tmp_path)
    assert dumped(kseg, path.format(NAME)) == [shown.format(NAME)]


def test_a_partition_is_read_by_base_offset(tmp_path: Path, kseg: Kseg) -> None:
    names = ["00000000000000000009.log", "00000000000000000010.log", "99.log", "100.log"]
    folder = partition(tmp_path, "t-0", *names)
    for other in ("x.log", "2026-11-21.log", "leader-epoch-checkpoint", f"{NAME}.gz", "7.log.bak", "7.index"):
        (folder / other).write_bytes(b"other")
    (folder / "5.log").mkdir()
    assert dumped(kseg, folder, not_read="5.log") == [str(folder / name) for name in names]


def test_a_log_directory_is_read_by_topic_and_number(tmp_path: Path, kseg: Kseg) -> None:
    logs = tmp_path / "data-1"
    folders = [partition(logs, name) for name in ("a-2", "a-10", "a-b-0", "b-0")]
    (logs / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    shutil.copy(SEGMENT, logs / "bootstrap.checkpoint")
    shutil.copy(SEGMENT, logs / "2026-11-21.log")
    (logs / "remote-log-index-cache").mkdir()
    expected = [str(folder / NAME) for folder in folders]
    stray = "2026-11-21.log"
    assert dumped(kseg, logs, not_read=stray) == expected
    assert dumped(kseg, "--all", logs, not_read=stray) == [*expected, str(logs / "meta.properties")]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("moved", ["", *(f".{'0123456789abcdef' * 2}-{why}" for why in ("delete", "future", "stray"))])
@pytest.mark.parametrize(("name", "topic", "number"), [("orders-3", "orders", 3), ("a-b-3", "a-b", 3), ("--0", "-", 0)])
def test_the_directory_names_topic(name: str, topic: str, number: int, moved: str, tmp_path: Path, kseg: Kseg) -> None:
    folder = partition(tmp_path, name + moved)
    records = kseg("dump", "--format", "json", "--deep-iteration", folder).of_type("record")
    assert {(record["topic"], record["partition"]) for record in records} == {(topic, number)}


def test_leftovers_are_shown_with_all_or_when_named(kseg: Kseg) -> None:
    leftovers = sorted(str(path) for path in COMPACT_V0.glob("*.log.deleted"))
    segments = sorted(str(path) for path in COMPACT_V0.glob("*.log"))
    assert len(leftovers) > 2
    assert dumped(kseg, COMPACT_V0) == segments
    shown = dumped(kseg, "--all", COMPACT_V0)
    assert sorted(name for name in shown if ".log" in Path(name).name) == sorted(segments + leftovers)
    assert {Path(name).suffix for name in shown} >= {".log", ".deleted", ".index"}
    assert dumped(kseg, leftovers[0]) == leftovers[:1]


def test_an_empty_partition_is_clean_and_an_empty_directory_is_nothing(tmp_path: Path, kseg: Kseg) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "logs").mkdir()
    done = kseg("dump", tmp_path / "t-0")
    assert (done.status, done.out, done.err) == (0, b"", "")
    done = kseg("dump", tmp_path / "logs").expect(3, out=b"")
    assert done.err.startswith(f"kseg: {tmp_path / 'logs'}: neither a partition nor a log directory")


@needs_permissions
def test_what_is_unreadable_does_not_stop_the_rest(tmp_path: Path, kseg: Kseg) -> None:
    folder = partition(tmp_path, "t-0", "0.log", "5.log", "9.log")
    (folder / "5.log").chmod(0)
    locked = partition(tmp_path, "u-0")
    locked.chmod(0)
    after = partition(tmp_path, "v-0")
    done = kseg("dump", tmp_path)
    locked.chmod(0o700)
    assert done.status == 3
    shown = [line.removeprefix("Dumping ") for line in done.lines if line.startswith("Dumping")]
    assert shown == [str(path) for path in (folder / "0.log", folder / "9.log", after / NAME)]
    assert done.err == f"kseg: {folder / '5.log'}: Permission denied\nkseg: {locked}: Permission denied\n"


def test_a_file_that_cannot_be_opened_does_not_stop_its_partition(tmp_path: Path, kseg: Kseg) -> None:
    """Reasons that hold for root as well."""
    folder = partition(tmp_path, "t-0", "0.log", "9.log")
    files = [folder / "0.log", folder / "loop.log", folder / "9.log"]
    (folder / "loop.log").symlink_to("loop.log")
    done = kseg("dump", *files).expect(3)
    assert sum(line.startswith("Dumping") for line in done.lines) == 2
    assert [line.rpartition(": ")[2] for line in done.err.splitlines()] == ["Too many levels of symbolic links"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_file_of_another_kind_is_not_taken_for_a_segment(suffix: str, tmp_path: Path, kseg: Kseg) -> None:
    name = NAME + suffix
    (tmp_path / name).write_bytes(b"0\n0\n")
    kseg("dump", tmp_path / name).expect(3, "is not packed", out=b"")


ODD_NAMES = [
    b"with space.log",
    b"line\nbreak.log",
    b"-dash.log",
    b"\xff\xfe.log",
    b"\x1b[31m.log",
    b"noext",
    b'"\\.log',
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_of_a_file_is_valid_json(name: bytes, tmp_path: Path, kseg: Kseg) -> None:
    odd = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))
    shutil.copy(SEGMENT, odd)
    done = kseg("dump", "--format", "json", "--deep-iteration", odd).expect(0)
    values = [found["file"] for found in done.objects]
    assert len(values) == 6
    for value in values:
        found = value.encode() if isinstance(value, str) else b64decode(value["base64"])
        assert found == os.fsencode(odd)
    assert b"\\ud" not in done.out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_messages_keep_to_one_printable_line(name: bytes, kseg: Kseg) -> None:
    done = kseg("dump", "--", os.fsdecode(name)).expect(3)
    assert done.err.endswith(": no such file or directory\n")
    assert done.err[:-1].isprintable()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("digits", ["9223372036854775807", "9223372036854775808", "9" * 19, "9" * 100, "0" * 50 + "7"])
@pytest.mark.parametrize("source", [SEGMENT, OLD], ids=["log", "kafka"])
def test_numbers_in_names_may_be_absurd(source: Path, digits: str, tmp_path: Path, kseg: Kseg) -> None:
    odd = tmp_path / (digits + source.suffix)
    shutil.copy(source, odd)
    for form in ("text", "json"):
        assert kseg("dump", "--format", form, "--print-data-log", odd).status == 0
        assert kseg("dump", "--format", form, "--isolation", "read_committed", "--limit", 3, odd).status == 0


def test_files_is_path_separated_by_commas(kseg: Kseg) -> None:
    other = ZEROED / "00000000000000000116.log"
    assert kseg("dump", "--files", f"{SEGMENT},{other}").out == kseg("dump", SEGMENT, other).out


def test_a_dump_never_replaces_what_it_reads(tmp_path: Path, kseg: Kseg) -> None:
    folder = partition(tmp_path, "t-0")
    link = tmp_path / "link"
    link.symlink_to(folder / NAME)
    for output in (folder / NAME, link):
        kseg("dump", "-o", output, folder).expect(2, "replaced by its own dump")
    assert (folder / NAME).read_bytes() == SEGMENT.read_bytes()
    assert sorted(path.name for path in tmp_path.rglob("*")) == [NAME, "link", "t-0"]


def test_summary_and_details_go_to_standard_error(kseg: Kseg) -> None:
    summary = "kseg: damaged ranges: 1, bytes in them: 305, problems with batches: 0\n"
    plain, quiet, verbose = (kseg("dump", *flags, ZEROED) for flags in ([], ["--quiet"], ["--verbose"]))
    assert plain.out == quiet.out == verbose.out
    assert (plain.err, quiet.err) == (summary, "")
    detail = f"kseg: {ZEROED / '00000000000000000116.log'}: bytes: 14274, batches: 5, damaged ranges: 1\n"
    assert verbose.err == detail + summary
    assert kseg("dump", "--format", "json", ZEROED).err == ""
    assert kseg("dump", "--quiet", "no-such").err == "kseg: no-such: no such file or directory\n"


def test_color_is_for_terminals_or_on_demand(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = "kseg: no-such: no such file or directory\n"
    assert kseg("dump", "no-such").err == kseg("dump", "--color", "never", "no-such").err == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert kseg("dump", "--color", "always", "no-such").err == plain.replace("kseg:", "\x1b[31m\x1b[1mkseg:\x1b[0m")
