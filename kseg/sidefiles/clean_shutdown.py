"""``.kafka_cleanshutdown``: the marker file of a cleanly closed log directory (CleanShutdownFileHandler).

Up to 3.6 the file is empty. Since 3.7 it holds ``{"version":0,"brokerEpoch":N}``. If the contents are unreadable, the
broker loses only the epoch; the shutdown still counts as clean.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kseg.formats.rows import Sliceable
from kseg.sidefiles.lines import text_bytes
from kseg.sidefiles.problems import SideFileProblem

# For all side files that hold a single JSON object.


def read_object(buffer: Sliceable) -> dict[str, Any] | SideFileProblem:
    """Returns the object, or the problem if the bytes are not a JSON object."""
    import json  # imported late: most runs read no such file

    try:
        found = json.loads(text_bytes(buffer).decode())
    except (ValueError, RecursionError) as error:
        return SideFileProblem("unreadable-json", 0, len(buffer), str(error)[:200])
    if isinstance(found, dict):
        return found
    return SideFileProblem("unreadable-json", 0, len(buffer), f"a {type(found).__name__}, not an object")


def number(found: dict[str, Any], name: str) -> int | None:
    """Returns the integer under that name, or None."""
    value = found.get(name)
    return value if type(value) is int else None


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
