"""``partition.metadata``: the topic id of a partition directory (PartitionMetadataFile; since 2.8).

    version: 0
    topic_id: <22 characters of base64url>

The last line has no line terminator.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.rows import Sliceable
from kseg.segment.files import ZERO_UUID_TEXT, is_uuid
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import Line, integer, lines, text_bytes

PARTITION_METADATA = "partition.metadata"
_SEPARATOR = re.compile(r":[ \t\n\x0b\f\r]+")


class PartitionMetadata(NamedTuple):
    """``topic_id`` is text."""

    version: int
    topic_id: str


def read_partition_metadata(buffer: Sliceable) -> Iterator[PartitionMetadata | SideFileProblem]:
    """Yields the one entry, and problems. Field names are ignored, as Kafka ignores them."""
    found = list(lines(text_bytes(buffer)))
    values = []
    for line, name in zip(found, PartitionMetadata._fields, strict=False):
        value = _value(line)
        if value is None:
            yield SideFileProblem("unreadable-line", line.position, line.length, f"{line.text[:80]!r} is not a {name}")
        values.append(value)
    if len(found) < 2:
        yield SideFileProblem("missing-field", 0, len(buffer), f"{PartitionMetadata._fields[len(found)]} is missing")
        return
    version = integer(values[0], 32) if values[0] is not None else None
    if version is None or version < 0:
        yield SideFileProblem("unknown-version", found[0].position, found[0].length, f"version {values[0]!r}")
    if values[1] is None:
        return
    if not is_uuid(values[1]) or values[1] == ZERO_UUID_TEXT:
        yield SideFileProblem("bad-value", found[1].position, found[1].length, f"topic id {values[1][:80]!r}")
    else:
        yield PartitionMetadata(0 if version is None else version, values[1])


def topic_id_in(buffer: Sliceable) -> str | None:
    """Returns the topic id in the bytes of a file, None if they have no valid one."""
    items = list(read_partition_metadata(buffer))
    return next((item.topic_id for item in items if isinstance(item, PartitionMetadata)), None)


def _value(line: Line) -> str | None:
    parts = _SEPARATOR.split(line.text)
    return parts[1] if len(parts) == 2 else None


def build_partition_metadata(entry: PartitionMetadata) -> bytes:
    """Returns the bytes of the file."""
    return f"version: {entry.version}\ntopic_id: {entry.topic_id}".encode()
