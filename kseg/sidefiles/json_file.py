"""Reads files that hold a single JSON object."""

from typing import Any

from kseg.formats.byte_types import Sliceable
from kseg.sidefiles.lines import text_bytes
from kseg.sidefiles.problems import SideFileProblem


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
