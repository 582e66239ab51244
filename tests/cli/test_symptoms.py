"""``kseg symptoms``: what it prints, and that the commands it prints find what it says."""

import io
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg, findings_of

CRASHED = (
    "[2026-11-21 09:00:41,927] WARN Found invalid messages in log segment {path}/00000000000000000116.log at byte "
    "offset 7129. (org.apache.kafka.storage.internals.log.LogSegment)"
)
TRUNCATED = (
    "[2026-11-21 09:00:41,942] WARN [LogLoader partition={name}, dir={root}] Corruption found in segment 116, "
    "truncating to offset 134 (org.apache.kafka.storage.internals.log.LogLoader)"
)
INDEX = (
    "WARN [LogLoader partition={name}, dir={root}] Found a corrupted index file corresponding to log file "
    "{path}/00000000000000000116.log due to Index file {path}/00000000000000000116.index is corrupt, found 13 bytes "
    "which is neither positive nor a multiple of 8.}}, recovering segment and rebuilding index files..."
)
ORPHAN = "WARN Found an orphaned index file, {path}/00000000000000000046.index, with no corresponding log file."
SNAPSHOT = (
    "WARN [ProducerStateManager partition={name}] Failed to load producer snapshot from "
    "'{path}/00000000000000000150.snapshot': Snapshot is corrupt (CRC is no longer valid). Stored crc: 1."
)
EPOCHS = "java.io.IOException: Malformed line in checkpoint file [{path}/leader-epoch-checkpoint]: xx"


def damaged(tmp_path: Path, line: str) -> tuple[Path, str]:
    """A partition in a log directory, damaged so that a broker says ``line``; the line with its paths."""
    path = tmp_path / "my logs" / "dplain-0"
    case = "4.3.1-last-flip-body" if line in (CRASHED, TRUNCATED) else "4.3.1-control-clean"
    shutil.copytree(TESTDATA / "damaged" / case / "dplain-0", path)
    (path.parent / "recovery-point-offset-checkpoint").write_text("0\n1\ndplain 0 0\n")
    if line is INDEX:
        (path / "00000000000000000116.index").write_bytes(b"\0\0\0\7\0\0\0\1\0\0\0\0\0")
    elif line is ORPHAN:
        (path / "00000000000000000046.index").write_bytes(b"")
    elif line is SNAPSHOT:
        (path / "00000000000000000150.snapshot").write_bytes(b"\0\1garbage-garbage")
    elif line is EPOCHS:
        (path / "leader-epoch-checkpoint").write_text("0\nxx\n")
    return path, line.format(path=path, name=path.name, root=path.parent)


@pytest.mark.parametrize("line", [CRASHED, TRUNCATED, INDEX, ORPHAN, SNAPSHOT, EPOCHS])
def test_the_commands_of_a_line_find_what_it_says(kseg: Kseg, tmp_path: Path, line: str) -> None:
    path, told = damaged(tmp_path, line)
    (entry,) = kseg("symptoms", "--format", "json", told).objects
    commands = [command["argv"] for command in entry["commands"]]
    assert ["kseg", "verify", str(path)] in commands
    found = {each["code"] for each in findings_of(kseg, path)}
    assert found & set(entry["findings"])
    for argv in commands:
        if "REPLICA" in argv or "--dry-run" not in argv:
            continue
        assert kseg(*argv[1:]).status in (0, 1, 3)


@pytest.mark.parametrize("end", [" (kafka.server.LogDirFailureChannel)", " with offset 150 and recovery point 120"])
def test_a_path_with_spaces_is_whole_or_not_shown(kseg: Kseg, end: str) -> None:
    done = kseg("symptoms", f"ERROR Error while flushing log for a-0 in dir /mnt/my disk/kafka{end}").expect(0)
    place = "'/mnt/my disk/kafka'" if "(" in end else "LOGDIR"
    assert f"    kseg verify {place}" in done.lines


def test_the_text_shows_cause_and_commands(kseg: Kseg, tmp_path: Path) -> None:
    path, told = damaged(tmp_path, CRASHED)
    done = kseg("symptoms", told).expect(0)
    assert done.lines[0] == "invalid-messages"
    printed = [shlex.split(line) for line in done.lines if line.startswith("    kseg ")]
    assert ["kseg", "dump", "--hex", "--position", "7129..7640", f"{path}/00000000000000000116.log"] in printed
    assert b"crc-mismatch" in kseg(*printed[0][1:]).expect(1).out


def test_a_log_is_read_from_standard_input(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "INFO Kafka version: 4.3.1",
        INDEX.format(path="/kafka-logs/a-0", name="a-0", root="/kafka-logs"),
        "WARN Stopping serving logs in dir /kafka-logs (kafka.log.LogManager)",
        INDEX.format(path="/kafka-logs/b-1", name="b-1", root="/kafka-logs"),
        INDEX.format(path="/kafka-logs/b-1", name="b-1", root="/kafka-logs"),
    ]
    data = "\n".join(lines).encode() + b"\n\xff\xfe no UTF-8"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    (index,) = kseg("symptoms", "--format", "json", "-").objects
    assert (index["name"], index["count"], index["lineNumber"]) == ("corrupt-index", 3, 2)
    assert [place["partition"] for place in index["places"]] == ["/kafka-logs/a-0", "/kafka-logs/b-1"]
    (offline,) = index["consequences"]
    assert (offline["name"], offline["count"], offline["lineNumber"]) == ("directory-offline", 1, 3)


def test_the_name_of_a_file_is_no_message(kseg: Kseg, tmp_path: Path) -> None:
    (tmp_path / "server log").write_bytes(b"No space left on device\n")
    kseg("symptoms", tmp_path / "server log").expect(1, f"kseg symptoms - < '{tmp_path}/server log'")


def test_paths_are_quoted_for_the_shell_and_harmless_on_a_terminal(kseg: Kseg) -> None:
    done = kseg("symptoms", "Found invalid messages in log segment /a/$(id)`x`-0/0.log at byte offset 7\x1b[2J")
    assert done.status == 0
    assert b"\x1b" not in done.out
    for line in done.lines:
        if line.startswith("    kseg "):
            assert not re.search(r"(?<!')/a/\$", line)


def test_output_goes_to_a_file(kseg: Kseg, tmp_path: Path) -> None:
    kseg("symptoms", "--format", "json", "-o", tmp_path / "found.jsonl", "CorruptRecordException")
    assert json.loads((tmp_path / "found.jsonl").read_text())["name"] == "corrupt-record"


def test_a_log_of_hostile_lines_is_bounded(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b"Found an orphaned index file /d/t-%d/0.index\n" % i for i in range(500)) + b"/" * 3_000_000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    (entry,) = kseg("symptoms", "--format", "json", "-").objects
    assert (entry["count"], len(entry["places"])) == (500, 20)
