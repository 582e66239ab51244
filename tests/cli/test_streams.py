"""Standard streams as shells, pipes and terminals leave them: closed, full, cut off, no file; and Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.command import COMMAND, ENVIRONMENT, TESTDATA, Kseg, on_terminal

SEGMENT = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0/00000000000000000000.log"
MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log"
needs_full = pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")


FILES_OF_AT_MOST = "export PYTHONDONTWRITEBYTECODE=1; ulimit -f"
"""Before Python 3.14, a compiled module that is longer is left cut off, and whatever imports it next fails."""


def shell(script: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Runs a script of sh in which ``kseg`` is this kseg and $1, $2, … are the arguments."""
    prelude = f"kseg() {{ '{sys.executable}' -P -m kseg \"$@\"; }}\n"
    command = ["sh", "-c", prelude + script, "sh", *(str(argument) for argument in arguments)]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment whose dump is longer than any pipe holds."""
    path = tmp_path_factory.mktemp("large") / "large.log"
    path.write_bytes(MIXED.read_bytes() * 40)
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("more", ["", "--limit 1000000"], ids=["runs", "batches"])
def test_a_closed_pipe_ends_it_silently(form: str, more: str, large: Path) -> None:
    script = f'{{ kseg dump --print-data-log --format {form} {more} "$1"; echo $? >&3; }} 3>&2 | head -n 1'
    done = shell(script, large)
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b"0\n"


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        ('kseg dump "$1" >&-', 3, "kseg: standard output is closed\n"),
        ("kseg dump - <&-", 3, "kseg: standard input is closed\n"),
        ('kseg dump "$1" <&- >&- 2>&-', 3, ""),
        ("kseg dump no-such 2>&-", 3, ""),
        ("kseg no-such 2>&-", 2, ""),
        ("kseg --version >&-", 0, ""),
        ("kseg dump --help >&-", 0, ""),
        ('kseg dump "$1" <&- >out', 0, ""),
        ('kseg dump -o out "$1" >&-', 0, ""),
    ],
)
def test_streams_may_be_closed(script: str, status: int, message: str, tmp_path: Path) -> None:
    done = shell(script, SEGMENT, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (status, b"", message)


@pytest.mark.sampled(2)
@needs_full
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_is_half_way(form: str) -> None:
    done = shell(f'kseg dump --format {form} "$1" > /dev/full', SEGMENT)
    assert (done.returncode, done.stderr) == (4, b"kseg: standard output: No space left on device\n")
    assert shell("kseg --help > /dev/full").returncode == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("output", ["> out", "-o out"])
def test_a_file_of_the_largest_size_that_is_allowed_is_half_way(output: str, tmp_path: Path) -> None:
    done = shell(f'{FILES_OF_AT_MOST} 1; kseg dump --print-data-log "$1" {output}', MIXED, cwd=tmp_path)
    assert (done.returncode, done.stderr.count(b"File too large")) == (4, 1)
    assert shell(f"{FILES_OF_AT_MOST} 0; kseg --help > help", cwd=tmp_path).returncode == 4


@pytest.mark.sampled(6)
@needs_full
@pytest.mark.parametrize(
    ("script", "status"),
    [
        ('kseg verify "$1" 2> /dev/full', 0),
        ('kseg dump "$1" > out 2> /dev/full', 0),
        ("kseg no-such 2> /dev/full", 2),
        ("kseg dump no-such 2> /dev/full", 3),
        ('kseg verify "$1" 2>&1 > out | true; kseg verify "$1" 2> /dev/full', 0),
    ],
)
def test_a_full_standard_error_changes_no_exit_status(script: str, status: int, tmp_path: Path) -> None:
    assert shell(script, SEGMENT.parent, cwd=tmp_path).returncode == status


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        (signal.SIGINT, 130, b"kseg: interrupted\n"),
        (signal.SIGTERM, 143, b"kseg: ended by SIGTERM\n"),
        (signal.SIGHUP, 129, b"kseg: ended by SIGHUP\n"),
    ],
)
def test_a_signal_leaves_no_file(number: signal.Signals, status: int, message: bytes, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "out").write_text("old")
    arguments = ["dump", "-o", "out", str(SEGMENT), "fifo"]
    process = subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(path.suffix == ".tmp" for path in tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)  # from the temporary file to waiting for somebody to open the FIFO
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, message)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "out"]
    assert (tmp_path / "out").read_text() == "old"


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """Under nohup a closed terminal ends nothing."""
    script = 'trap "" HUP; mkfifo fifo; kseg dump -o out "$1" fifo & sleep 0.5; kill -HUP $!; : > fifo; wait $!'
    done = shell(script, SEGMENT, cwd=tmp_path)
    assert (done.returncode, (tmp_path / "out").exists()) == (0, True), done.stderr


@pytest.mark.slow
def test_a_module_that_is_cut_off_is_no_interrupt(tmp_path: Path) -> None:
    script = 'unset PYTHONDONTWRITEBYTECODE; export PYTHONPYCACHEPREFIX=compiled; kseg dump -o out "$1"'
    assert shell(script, SEGMENT, cwd=tmp_path).returncode == 0
    (compiled,) = (tmp_path / "compiled").rglob("output/sink.*.pyc")
    os.truncate(compiled, 512)
    done = shell(script, SEGMENT, cwd=tmp_path)
    message = "a compiled module of this installation is cut off (marshal data too short)"
    assert (done.returncode, done.stderr.decode()) == (3, f"kseg: {message}: delete its __pycache__ directories\n")


def test_an_interrupt_in_the_middle_of_printing_is_130(large: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "dump", "--print-data-log", "--limit", "1000000", str(large)],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.read(10)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"kseg: interrupted\n")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "script",
    [
        'cat "$1" | kseg dump --print-data-log -',
        'kseg dump --print-data-log - < "$1"',
        'gzip -c "$1" | gzip -dc | kseg dump --print-data-log -',
        "cat whole | { kseg dump --print-data-log --files -; }",
    ],
)
def test_standard_input_is_a_segment(script: str, tmp_path: Path) -> None:
    shutil.copy(MIXED, tmp_path / "whole")
    done = shell(script, MIXED, cwd=tmp_path)
    expected = shell('kseg dump --print-data-log "$1"', MIXED).stdout.split(b"\n", 2)
    assert expected[1] == b"Log starting offset: 0"
    assert done.stdout.split(b"\n", 1) == [b"Dumping -", expected[2]]
    assert done.stderr == b""


def test_standard_input_may_be_half_read(tmp_path: Path) -> None:
    """Where a shell has read from the file before, the rest is the segment."""
    (tmp_path / "file").write_bytes(b"0123456789" + SEGMENT.read_bytes())
    done = shell("{ dd bs=10 count=1 of=/dev/null 2>/dev/null; kseg dump -; } < file", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith(b"Dumping -\nbaseOffset: 0 ")


@pytest.mark.slow
def test_read_committed_of_a_pipe_is_that_of_the_file(tmp_path: Path) -> None:
    """A pipe cannot be read twice, once for the markers and once for the records."""
    source = TESTDATA / "kafka-0.11.0.3/txn/txn-timeout-0/00000000000000000000.log"
    alone = tmp_path / "alone"
    shutil.copy(source, alone)
    flags = "--format json --deep-iteration --isolation read_committed"
    by_name = shell(f"kseg dump {flags} alone", cwd=tmp_path).stdout.replace(b'"alone"', b'"-"')
    assert shell(f"cat alone | kseg dump {flags} -", cwd=tmp_path).stdout == by_name
    assert shell(f"kseg dump {flags} - < alone", cwd=tmp_path).stdout == by_name
    assert by_name != shell("kseg dump --format json --deep-iteration - < alone", cwd=tmp_path).stdout
    piped = shell(f"mkfifo fifo; cat alone > fifo & kseg dump {flags} fifo", cwd=tmp_path).stdout
    assert piped == by_name.replace(b'"-"', b'"fifo"')


@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        ("dump --offsets 99999..", 0, b"nothing found in fifo: no record in it matches"),
        ("stats --time 2020-01-01", 0, b"nothing found in fifo: no record in it matches"),
        ("dump --last 2", 2, b"--last and --around need files, to be read twice"),
        ("verify --manifest manifest", 2, b"--manifest is of files, not of standard input or a FIFO"),
    ],
)
def test_a_fifo_is_not_opened_twice(tmp_path: Path, command: str, status: int, told: bytes) -> None:
    """Nobody would write again."""
    script = f'mkfifo fifo; cat "$1" > fifo & kseg {command} fifo; status=$?; kill $!; exit $status'
    done = shell(script, SEGMENT, cwd=tmp_path)
    assert done.returncode == status
    assert told in done.stderr


def test_output_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    expected = shell('kseg dump "$1"', SEGMENT).stdout
    (tmp_path / "out").write_text("old")
    assert shell(f'{FILES_OF_AT_MOST} 0; trap "" XFSZ; kseg dump -o out "$1"', SEGMENT, cwd=tmp_path).returncode == 4
    assert (tmp_path / "out").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    done = shell('umask 027; kseg dump -o out "$1"', SEGMENT, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "out").read_bytes() == expected
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_output_keeps_what_is_no_file(tmp_path: Path) -> None:
    expected = shell('kseg dump "$1"', SEGMENT).stdout
    script = 'mkfifo fifo; cat fifo > got & kseg dump -o fifo "$1"; wait; test -p fifo && cat got'
    assert shell(script, SEGMENT, cwd=tmp_path).stdout == expected
    (tmp_path / "link").symlink_to("target")
    assert shell('kseg dump -o link "$1"', SEGMENT, cwd=tmp_path).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == expected
    assert shell('kseg dump -o - "$1"', SEGMENT, cwd=tmp_path).stdout == expected
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("output", [".", "missing/out", "out/"])
def test_output_that_cannot_be_made_is_an_error(
    output: str, kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = kseg("dump", "-o", output, SEGMENT).expect(3, out=b"")
    assert done.err.startswith("kseg: ")
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_devices_are_no_segments(path: str, kseg: Kseg) -> None:
    assert kseg("dump", path).expect(3).err == f"kseg: {path}: not a regular file\n"


def test_a_terminal_is_given_no_control_characters(tmp_path: Path) -> None:
    source = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0"
    shown = on_terminal("dump", "--print-data-log", str(source)).replace(b"\r\n", b"\n")
    assert len(shown) > 10_000
    assert {character for character in shown if character < 32 or character == 127} == {10}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "arguments",
    [
        ["dump"], ["dump", "--all"], ["stats"], ["dump", "--hex"], ["dump", "--format", "table"],
        ["transactions"], ["dump", "--format", "json"], ["dump", "-v", "--offsets", "7"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_terminal_is_given_no_control_characters_of_names(arguments: list[str], tmp_path: Path) -> None:
    # In JSON a name that is no UTF-8 is base64.
    folder = tmp_path / f"a\x1b]0;b\x07\u009b2J{'' if 'json' in arguments else chr(0xDCFF)}\x7f-0"
    folder.mkdir()
    (folder / SEGMENT.name).write_bytes(SEGMENT.read_bytes() + b"\xff" * 5)
    (folder / "00000000000000000000.index").write_bytes(bytes(8))
    shown = on_terminal(*arguments, "--color", "never", os.fsencode(folder)).replace(b"\r\n", b"\n").decode()
    assert "]0;b" in shown
    assert [char for char in shown if char != "\n" and not char.isprintable()] == []


def test_errors_on_a_terminal_are_colored() -> None:
    assert on_terminal("dump", "no-such") == b"\x1b[31m\x1b[1mkseg:\x1b[0m no-such: no such file or directory\r\n"
    assert on_terminal("dump", "--color", "never", "no-such") == b"kseg: no-such: no such file or directory\r\n"


def test_help_fits_80_columns() -> None:
    for arguments in (["--help"], ["dump", "-h"]):
        lines = on_terminal(*arguments).decode().splitlines()
        assert len(lines) > 10
        assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_is_made_as_the_manual_says(name: str) -> None:
    done = shell(f"_KSEG_COMPLETE={name}_source kseg")
    assert done.returncode == 0
    assert b"_KSEG_COMPLETE" in done.stdout


def test_completion_completes() -> None:
    found = shell('COMP_WORDS="kseg dump --isol" COMP_CWORD=2 _KSEG_COMPLETE=bash_complete kseg')
    assert found.stdout == b"plain,--isolation\n"


def test_a_terminal_is_given_notices_of_80_columns(tmp_path: Path) -> None:
    """A pipe is given a line each."""
    partition = tmp_path / "a-0"
    partition.mkdir()
    (partition / SEGMENT.name).write_bytes(SEGMENT.read_bytes()[:-7])
    arguments = ("recover", "--dry-run", "--color", "never", str(partition))
    shown = on_terminal(*arguments).decode().splitlines()
    assert [line for line in shown if len(line) > 80 and len(line.removeprefix("kseg: ").split()) > 1] == []
    lines = shell('kseg recover --dry-run "$1"', str(partition)).stderr.decode().splitlines()
    assert all(line.startswith("kseg: ") for line in lines)
    assert max(map(len, lines)) > 80
    all_shown = "".join("".join(shown).split())
    assert all("".join(line.split()) in all_shown for line in lines)
