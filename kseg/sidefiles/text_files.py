"""Text files as Java reads them: lines, numbers and properties; those beside segments that are no checkpoints.

They are partition.metadata, meta.properties, .kafka_cleanshutdown and quorum-state.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

from kseg.formats.rows import Sliceable
from kseg.segment.files import ZERO_UUID_TEXT, is_uuid
from kseg.sidefiles.problems import SideFileProblem, entries_of

T = TypeVar("T")

MAX_TEXT_BYTES = 64 << 20
"""Limit of bytes read of a text file; a checkpoint of a million partitions is smaller."""
_SMALL_BYTES = 256

_LINE_END = re.compile(rb"\r\n|\n|\r")
_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)


class Line(NamedTuple):
    """A line without its terminator, in ``length`` bytes from ``position`` on."""

    text: str
    position: int
    length: int


def text_bytes(buffer: Sliceable) -> bytes:
    """Returns the bytes of a text file, truncated to MAX_TEXT_BYTES."""
    return bytes(buffer[: min(len(buffer), MAX_TEXT_BYTES)])


def read_once(
    parse: Callable[[bytes], Iterator[T | SideFileProblem]],
) -> Callable[[Sliceable], Iterator[T | SideFileProblem]]:
    """Returns a parser of text files that keeps what it has found in small ones: thousands of partitions have equal
    files."""

    @lru_cache(1 << 9)
    def found(data: bytes) -> tuple[T | SideFileProblem, ...]:
        return tuple(parse(data))

    @wraps(parse)
    def read(buffer: Sliceable) -> Iterator[T | SideFileProblem]:
        data = text_bytes(buffer)
        return iter(found(data)) if len(data) <= _SMALL_BYTES else parse(data)

    return read


def lines(data: bytes, encoding: str = "utf-8") -> Iterator[Line]:
    """Yields lines as BufferedReader.readLine does: terminated by LF, CR or CRLF; no empty line after the last."""
    start = 0
    for end in _LINE_END.finditer(data):
        yield Line(data[start : end.start()].decode(encoding, "replace"), start, end.start() - start)
        start = end.end()
    if start < len(data):
        yield Line(data[start:].decode(encoding, "replace"), start, len(data) - start)


def integer(text: str, bits: int) -> int | None:
    """Parses as Integer.parseInt (32 bits) or Long.parseLong (64 bits) does; None if they would throw."""
    if not text.isascii():  # the digits of all scripts count, but those behind U+FFFF are two chars in Java
        from unicodedata import decimal

        text = "".join(str(decimal(char, char)) if char <= "\uffff" else char for char in text)
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    number = -int(found[2]) if found[1] == "-" else int(found[2])
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))


def trimmed(text: str) -> str:
    """Returns the text without what String.trim removes at its ends: space and control characters of ASCII."""
    return text.strip(_TRIMMED)


def integer_setting(text: str, bits: int) -> int | None:
    """Parses a setting as ConfigDef does: as `integer`, trimmed."""
    return integer(trimmed(text), bits)


def problem_at(code: str, line: "Line | Property", message: str) -> SideFileProblem:
    """Returns the problem of a line, or of a property."""
    return SideFileProblem(code, line.position, line.length, message)


def unreadable(line: Line, expected: str) -> SideFileProblem:
    """Returns the problem of a line that is not what is expected in its place."""
    return problem_at("unreadable-line", line, f"{line.text[:80]!r} is not {expected}")


# ``partition.metadata``: the topic id of a partition directory (PartitionMetadataFile; since 2.8).
#
#     version: 0
#     topic_id: <22 characters of base64url>
#
# The last line has no line terminator.

PARTITION_METADATA = "partition.metadata"
_SEPARATOR = re.compile(r":[ \t\n\x0b\f\r]+")


class PartitionMetadata(NamedTuple):
    """``topic_id`` is text."""

    version: int
    topic_id: str


@read_once
def read_partition_metadata(data: bytes) -> Iterator[PartitionMetadata | SideFileProblem]:
    """Yields the one entry, and problems. Field names are ignored, as Kafka ignores them."""
    found, values = list(lines(data)), list[str | None]()
    for line, name in zip(found, PartitionMetadata._fields, strict=False):
        parts = _SEPARATOR.split(line.text)
        values.append(parts[1] if len(parts) == 2 else None)
        if len(parts) != 2:
            yield unreadable(line, f"a {name}")
    if len(found) < 2:
        yield SideFileProblem("missing-field", 0, len(data), f"{PartitionMetadata._fields[len(found)]} is missing")
        return
    version, topic_id = None if values[0] is None else integer(values[0], 32), values[1]
    if version is None or version < 0:
        yield problem_at("unknown-version", found[0], f"version {values[0]!r}")
    if topic_id is None:
        return
    if not is_uuid(topic_id) or topic_id == ZERO_UUID_TEXT:
        yield problem_at("bad-value", found[1], f"topic id {topic_id[:80]!r}")
    else:
        yield PartitionMetadata(0 if version is None else version, topic_id)


def topic_id_in(buffer: Sliceable) -> str | None:
    """Returns the topic id in the bytes of a file, None if they have no valid one."""
    return next((entry.topic_id for entry in entries_of(read_partition_metadata(buffer))), None)


def build_partition_metadata(entry: PartitionMetadata) -> bytes:
    """Returns the bytes of the file."""
    return f"version: {entry.version}\ntopic_id: {entry.topic_id}".encode()


# Properties files: keys, values, comments and escapes (java.util.Properties.load).

_BLANK = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One key and its value, in ``length`` bytes from ``position`` on, including continuation lines."""

    key: str
    value: str
    position: int
    length: int


def properties(data: bytes) -> Iterator[Property]:
    """Yields the properties in file order; if a key is repeated, the last one counts."""
    for line in _logical_lines(data):
        found = _KEY.fullmatch(line.text)
        if found:
            yield Property(_unescape(found[1]), _unescape(found[2]), line.position, line.length)


def _logical_lines(data: bytes) -> Iterator[Line]:
    held: Line | None = None
    pieces: list[str] = []
    for line in lines(data, "latin-1"):
        text = line.text.lstrip(_BLANK)
        if held is None and (not text or text[0] in "#!"):
            continue
        held = Line("", *(line[1:] if held is None else (held.position, line.position + line.length - held.position)))
        is_continued = (len(text) - len(text.rstrip("\\"))) % 2 == 1
        pieces.append(text[:-1] if is_continued else text)
        if not is_continued:
            yield held._replace(text="".join(pieces))
            held, pieces = None, []
    if held is not None:
        yield held._replace(text="".join(pieces))


def _unescape(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        name = found[1]
        return chr(int(name[1:], 16)) if len(name) == 5 else _CONTROLS.get(name, name)

    return _ESCAPE.sub(character, text)


# ``meta.properties``: the cluster and node that a log directory belongs to (Kafka's MetaProperties).
#
# Version 0 (ZooKeeper; also if version is missing): broker.id, cluster.id. Version 1 (KRaft): node.id and cluster.id,
# both required. Both versions may have directory.id (since 3.7).

META_PROPERTIES = "meta.properties"
MAX_PROPERTIES_BYTES = 1 << 20
"""Limit of bytes read of the file, which normally has some 200."""
_PROPERTIES = ("version", "cluster.id", "broker.id", "node.id", "directory.id")
_BYTE_ORDER_MARK = "\u00ef\u00bb\u00bf"
"""As Java reads it."""
_REQUIRED = {0: (), 1: ("cluster.id", "node.id")}
"""Properties that a version needs."""


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


def build_meta_properties(entry: MetaProperties) -> bytes:
    """Returns the bytes of the file of a KRaft node."""
    found = {"cluster.id": entry.cluster_id, "directory.id": entry.directory_id, "node.id": entry.node_id}
    return "".join(f"{key}={value}\n" for key, value in {**found, "version": entry.version}.items()).encode()


def missing_in_kraft(found: MetaProperties) -> str | None:
    """Returns a message about a property that version 0 may lack, but not in KRaft (KafkaRaftServer); None if there
    is none. In version 0 the node's id is broker.id."""
    if found.version == 0 and found.broker_id is None:
        if found.node_id is not None:
            return "version is missing: node.id counts in version 1 only"
        return "cluster.id and node.id are missing" if found.cluster_id is None else "broker.id is missing"
    return "cluster.id is missing" if found.cluster_id is None else None


def read_meta_properties(buffer: Sliceable) -> Iterator[MetaProperties | SideFileProblem]:
    """Yields exactly one entry, then the problems."""
    data = bytes(buffer[: min(len(buffer), MAX_PROPERTIES_BYTES)])
    found = {item.key: item for item in properties(data)}
    problems: list[SideFileProblem] = []

    def number(name: str) -> int | None:
        line = found.get(name)
        value = None if line is None else integer(line.value, 32)
        if line is not None and value is None:
            problems.append(problem_at("bad-value", line, f"{name} {line.value[:80]!r} is not a number"))
        return value

    def text(name: str) -> str | None:
        return found[name].value if name in found else None

    version, directory = number("version") or 0, text("directory.id")
    yield MetaProperties(version, text("cluster.id"), number("broker.id"), number("node.id"), directory)
    yield from problems
    if marked := [name for name in _PROPERTIES if _BYTE_ORDER_MARK + name in found]:
        message = f"begins with a byte order mark, which a broker takes for a part of {marked[0]!r}"
        yield SideFileProblem("bad-value", 0, len(_BYTE_ORDER_MARK), message)
    if (rest := len(buffer) - MAX_PROPERTIES_BYTES) > 0:
        yield SideFileProblem("bad-value", MAX_PROPERTIES_BYTES, rest, f"{rest} bytes beyond the limit were not read")
    if version not in _REQUIRED:
        yield problem_at("unknown-version", found["version"], f"version {version} is neither 0 nor 1")
    for name in _REQUIRED.get(version, ()):
        if name not in found:
            yield SideFileProblem("missing-field", 0, len(data), f"version {version} needs {name}")
    if directory is not None and not is_uuid(directory):
        yield problem_at("bad-value", found["directory.id"], f"directory.id {directory[:80]!r} is not a UUID")


# Files that hold a single JSON object.


def _json_object(buffer: Sliceable) -> dict[str, Any] | SideFileProblem:
    """Returns the object, or the problem if the bytes are not a JSON object."""
    import json  # imported late: most runs read no such file

    if not len(buffer):
        return SideFileProblem("unreadable-json", 0, 0, "the file is empty")
    try:
        found = json.loads(text_bytes(buffer).decode())
    except (ValueError, RecursionError) as error:
        return SideFileProblem("unreadable-json", 0, len(buffer), str(error)[:200])
    if isinstance(found, dict):
        return found
    return SideFileProblem("unreadable-json", 0, len(buffer), f"a {type(found).__name__}, not an object")


def _value(found: dict[str, Any], name: str, kind: type[T]) -> T | None:
    """Returns the value under that name, None if it is of another type; a boolean is no integer."""
    value = found.get(name)
    return value if type(value) is kind else None


# ``.kafka_cleanshutdown``: the marker file of a cleanly closed log directory (CleanShutdownFileHandler).
#
# Up to 3.6 the file is empty. Since 3.7 it holds ``{"version":0,"brokerEpoch":N}``. If the contents are unreadable, the
# broker loses only the epoch; the shutdown still counts as clean.


class CleanShutdown(NamedTuple):
    """The contents of the file; both fields are None if it is empty."""

    version: int | None
    broker_epoch: int | None


def read_clean_shutdown(buffer: Sliceable) -> Iterator[CleanShutdown | SideFileProblem]:
    """Yields exactly one entry, whatever the bytes, then the problems."""
    found = _json_object(buffer) if len(buffer) else {}
    if isinstance(found, SideFileProblem):
        yield CleanShutdown(None, None)
        yield found
        return
    entry = CleanShutdown(_value(found, "version", int), _value(found, "brokerEpoch", int))
    yield entry
    if len(buffer) and entry.version != 0:
        yield SideFileProblem("unknown-version", 0, len(buffer), f"version {found.get('version')!r} is not 0")
    if len(buffer) and entry.broker_epoch is None:
        yield SideFileProblem("missing-field", 0, len(buffer), "brokerEpoch is missing or not a number")


# ``quorum-state``: a KRaft node's persistent election state, one JSON object (QuorumStateData; FileQuorumStateStore).
#
# Version 0: clusterId, leaderId, leaderEpoch, votedId, appliedOffset, currentVoters. Version 1 (kraft.version 1,
# 3.9): leaderId, leaderEpoch, votedId, votedDirectoryId.

_FIELDS = {
    0: {"cluster_id", "leader_id", "leader_epoch", "voted_id", "applied_offset", "current_voters"},
    1: {"leader_id", "leader_epoch", "voted_id", "voted_directory_id"},
}
_NULLABLE = {"current_voters"}


class QuorumState(NamedTuple):
    """None for a missing field. ``current_voters`` are node ids; a ``leader_id`` of -1 means no leader."""

    data_version: int | None
    cluster_id: str | None
    leader_id: int | None
    leader_epoch: int | None
    voted_id: int | None
    voted_directory_id: str | None
    applied_offset: int | None
    current_voters: list[int] | None

    def foreign_fields(self) -> set[str]:
        """Names of missing fields that this version does not define."""
        own = {"data_version"} | _FIELDS.get(-1 if self.data_version is None else self.data_version, set(self._fields))
        return {name for name in self._fields if name not in own and getattr(self, name) is None}


def read_quorum_state(buffer: Sliceable) -> Iterator[QuorumState | SideFileProblem]:
    """Yields the one entry, then the problems."""
    found = _json_object(buffer)
    if isinstance(found, SideFileProblem):
        yield found
        return
    entry = QuorumState(
        _value(found, "data_version", int), _value(found, "clusterId", str), _value(found, "leaderId", int),
        _value(found, "leaderEpoch", int), _value(found, "votedId", int), _value(found, "votedDirectoryId", str),
        _value(found, "appliedOffset", int), _voters(found),
    )  # fmt: skip
    yield entry
    if entry.data_version not in _FIELDS:
        message = f"data_version {found.get('data_version')!r} is neither 0 nor 1"
        yield SideFileProblem("unknown-version", 0, len(buffer), message[:200])
        return
    for name in sorted(_FIELDS[entry.data_version]):
        if name not in _NULLABLE and getattr(entry, name) is None:
            yield SideFileProblem("missing-field", 0, len(buffer), f"{name} is missing or of another type")


def _voters(found: dict[str, Any]) -> list[int] | None:
    voters = found.get("currentVoters")
    if not isinstance(voters, list):
        return None
    ids = [_value(voter, "voterId", int) if isinstance(voter, dict) else None for voter in voters]
    return [voter for voter in ids if voter is not None] if None not in ids else None
