"""What the table of findings tells of each code."""

from typing import NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)


class Kind(NamedTuple):
    """``means`` says what follows for a broker and for consumers.

    ``repair`` is the command that helps, "" where none is needed.
    """

    severity: str
    sentence: str
    means: str
    repair: str = ""


RECOVER, SALVAGE, REINDEX = "kseg recover", "kseg recover --mode salvage", "kseg reindex"
