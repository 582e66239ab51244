"""The schemas of a Schema Registry, by id: from its topic _schemas, or from a folder of ID.avsc files.

A record of _schemas has a JSON key ``{"keytype":"SCHEMA","subject":…,"version":…}`` and a JSON value with ``id``,
``schema``, ``schemaType`` (AVRO where it is missing, JSON, PROTOBUF) and ``references`` to versions of other subjects.
A deleted schema stays readable, as in the registry: records that were written with it remain. Ids belong to a context;
the default context wins, and within it the later record. A GUID is the MD5 of text and references as a UUID, unless the
value has a ``guid``. Source: SchemaKey, SchemaValue and MD5 of Confluent's schema-registry 8.0.
"""

import json
import os
import struct
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from kseg.decoders.avro import JSON, AvroError, AvroReader, Conversions
from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.rows import UndecodableError
from kseg.segment.files import SegmentFile
from kseg.segment.items import Batch
from kseg.segment.paths import segments_at
from kseg.segment.reader import open_segment
from kseg.stores.place import Place
from kseg.stores.source import STANDARD_INPUT
from kseg.stores.stored_object import is_url

AVRO, JSON_SCHEMA, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
PARTITION = "_schemas-0"
_KINDS = {".avsc": AVRO, ".json": JSON_SCHEMA, ".proto": PROTOBUF}
"""Kinds of schemas by the suffixes of files."""
_MAX_SCHEMA_BYTES, _MAX_BYTES = 2 << 20, 64 << 20
"""Size of one record with a schema, and of all of them. A broker accepts records of 1 MiB by default."""
_MAX_REFERENCES = 256
_MAX_PARTS, _REFUSED_PARTS = 1 << 20, 1 << 14
"""Parts of all schemas in use, of some 200 bytes each; what one that cannot be used counts."""

SchemaName = int | str
"""An id or a GUID."""


class Schema(NamedTuple):
    """``references``: name, subject and version of the schemas that it uses."""

    subject: str
    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...] = ()


class Schemas:
    """Schemas by id and GUID. ``warn`` receives a line for each that cannot be used, and one for ids without any."""

    def __init__(self, place: str, warn: Callable[[str], None]) -> None:
        self._place, self._warn = place, warn
        self._schemas: dict[SchemaName, Schema] = {}
        self._versions: dict[tuple[str, int], Schema] = {}
        self._readers: dict[tuple[SchemaName, int], AvroReader | None] = {}
        self._refused: set[SchemaName] = set()
        self._left, self._parts_left = _MAX_BYTES, _MAX_PARTS
        self._has_warned = False
        self._lock = Lock()

    def kind(self, name: SchemaName) -> str | None:
        """Returns the kind of a schema; None if it is missing."""
        found = self._schemas.get(name)
        if found is not None:
            return found.kind
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"{self._place}: has no schema {name}: keys and values with a missing schema are not decoded")
        return None

    def reader(self, name: SchemaName, conversions: Conversions = JSON) -> AvroReader | None:
        """Returns the reader of an Avro schema; None if it is missing or cannot be used.

        Raises UnsupportedError without fastavro.
        """
        key = name, id(conversions)
        if key not in self._readers:
            with self._lock:
                if key not in self._readers:
                    self._readers[key] = self._made(name, conversions)
        return self._readers[key]

    def _made(self, name: SchemaName, conversions: Conversions) -> AvroReader | None:
        if name in self._refused or self.kind(name) != AVRO:
            return None
        made = None
        try:
            schema = self._schemas[name]
            referenced = self._referenced(schema)
            if self._parts_left > 0:
                self._parts_left -= _REFUSED_PARTS
                made = AvroReader(schema.text, referenced, conversions)
                self._parts_left += _REFUSED_PARTS - made.parts
            if made is None or self._parts_left < 0:
                raise AvroError("those before it take up all memory for schemas")
            return made
        except AvroError as error:
            self._refused.add(name)
            self._warn(f"{self._place}: schema {name} cannot be used: {error}")
            return None

    def _referenced(self, schema: Schema) -> Sequence[str]:
        """Returns the texts of all schemas that a schema uses, each behind those that it uses itself. The context of
        the using schema comes first."""
        found: dict[Schema, None] = {}
        entered: set[Schema] = set()

        def enter(each: Schema) -> None:
            entered.add(each)
            if len(entered) > _MAX_REFERENCES:
                raise AvroError("the schema uses too many others")
            for _, subject, version in each.references:
                places = (_context(each.subject) + subject, version), (subject, version)
                used = self._versions.get(places[0]) or self._versions.get(places[1])
                if used is None:
                    raise AvroError(f"it uses version {version} of {subject[:100]}, which is missing")
                if used not in entered:
                    enter(used)
            found[each] = None

        enter(schema)
        return [each.text for each in found if each is not schema]

    # Reading

    def read_partition(self, files: Sequence[SegmentFile]) -> None:
        """Adds the schemas of segments; damage is left out. Raises KsegError if a file cannot be read."""
        is_damaged = False
        for file in files:
            with open_segment(file) as reader:
                for item in reader:
                    if not isinstance(item, Batch) or not item.is_valid:
                        is_damaged = True
                        continue
                    try:
                        for rows in item.rows():
                            for _, key, value in rows.entries():
                                self._add_record(key, value)
                    except UndecodableError:
                        is_damaged = True
        if is_damaged:
            self._warn(f"{self._place}: is damaged: schemas may be missing")

    def read_folder(self, names: Sequence[tuple[str, str, str]]) -> None:
        """Adds the files of these names, each with its stem and suffix. Raises PathError."""
        for name, stem, suffix in names:
            path = Place(self._place) / name
            with errors_at(path):
                text = path.read(_MAX_SCHEMA_BYTES).decode("utf-8", "replace")
            schema = Schema("", _KINDS[suffix], text)
            self._add(int(stem) if stem.isdecimal() else stem.lower(), schema)
            self._add(_guid(schema), schema)

    def _add_record(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or b'"SCHEMA"' not in key or not value or len(key) + len(value) > _MAX_SCHEMA_BYTES:
            return
        try:
            name, found = json.loads(key), json.loads(value)
            number, text, kind = found["id"], found["schema"], found.get("schemaType") or AVRO
            subject, version = name["subject"], name["version"]
            used = tuple((each["name"], each["subject"], each["version"]) for each in found.get("references") or ())
            guid = found.get("guid")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            return
        strings = text, kind, subject, *(each for names in used for each in names[:2])
        numbers = number, version, *(each[2] for each in used)
        if not all(isinstance(each, str) for each in strings) or not all(
            type(each) is int and abs(each) < 1 << 31 for each in numbers
        ):
            return
        schema, before = Schema(subject, kind.upper(), text, used), self._versions.get((subject, version))
        names = number, guid.lower() if isinstance(guid, str) else _guid(schema)
        if before == schema:
            schema = before
        if before != schema or not all(each in self._schemas for each in names):
            self._left -= len(key) + len(value)
        if self._left < 0:
            raise KsegError(f"{self._place}: has more than {_MAX_BYTES >> 20} MiB of schemas")
        self._versions[subject, version] = schema
        for each in names:
            self._add(each, schema)

    def _add(self, name: SchemaName, schema: Schema) -> None:
        before = self._schemas.get(name)
        if before is None or not _context(schema.subject) or _context(before.subject):
            self._schemas[name] = schema


def _context(subject: str) -> str:
    """Returns the prefix for the context of a subject, such as ``:.eu:``; none for the default context."""
    return subject[: subject.find(":", 1) + 1] if subject.startswith(":.") else ""


def _guid(schema: Schema) -> str:
    from hashlib import md5  # few dumps read schemas

    data = schema.text.encode("utf-8", "replace")
    for name, subject, version in schema.references:
        data += (name + subject).encode("utf-8", "replace") + struct.pack(">i", version)
    return str(UUID(bytes=md5(data, usedforsecurity=False).digest()))


def schemas_at(path: str, warn: Callable[[str], None]) -> Schemas:
    """Reads the schemas of a folder of ID.avsc files, of a partition, or of the partition _schemas-0 in a folder.

    Raises PathError if there are none, and KsegError if they cannot be read.
    """
    if not path:
        raise PathError("the path of the schemas is empty")
    with errors_at(path):
        names = Place(path).names() if Place(path).is_dir() else []
    found = Schemas(path, warn)
    parts = sorted((name, *os.path.splitext(name)) for name in names)
    if files := [part for part in parts if part[2] in _KINDS and (part[1].isdecimal() or len(part[1]) == 36)]:
        found.read_folder(files)
        return found
    place = Place(path) / PARTITION if PARTITION in names else path
    segments = segments_at(place) if Place(place).exists() else []
    if not segments or not all(file.is_segment for file in segments):
        raise PathError(f"{path}: neither a partition with schemas, nor a folder of ID.avsc files")
    found.read_partition(segments)
    return found


def place_beside(file: SegmentFile) -> str | None:
    """Returns the partition of schemas in the log directory of a segment; None if there is none."""
    if file.path == STANDARD_INPUT:
        return None
    path = file.path if is_url(file.path) else Place(file.path).absolute
    place = Place(path).parent.parent / PARTITION
    return place if place.is_dir() else None
