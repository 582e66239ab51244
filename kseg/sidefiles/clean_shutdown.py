"""``.kafka_cleanshutdown``: the marker file of a cleanly closed log directory (CleanShutdownFileHandler).

Up to 3.6 the file is empty. Since 3.7 it holds ``{"version":0,"brokerEpoch":N}``. If the contents are unreadable, the
broker loses only the epoch; the shutdown still counts as clean.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.byte_types import Sliceable
from kseg.sidefiles.json_file import number, read_object
from kseg.sidefiles.problems import SideFileProblem

VERSION = 0


class CleanShutdown(NamedTuple):
    """The contents of the file; both fields are None if it is empty."""

    version: int | None
    broker_epoch: int | None


def read_clean_shutdown(buffer: Sliceable) -> Iterator[CleanShutdown | SideFileProblem]:
    """Yields exactly one entry, whatever the bytes, then the problems."""
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
        yield SideFileProblem("missing-field", 0, len(buffer), "brokerEpoch is missing or not a number")
