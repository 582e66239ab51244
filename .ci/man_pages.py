"""Writes the entries of man/kseg-findings.7 and man/kseg-symptoms.7 from their tables: ``python .ci/man_pages.py``.

What stands before and behind the entries is written by hand, in the pages. tests/test_docs.py fails if they differ.
"""

import re
from pathlib import Path

from kseg.findings.table import KINDS, texts_of
from kseg.output.findings import needs_of
from kseg.symptoms.table import SPEAKERS, SYMPTOMS, Symptom

MAN = Path(__file__).resolve().parent.parent / "man"
HEADINGS = {"broker": "A BROKER SAYS", "client": "A CONSUMER OR PRODUCER SAYS", "tool": "A TOOL SAYS"}
IN_CAPITALS = {
    "partition": "PARTITION", "logdir": "LOGDIR", "logdirs": "LOGDIR...", "file": "FILE", "positions": "POSITION..",
    "offset": "OFFSET", "other": "OTHER", "one": "PARTITION",
}  # fmt: skip


def page_of(name: str) -> str:
    """Returns the whole page as it should be."""
    entries = ENTRIES[name]()
    written = (MAN / name).read_text("utf-8")
    first = entries[: entries.index("\n") + 1]
    return written[: written.index(first)] + entries + written[written.index(".Sh SEE ALSO") :]


def _findings() -> str:
    parts = []
    for code, kind in KINDS.items():
        parts.append(f".It Ql {code} Pq {kind.severity}\n{''.join(map(_sentences, texts_of(code)))}")
        if kind.repair:
            parts.append(f"To repair:\n.Dl {kind.repair}\n")
        if kind.needs:
            parts.append(f"{needs_of(kind)}\n")
    return _section("CODES", parts)


def _symptoms() -> str:
    return "".join(
        _section(HEADINGS[speaker], [_symptom(symptom) for symptom in SYMPTOMS if symptom.speaker == speaker])
        for speaker in SPEAKERS
    )


def _symptom(symptom: Symptom) -> str:
    heading = f".It Ql {symptom.name} Pq {symptom.severity}\n.Dl {_escaped(symptom.message)}\n.Pp\n"
    parts = [heading + _sentences(symptom.cause)]
    for step in symptom.steps:
        parts.append(f".Dl {_escaped(step.command.format(**IN_CAPITALS))}\n{_sentences(step.purpose + '.')}")
    if symptom.findings:
        parts.append("Findings:\n" + ",\n".join(map(_unbroken, symptom.findings)) + ".\n")
    return "".join(parts)


def _section(heading: str, entries: list[str]) -> str:
    return "".join([f".Sh {heading}\n.Bl -tag -width Ds\n", *entries, ".El\n"])


def _unbroken(word: str) -> str:
    """Returns a word with hyphens at which no line is broken: codes and options are copied from the page."""
    return word.replace("-", "\\-")


def _sentences(text: str) -> str:
    """Returns one sentence a line, as mdoc requires; none starts like a macro."""
    text = re.sub(r"(?<!\S)--[\w-]+", lambda option: _unbroken(option[0]), text.replace("\\", "\\e"))
    lines = re.split(r"(?<=[.?!]) (?=[A-Z0-9.])", text)
    return "".join(f"\\&{line}\n" if line.startswith((".", "'")) else f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    """As an argument of a macro: quotes and backslashes by their names."""
    return text.replace("\\", "\\e").replace('"', "\\(dq").replace("'", "\\(aq")


ENTRIES = {"kseg-findings.7": _findings, "kseg-symptoms.7": _symptoms}

if __name__ == "__main__":
    for name in ENTRIES:
        (MAN / name).write_text(page_of(name), "utf-8")
