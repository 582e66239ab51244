"""Records the whole outputs of the command lines in testdata/outputs, whose README.md says how to add one.

From the root of the repository: ``PYTHONPATH=tests python -m cli.recording``.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cli.command import TESTDATA, Outcome
from kseg.cli.main import run

OUTPUTS = TESTDATA / "outputs"
GROUPS = sorted(path.stem for path in OUTPUTS.glob("*.txt"))
CHANGES = "changes"
"""The group of command lines that run one after another in a copy of their folder."""
NARROW, NARROW_COLUMNS = "narrow", "60"
"""The group of command lines for a terminal of so many columns."""
NOW = "1795300000000"
"""Behind all timestamps of the data."""
CASES = sorted(path.parent for path in (TESTDATA / "damaged" / "findings").glob("*/case.json"))
OTHERS_WORDS = {"bad-clean-shutdown", "bad-quorum-state", "remote-manifest-damaged"}
"""Cases whose findings quote Python's json, which changes its words."""
HEAD, TAIL = 6, 1
MAX_COLUMNS = 240
_HEADING = "=== "
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_VOLATILE = re.compile(r'((?:hostname|timestamp)="|"seconds":)[^",}]*')
"""Host, time and duration of a run."""


@dataclass(frozen=True)
class Section:
    """Command lines that are run in a folder below testdata, and what is recorded of their outcome."""

    heading: str
    text: str = ""

    @property
    def folder(self) -> str:
        return self.heading.partition(": ")[0]

    @property
    def lines(self) -> list[list[str]]:
        own = self.heading.partition(": ")[2]
        return [shlex.split(line) for line in re.findall(r"^\$ (.*)$", self.text, flags=re.MULTILINE) or [own]]


def recorded(group: str) -> list[Section]:
    """The sections of a file."""
    parts = re.split(f"^{_HEADING}", (OUTPUTS / f"{group}.txt").read_text("utf-8"), flags=re.MULTILINE)
    return [Section(heading, text) for heading, _, text in (part.partition("\n") for part in parts[1:])]


def headings_of_cases() -> list[str]:
    """The verifications of the cases of testdata/damaged/findings, as their case.json says: the group findings."""
    found = []
    for folder in CASES:
        case = json.loads((folder / "case.json").read_text("utf-8"))
        if {"packed", "condition"} & case.keys() or folder.name in OTHERS_WORDS:
            continue
        words = [case["judged"], *([case["logs"]] if "logs" in case else []), "--jobs", "1"]
        words += ["--now", str(case.get("nowMs", NOW)), "--max-batch-bytes", str(case.get("maxBatchBytes", 1 << 28))]
        words += [word for name in ("against", "by", "manifest") if name in case for word in (f"--{name}", case[name])]
        up = "../" * len(folder.relative_to(TESTDATA).parts)
        for key, path in case.get("privateKeys", {}).items():
            words += ["--private-key", f"{key}={up}{path}"]
        forms = ("json", "deep"), ("text", "deep"), ("text", "quick")
        for form, level in forms:
            line = shlex.join(["verify", *words, "--level", level, "--format", form])
            found.append(f"{folder.relative_to(TESTDATA)}: {line}")
    return found


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


def shown_changes(section: Section, place: Path, kseg: Callable[..., Outcome]) -> str:
    """The outcomes of the command lines in a copy of their folder, each with the files that it changed."""
    folder = Path(shutil.copytree(TESTDATA / section.folder, place / "copy"))
    parts, before = [], _files(folder)
    with contextlib.chdir(folder):
        for words in section.lines:
            outcome, after = shown(kseg(*words), folder), _files(folder)
            gone = dict.fromkeys(before.keys() - after.keys(), "gone")
            changed = dict(sorted((after.items() - before.items()) | gone.items()))
            files = "".join(f"{path} {content}\n" for path, content in changed.items())
            parts.append(f"$ {shlex.join(words)}\n{outcome}--- files\n{files}")
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


def _shown_anew(group: str, section: Section) -> str:
    if group == CHANGES:
        with tempfile.TemporaryDirectory() as place:
            return shown_changes(section, Path(place), _run)
    with contextlib.chdir(TESTDATA / section.folder):
        return shown(_run(*section.lines[0]))


def main() -> None:
    for group in GROUPS:
        os.environ.pop("COLUMNS", None)
        if group == NARROW:
            os.environ["COLUMNS"] = NARROW_COLUMNS
        sections = [Section(found) for found in headings_of_cases()] if group == "findings" else recorded(group)
        parts = [f"{_HEADING}{section.heading}\n{_shown_anew(group, section)}" for section in sections]
        (OUTPUTS / f"{group}.txt").write_text("".join(parts), "utf-8")


if __name__ == "__main__":
    main()
