"""The table of all findings: code, severity, description, consequences, repair.

It feeds the output of ``kseg verify``, ``--explain`` and man/kseg-findings.7. Codes are stable names; messages are not.
The other modules of this package hold its sections.
"""

from kseg.findings.comparisons import COMPARISON_KINDS
from kseg.findings.directories import DIRECTORY_KINDS
from kseg.findings.indexes import INDEX_KINDS
from kseg.findings.kind import (
    BROKER,
    DECISION,
    DROP_UNDECODABLE,
    ERROR,
    FROM_REPLICA,
    INFO,
    NEEDS,
    RECOVER,
    REINDEX,
    REPLICA,
    SALVAGE,
    SEVERITIES,
    TOPIC_ID,
    WARNING,
    Kind,
)
from kseg.findings.log import LOG_KINDS
from kseg.findings.producers import PRODUCER_KINDS
from kseg.findings.remote import REMOTE_KINDS

__all__ = [
    "BROKER", "DECISION", "DROP_UNDECODABLE", "ERROR", "FROM_REPLICA", "INFO", "KINDS", "NEEDS", "RECOVER", "REINDEX",
    "REPLICA", "SALVAGE", "SEVERITIES", "TOPIC_ID", "WARNING", "Kind", "severity_of",
]  # fmt: skip

KINDS: dict[str, Kind] = {
    **LOG_KINDS,
    **INDEX_KINDS,
    **PRODUCER_KINDS,
    **DIRECTORY_KINDS,
    **COMPARISON_KINDS,
    **REMOTE_KINDS,
}


def severity_of(code: str) -> str:
    """Returns one of SEVERITIES."""
    return KINDS[code].severity
