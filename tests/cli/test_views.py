"""``kseg dump`` with --format table, --hex and --summary."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

LOG_DIRECTORY = TESTDATA / "log-directories/4.3.1/logs"
TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
SEGMENT = TRANSACTIONS / "00000000000000001187.log"
GZIP = TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0/00000000000000000000.log"
ZEROS = next((TESTDATA / "damaged/4.3.1-mid-append-zeros4096").glob("*/*.log"))


def test_table(kseg: Kseg) -> None:
    found = kseg("dump", "--format", "table", "--print-data-log", TRANSACTIONS)
    assert found.status == 0
    assert found.lines[0].split()[:3] == ["POSITION", "SIZE", "OFFSETS"]
    assert any(line.startswith("offsets ") for line in found.lines[-3:])


def test_table_of_some_offsets(kseg: Kseg) -> None:
    found = kseg("dump", "--format", "table", "--deep-iteration", "--offsets", "1188..1189", SEGMENT)
    assert [line.split()[0] for line in found.lines[3:5]] == ["1188", "1189"]
    assert "1 batches, 4 records" in found.lines[5]


def test_table_of_damage(kseg: Kseg) -> None:
    found = kseg("dump", "--format", "table", ZEROS)
    assert found.status == 1
    assert found.lines[-1] == "damage: 1 ranges, 4,096 bytes; batches with problems: 0"


def test_hex(kseg: Kseg) -> None:
    found = kseg("dump", "--hex", "--position", "0..22", SEGMENT)
    assert found.status == 0
    names = [line[31:51].strip() for line in found.lines[2:]]
    assert names == ["baseOffset", "batchLength", "partitionLeaderEpoch", "magic", "crc", "attributes", ""]


def test_hex_opens_batches_with_deep_iteration(kseg: Kseg) -> None:
    assert b"decompressed:" not in kseg("dump", "--hex", GZIP).out
    assert b"decompressed:" in kseg("dump", "--hex", "--deep-iteration", GZIP).out


def test_hex_at_the_same_place_in_other_numbers(kseg: Kseg) -> None:
    in_hex = kseg("dump", "--hex", "--position", "0x10..0x10", SEGMENT)
    assert b"magic" in in_hex.out
    assert in_hex.out == kseg("dump", "--hex", "--position", "16", SEGMENT).out


def test_summary(kseg: Kseg) -> None:
    (found,) = kseg("dump", "--summary", "--format", "json", TRANSACTIONS).objects
    assert found["type"] == "summary"
    assert found["files"] == len(list(TRANSACTIONS.glob("*.log")))
    text = kseg("dump", "--summary", ZEROS)
    assert text.status == 1
    assert text.err == ""


def test_what_if_implies_the_summary(kseg: Kseg) -> None:
    (found,) = kseg("dump", "--what-if", "zstd:19", "--format", "json", GZIP).objects
    assert found["whatIf"]["level"] == 19


@pytest.mark.parametrize(
    "options",
    [
        ["--hex", "--summary"],
        ["--hex", "--format", "json"],
        ["--summary", "--format", "table"],
        ["--position", "1..2"],
        ["--hex", "--position", "2..1"],
        ["--hex", "--position", ".."],
        ["--hex", "--position", "0xg"],
        ["--sample", "5"],
        ["--what-if", "brotli"],
        ["--what-if", "zstd:99"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_wrong_usage(kseg: Kseg, options: list[str]) -> None:
    assert kseg("dump", *options, SEGMENT).status == 2


def on_terminal(arguments: list[str], interrupt: bool = False) -> tuple[bytes, int]:
    """What kseg writes to standard error where that is a terminal, and its exit status."""
    ours, theirs = pty.openpty()
    code = "import kseg.output.progress as p; p.DELAY_SECONDS = p.INTERVAL_SECONDS = 0; p.PIECE_BYTES = 4096\n"
    code += "from kseg.__main__ import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(theirs)
    written = bytearray()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 0.1)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        written += piece
        if interrupt and b"%" in written:
            interrupt = False
            process.send_signal(signal.SIGINT)
    os.close(ours)
    return bytes(written), process.wait(60)


def test_progress_is_drawn_and_erased() -> None:
    written, status = on_terminal(["dump", "--summary", str(TRANSACTIONS)])
    assert status == 0
    assert b"100%" in written
    assert written.endswith(b"\r\x1b[2K")


@pytest.mark.parametrize("mode", ["broker", "salvage"])
def test_a_recovery_of_a_log_directory_shows_progress(mode: str, tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    shutil.copytree(LOG_DIRECTORY, directory)
    written, status = on_terminal(["recover", "--dry-run", "--mode", mode, str(directory)])
    assert status in (0, 1)
    assert b"100%" in written
    quiet, _ = on_terminal(["recover", "--dry-run", "--quiet", "--mode", mode, str(directory)])
    assert b"%" not in quiet


def test_quiet_silences_progress() -> None:
    assert on_terminal(["dump", "--quiet", "--summary", str(TRANSACTIONS)]) == (b"", 0)


def test_an_interrupt_leaves_no_progress_behind(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(SEGMENT.read_bytes() * 4000)
    written, status = on_terminal(["dump", "--summary", str(path)], interrupt=True)
    assert status == 130
    assert written.rindex(b"\r\x1b[2K") > written.rindex(b"%")
    assert written.rstrip().endswith(b"interrupted")


def test_a_table_in_a_pipe_is_as_wide_as_columns_says(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = kseg("dump", "--format", "table", SEGMENT).lines[0]
    monkeypatch.setenv("COLUMNS", "60")
    narrow = kseg("dump", "--format", "table", SEGMENT).lines[0]
    assert len(narrow) <= 60 < len(wide)


def test_a_summary_is_called_after_what_was_named(kseg: Kseg) -> None:
    """After the partition also where that has one segment, and each time it is named."""
    asked = ("dump", "--summary", "--format", "json")
    assert [row["path"] for row in kseg(*asked, GZIP.parent, GZIP).objects] == [str(GZIP.parent), str(GZIP)]
