"""kseg: segment forensics and repair for Apache Kafka logs.

``kseg.open(path)`` reads a segment, a partition or a log directory as an ordered stream of `Batch` and `Damage` items,
``kseg.scan(path)`` as Arrow columns. kseg(3) is the reference. Names are resolved on first use, so that ``import kseg``
costs nothing.
"""

__version__ = "1.0.0rc1"

TYPE_CHECKING = False  # as in typing, which takes longer to import than all else here

if TYPE_CHECKING:
    from kseg.api.changes import (
        Action,
        Lost,
        Plan,
        Result,
        carve,
        compact,
        convert,
        erase,
        quorum,
        recover,
        redact,
        reindex,
        restore,
        retain,
        undo,
    )
    from kseg.api.log import Batch, Damage, Log, Record, open
    from kseg.api.scan import Scan, scan
    from kseg.api.serving import LogServer, serve
    from kseg.api.verdict import Summary, Verdict, verify
    from kseg.api.views import cluster, groups, stats, transactions
    from kseg.api.writer import LogDirectoryWriter, Writer, log_writer, writer
    from kseg.errors import (
        BrokerRunningError,
        DamageError,
        KsegError,
        PathError,
        RequestError,
        SelectionWarning,
        StoppedHalfwayError,
        UnreadableError,
        UnsupportedError,
    )
    from kseg.segment.items import Problem
    from kseg.verification.report import Finding

__all__ = [
    "Action",
    "Batch",
    "BrokerRunningError",
    "Damage",
    "DamageError",
    "Finding",
    "KsegError",
    "Log",
    "LogDirectoryWriter",
    "LogServer",
    "Lost",
    "PathError",
    "Plan",
    "Problem",
    "Record",
    "RequestError",
    "Result",
    "Scan",
    "SelectionWarning",
    "StoppedHalfwayError",
    "Summary",
    "UnreadableError",
    "UnsupportedError",
    "Verdict",
    "Writer",
    "__version__",
    "carve",
    "cluster",
    "compact",
    "convert",
    "erase",
    "groups",
    "log_writer",
    "open",
    "quorum",
    "recover",
    "redact",
    "reindex",
    "restore",
    "retain",
    "scan",
    "serve",
    "stats",
    "transactions",
    "undo",
    "verify",
    "writer",
]

_MODULES = {
    "kseg.api.changes": (
        "Action", "Lost", "Plan", "Result", "carve", "compact", "convert", "erase", "quorum", "recover", "redact",
        "reindex", "restore", "retain", "undo",
    ),
    "kseg.api.log": ("Batch", "Damage", "Log", "Record", "open"),
    "kseg.api.scan": ("Scan", "scan"),
    "kseg.api.serving": ("LogServer", "serve"),
    "kseg.api.verdict": ("Summary", "Verdict", "verify"),
    "kseg.api.views": ("cluster", "groups", "stats", "transactions"),
    "kseg.api.writer": ("LogDirectoryWriter", "Writer", "log_writer", "writer"),
    "kseg.errors": (
        "BrokerRunningError", "DamageError", "KsegError", "PathError", "RequestError", "SelectionWarning",
        "StoppedHalfwayError", "UnreadableError", "UnsupportedError",
    ),
    "kseg.segment.items": ("Problem",),
    "kseg.verification.report": ("Finding",),
}  # fmt: skip
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'kseg' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
