"""kseg: segment forensics and repair for Apache Kafka logs.

``kseg.open(path)`` reads a segment, a partition or a log directory as an ordered stream of `Batch` and `Damage` items,
``kseg.scan(path)`` as Arrow columns. kseg(3) is the reference. Names are resolved on first use, so that ``import kseg``
costs nothing.
"""

__version__ = "1.0.0rc1"

TYPE_CHECKING = False  # as in typing, which takes longer to import than all else here

if TYPE_CHECKING:
    from kseg.api.changes import Action as Action
    from kseg.api.changes import Lost as Lost
    from kseg.api.changes import Plan as Plan
    from kseg.api.changes import Result as Result
    from kseg.api.changes import carve as carve
    from kseg.api.changes import compact as compact
    from kseg.api.changes import convert as convert
    from kseg.api.changes import erase as erase
    from kseg.api.changes import quorum as quorum
    from kseg.api.changes import recover as recover
    from kseg.api.changes import redact as redact
    from kseg.api.changes import reindex as reindex
    from kseg.api.changes import restore as restore
    from kseg.api.changes import retain as retain
    from kseg.api.changes import undo as undo
    from kseg.api.log import Batch as Batch
    from kseg.api.log import Damage as Damage
    from kseg.api.log import Log as Log
    from kseg.api.log import Record as Record
    from kseg.api.log import open as open
    from kseg.api.scan import Scan as Scan
    from kseg.api.scan import scan as scan
    from kseg.api.serving import LogServer as LogServer
    from kseg.api.serving import serve as serve
    from kseg.api.verdict import Summary as Summary
    from kseg.api.verdict import Verdict as Verdict
    from kseg.api.verdict import verify as verify
    from kseg.api.views import cluster as cluster
    from kseg.api.views import groups as groups
    from kseg.api.views import stats as stats
    from kseg.api.views import transactions as transactions
    from kseg.api.writer import LogDirectoryWriter as LogDirectoryWriter
    from kseg.api.writer import Writer as Writer
    from kseg.api.writer import log_writer as log_writer
    from kseg.api.writer import writer as writer
    from kseg.errors import BrokerRunningError as BrokerRunningError
    from kseg.errors import DamageError as DamageError
    from kseg.errors import KsegError as KsegError
    from kseg.errors import PathError as PathError
    from kseg.errors import RequestError as RequestError
    from kseg.errors import SelectionWarning as SelectionWarning
    from kseg.errors import StoppedHalfwayError as StoppedHalfwayError
    from kseg.errors import UnreadableError as UnreadableError
    from kseg.errors import UnsupportedError as UnsupportedError
    from kseg.segment.items import Problem as Problem
    from kseg.verification.report import Finding as Finding

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


if not TYPE_CHECKING:  # type checkers take the names from the imports above
    __all__ = [name for names in _MODULES.values() for name in names]
    __all__ += ["__version__"]

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'kseg' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*__all__, *globals()})
