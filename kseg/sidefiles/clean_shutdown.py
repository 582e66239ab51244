"""``.kafka_cleanshutdown``: that the file is there says that the log directory was closed cleanly.

Up to 3.6 it is empty; since 3.7 it holds ``{"version":0,"brokerEpoch":N}`` (CleanShutdownFileHandler). Contents that
cannot be read cost a broker the epoch and nothing more.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kseg.sidefiles.json_file import number, read_object
from kseg.sidefiles.problems import SideFileProblem

VERSION = 0


class CleanShutdown(NamedTuple):
    """None for both in an empty file."""

    version: int | None
    broker_epoch: int | None


def read_clean_shutdown(buffer: Any) -> Iterator[CleanShutdown | SideFileProblem]:
    """The one entry, whatever the bytes, then problems."""
    if not len(buffer):
        yield CleanShutdown(None, None)
        return
    found = read_object(buffer)
    if isinstance(found, SideFileProblem):
        yield CleanShutdown(None, None)
        yield found
        return
    entry = CleanShutdown(number(found, "version"), number(found, "brokerEpoch"))
    yield entry
    if entry.version != VERSION:
        yield SideFileProblem("unknown-version", 0, len(buffer), f"version {found.get('version')!r} is not {VERSION}")
    if entry.broker_epoch is None:
        yield SideFileProblem("missing-field", 0, len(buffer), "brokerEpoch is missing or no number")
