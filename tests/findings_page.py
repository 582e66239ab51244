"""Writes man/kseg-findings.7 from the table of findings: ``python tests/findings_page.py``.

tests/test_docs.py fails if the page differs.
"""

import re
from pathlib import Path

from kseg.findings.table import KINDS, texts_of
from kseg.output.findings.text import needs_of

PAGE = Path(__file__).resolve().parent.parent / "man" / "kseg-findings.7"

HEAD = """\
.\\" Written by tests/findings_page.py from kseg/findings: change the table there, not this page.
.Dd November 21, 2026
.Dt KSEG-FINDINGS 7
.Os
.Sh NAME
.Nm kseg-findings
.Nd findings of kseg verify
.Sh DESCRIPTION
Each finding of
.Xr kseg-verify 1
has one of the codes below.
Codes are stable: scripts may rely on them.
Severities are
.Bl -tag -width "warning"
.It error
Data is lost, or a broker or a consumer fails.
.It warning
A broker will rebuild it, or it is unusual.
.It info
Nothing is wrong; it explains something.
.El
.Pp
A finding may have a lower severity than its code, if a broker's next start repairs it.
.Sh CODES
.Bl -tag -width Ds
"""
TAIL = """\
.El
.Sh SEE ALSO
.Xr kseg 1 ,
.Xr kseg-verify 1 ,
.Xr kseg-formats 7
"""


def unbroken(word: str) -> str:
    """Returns a word with hyphens at which no line is broken: codes and options are copied from the page."""
    return word.replace("-", "\\-")


def sentences(text: str) -> str:
    """Returns one sentence a line, as mdoc requires; none starts like a macro."""
    text = re.sub(r"(?<!\S)--[\w-]+", lambda option: unbroken(option[0]), text.replace("\\", "\\e"))
    lines = re.split(r"(?<=[.?!]) (?=[A-Z0-9.])", text)
    return "".join(f"\\&{line}\n" if line.startswith((".", "'")) else f"{line}\n" for line in lines)


def page() -> str:
    """Returns the whole page."""
    parts = [HEAD]
    for code, kind in KINDS.items():
        parts.append(f".It Ql {code} Pq {kind.severity}\n{''.join(map(sentences, texts_of(code)))}")
        if kind.repair:
            parts.append(f"To repair:\n.Dl {kind.repair}\n")
        if kind.needs:
            parts.append(f"{needs_of(kind)}\n")
    return "".join([*parts, TAIL])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"{PAGE.name}: {len(KINDS)} codes")
