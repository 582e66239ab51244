"""Writes man/kseg-symptoms.7 from the table of symptoms: ``python tests/symptoms_page.py``.

tests/test_docs.py fails where the page is not what this would write.
"""

from pathlib import Path

from findings_page import sentences, unbroken
from kseg.symptoms.matching import SPEAKERS, SYMPTOMS

PAGE = Path(__file__).resolve().parent.parent / "man" / "kseg-symptoms.7"
HEADINGS = {"broker": "A BROKER SAYS", "client": "A CONSUMER OR PRODUCER SAYS", "tool": "A TOOL SAYS"}
IN_CAPITALS = {
    "partition": "PARTITION", "logdir": "LOGDIR", "file": "FILE", "positions": "POSITION..", "offset": "OFFSET"
}  # fmt: skip

HEAD = """\
.\\" Written by tests/symptoms_page.py from kseg/symptoms: change the table there, not this page.
.Dd November 23, 2026
.Dt KSEG-SYMPTOMS 7
.Os
.Sh NAME
.Nm kseg-symptoms
.Nd from a message of Kafka to its cause and to the commands that help
.Sh DESCRIPTION
This page lists messages of brokers, consumers, producers and tools, from 0.8 to 4.4, that are about the files of a log
directory.
Each entry has the cause, the commands that help, and the findings that
.Xr kseg-verify 1
reports.
.Pp
.Xr kseg-symptoms 1
finds the entry of a pasted line or of all lines of a log file, and prints the commands with the paths of the message:
.Dl kseg symptoms \\(aqWARN Found invalid messages in log segment /kafka-logs/orders-0/0.log at byte offset 7129.\\(aq
.Dl kseg symptoms - < server.log
.Pp
Words in capitals stand for values:
.Ar LOGDIR
is one of the broker's log.dirs,
.Ar PARTITION
a directory in it such as
.Pa LOGDIR/orders-0 ,
.Ar REPLICA
a copy of that partition from another broker or from a backup.
.Pp
Reading commands may run beside a broker, with
.Fl -live
if it writes to the log.
Stop the broker before a changing command: kseg refuses to change a log directory that a broker has locked.
Without
.Fl -dry-run
the command is carried out, and
.Xr kseg-undo 1
reverts it.
"""
TAIL = """\
.Sh SEE ALSO
.Xr kseg 1 ,
.Xr kseg-symptoms 1 ,
.Xr kseg-verify 1 ,
.Xr kseg-findings 7
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for speaker in SPEAKERS:
        parts.append(f".Sh {HEADINGS[speaker]}\n.Bl -tag -width Ds\n")
        for symptom in SYMPTOMS:
            if symptom.speaker != speaker:
                continue
            parts.append(f".It Ql {symptom.name}\n.Dl {_escaped(symptom.message)}\n.Pp\n{sentences(symptom.cause)}")
            for step in symptom.steps:
                parts.append(f".Dl {_escaped(step.command.format(**IN_CAPITALS))}\n{sentences(step.purpose + '.')}")
            if symptom.findings:
                codes = (unbroken(code) for code in symptom.findings)
                parts.append("Findings:\n" + ",\n".join(codes) + ".\n")
        parts.append(".El\n")
    return "".join([*parts, TAIL])


def _escaped(text: str) -> str:
    """As an argument of a macro: quotes and backslashes by their names."""
    return text.replace("\\", "\\e").replace('"', "\\(dq").replace("'", "\\(aq")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"{PAGE.name}: {len(SYMPTOMS)} entries")
