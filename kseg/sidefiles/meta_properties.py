"""``meta.properties``: the cluster and node that a log directory belongs to (Kafka's MetaProperties).

Version 0 (ZooKeeper; also if version is missing): broker.id, cluster.id. Version 1 (KRaft): node.id and cluster.id,
both required. Both versions may have directory.id (since 3.7).
"""

from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.rows import Sliceable
from kseg.segment.files import is_uuid
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import Property, integer, properties, text_bytes

META_PROPERTIES = "meta.properties"
VERSIONS = (0, 1)
MAX_PROPERTIES_BYTES = 1 << 20
"""Limit of bytes read of the file, which normally has some 200."""
_REQUIRED = {0: (), 1: ("cluster.id", "node.id")}


class MetaProperties(NamedTuple):
    """The properties; None for missing ones."""

    version: int
    cluster_id: str | None
    broker_id: int | None
    node_id: int | None
    directory_id: str | None

    @property
    def number(self) -> int | None:
        """The node's id, whatever the version calls it."""
        return self.broker_id if self.version == 0 else self.node_id

    def foreign_fields(self) -> set[str]:
        """Names of missing fields that this version does not define."""
        foreign = "broker_id" if self.version == 1 else "node_id"
        return {foreign} if getattr(self, foreign) is None else set()


def missing_in_kraft(found: MetaProperties) -> str | None:
    """Returns a message about a property that version 0 may lack, but not in KRaft (KafkaRaftServer); None if there
    is none. In version 0 the node's id is broker.id."""
    if found.version == 0 and found.broker_id is None:
        return "broker.id is missing"
    return "cluster.id is missing" if found.cluster_id is None else None


def read_meta_properties(buffer: Sliceable) -> Iterator[MetaProperties | SideFileProblem]:
    """Yields exactly one entry, then the problems."""
    data = text_bytes(buffer[: min(len(buffer), MAX_PROPERTIES_BYTES)])
    found = {item.key: item for item in properties(data)}
    problems: list[SideFileProblem] = []
    version = _number(found, "version", problems)
    number = 0 if version is None else version
    directory = found.get("directory.id")
    yield MetaProperties(
        number,
        found["cluster.id"].value if "cluster.id" in found else None,
        _number(found, "broker.id", problems),
        _number(found, "node.id", problems),
        directory.value if directory else None,
    )
    yield from problems
    if len(buffer) > MAX_PROPERTIES_BYTES:
        rest = len(buffer) - MAX_PROPERTIES_BYTES
        yield SideFileProblem("bad-value", MAX_PROPERTIES_BYTES, rest, f"{rest} bytes beyond the limit were not read")
    if number not in VERSIONS:
        line = found["version"]
        yield SideFileProblem("unknown-version", line.position, line.length, f"version {number} is neither 0 nor 1")
    for name in _REQUIRED.get(number, ()):
        if name not in found:
            yield SideFileProblem("missing-field", 0, len(data), f"version {number} needs {name}")
    if directory and not is_uuid(directory.value):
        message = f"directory.id {directory.value[:80]!r} is not a UUID"
        yield SideFileProblem("bad-value", directory.position, directory.length, message)


def _number(found: dict[str, Property], name: str, problems: list[SideFileProblem]) -> int | None:
    line = found.get(name)
    if line is None:
        return None
    number = integer(line.value, 32)
    if number is None:
        message = f"{name} {line.value[:80]!r} is not a number"
        problems.append(SideFileProblem("bad-value", line.position, line.length, message))
    return number
