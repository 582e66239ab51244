"""Records the whole output of command lines, and compares it: testdata/outputs/README.md says how to record anew.

From the root of the repository: ``PYTHONPATH=tests python -m cli.recording``.
"""

import contextlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from cli.command import TESTDATA, Outcome
from cli.recorded_commands import CHANGES, GROUPS, NARROW, NARROW_COLUMNS, Changes, CommandLine
from kseg.cli.main import run

OUTPUTS = TESTDATA / "outputs"
HEAD, TAIL = 6, 1
MAX_COLUMNS = 240
_HEADING = "=== "
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_VOLATILE = re.compile(r'((?:hostname|timestamp)="|"seconds":)[^",}]*')
"""Host, time and duration of a run."""


def recorded(group: str) -> dict[str, str]:
    """The sections of a file, by heading."""
    parts = re.split(f"^{_HEADING}", (OUTPUTS / f"{group}.txt").read_text("utf-8"), flags=re.MULTILINE)
    return {heading: body for heading, _, body in (part.partition("\n") for part in parts[1:])}


def heading(line: CommandLine) -> str:
    return f"{line.folder}: {shlex.join(line.words)}"


def shown(outcome: Outcome, folder: Path = TESTDATA) -> str:
    """An outcome as it is recorded: long outputs are cut, and have the checksum and the number of all lines.

    ``folder`` is cut off from paths.
    """
    place = f"{folder.resolve()}/"
    out = outcome.out.decode("utf-8", "backslashreplace").replace(place, "")
    out = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", out)
    out = _VOLATILE.sub(r"\1…", out)
    err = outcome.err.replace(place, "")
    return f"{_cut(out)}--- standard error, exit status {outcome.status}\n{_cut(err)}"


def _cut(text: str) -> str:
    lines = text.split("\n")
    last = lines.pop()
    if last:
        lines.append(f"{last} (no newline)")
    if len(lines) > HEAD + TAIL + 1 or any(len(line) > MAX_COLUMNS for line in lines):
        note = f"... {len(lines)} lines, CRC-32 {zlib.crc32(text.encode()):08x} ..."
        lines = [*lines[:HEAD], note, *lines[max(HEAD, len(lines) - TAIL) :]]
    return "".join(line[:MAX_COLUMNS] + "\n" for line in lines)


def heading_of(changes: Changes) -> str:
    return heading(changes.lines[0])


def shown_changes(changes: Changes, place: Path, kseg: Callable[..., Outcome]) -> str:
    """The outcomes of the command lines in a copy of their folder, each with the files that it changed."""
    folder = Path(shutil.copytree(TESTDATA / changes.folder, place / "copy"))
    parts, before = [], _files(folder)
    with contextlib.chdir(folder):
        for line in changes.lines:
            outcome, after = shown(kseg(*line.words), folder), _files(folder)
            gone = dict.fromkeys(before.keys() - after.keys(), "gone")
            changed = dict(sorted((after.items() - before.items()) | gone.items()))
            files = "".join(f"{path} {content}\n" for path, content in changed.items())
            parts.append(f"{shlex.join(line.words)}\n{outcome}--- files\n{files}")
            before = after
    return "".join(parts)


def _files(folder: Path) -> dict[str, str]:
    """Size and checksum of each file below a folder, without the records of changes."""
    return {
        str(path.relative_to(folder)): f"{path.stat().st_size} {zlib.crc32(path.read_bytes()):08x}"
        for path in folder.rglob("*")
        if path.is_file() and ".kseg-" not in str(path) and path.name != ".lock"
    }


def _run(*words: str) -> Outcome:
    """Runs a command line in this process, with its standard output and standard error in temporary files."""
    standard = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            run(list(words))
        except SystemExit as ended:
            sys.stdout.flush()
            sys.stderr.flush()
            out.seek(0)
            err.seek(0)
            return Outcome(int(ended.code or 0), out.read(), err.read().decode())
        finally:
            for number, old in enumerate(standard, start=1):
                os.dup2(old, number)
                os.close(old)


def main() -> None:
    os.environ.pop("COLUMNS", None)
    OUTPUTS.mkdir(exist_ok=True)
    for name, lines in GROUPS.items():
        if name == NARROW:
            os.environ["COLUMNS"] = NARROW_COLUMNS
        sections = []
        for line in lines:
            with contextlib.chdir(TESTDATA / line.folder):
                sections.append(f"{_HEADING}{heading(line)}\n{shown(_run(*line.words))}")
        (OUTPUTS / f"{name}.txt").write_text("".join(sections), "utf-8")
        os.environ.pop("COLUMNS", None)
    sections = []
    for changes in CHANGES:
        with tempfile.TemporaryDirectory() as place:
            sections.append(f"{_HEADING}{heading_of(changes)}\n{shown_changes(changes, Path(place), _run)}")
    (OUTPUTS / "changes.txt").write_text("".join(sections), "utf-8")


if __name__ == "__main__":
    main()
