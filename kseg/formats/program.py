"""Compiles tables of `kseg.formats.schema` into programs for `kseg.kernel.render.schema`, which documents the code.

A program begins with the framing of the records and an index of the messages:

    FRAMING, TYPES, VERSIONS              COORDINATOR or FRAMED; number of record types and of versions in the index
    TYPES columns                         start of the key message of a type, 0: none; always 0 if FRAMED
    TYPES * VERSIONS columns              start of the value message of a type in a version

A message begins with the text before its object (position and size in ``names``), the index of its struct, and whether
it is flexible.

Its worth: a dump of 20 MB of __cluster_metadata takes 18 times as long by `kseg.formats.schema`, 20 MB of
__consumer_offsets more than 100 times.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kseg.formats.schema import Field, MessageSchema, json_text
from kseg.kernel.render import schema as kernel
from kseg.kernel.render.schema import COORDINATOR, FRAMED, TABLES

_KINDS = {
    "i8": kernel.I8, "i16": kernel.I16, "u16": kernel.U16, "i32": kernel.I32, "i64": kernel.I64, "bool": kernel.BOOL,
    "uuid": kernel.UUID, "str": kernel.STR, "bytes": kernel.BYTES, "struct": kernel.NESTED, "switch": kernel.SWITCH,
    "protocol": kernel.PROTOCOL,
}  # fmt: skip


class Program(NamedTuple):
    """A program for `kseg.kernel.render.rendering`: int64 code, and the texts that it refers to."""

    code: memoryview
    names: bytes


class Switch(NamedTuple):
    """In values of `record_type`, bytes fields hold nested messages if another `field` equals `text`."""

    record_type: int
    field: str
    text: str
    messages: Mapping[str, MessageSchema]


class UnrenderableError(Exception):
    """Raised for a message that the kernel cannot render: floats, and tags with large numbers."""


def coordinator_program(
    keys: Mapping[int, MessageSchema], values: Mapping[int, MessageSchema], switch: Switch | None = None
) -> Program:
    """Compiles the messages of a coordinator's records; see `kseg.decoders.keyed`."""
    maker = _Maker(COORDINATOR, keys, values.values())
    for record_type, message in keys.items():
        lead = f'{{"type":"{record_type}","data":'
        maker.code[TABLES + record_type] = maker.message(message, record_type, lead)
    for record_type, message in values.items():
        for version in range(message.highest + 1):
            place = maker.value_place(record_type, version)
            its_switch = switch if switch and switch.record_type == record_type else None
            maker.code[place] = maker.message(message, version, f'{{"version":"{version}","data":', its_switch)
    return maker.program()


def framed_program(records: Mapping[int, MessageSchema], names: Mapping[int, str]) -> Program:
    """Compiles records in the framing of `kseg.decoders.framed`; ``names`` are their type names."""
    maker = _Maker(FRAMED, records, records.values())
    for record_type, message in records.items():
        for version in range(message.highest + 1):
            lead = f'{{"type":"{names[record_type]}","version":{version},"data":'
            maker.code[maker.value_place(record_type, version)] = maker.message(message, version, lead)
    return maker.program()


class _Maker:
    def __init__(self, framing: int, types: Iterable[int], values: Iterable[MessageSchema]) -> None:
        self._types = 1 + max(types)
        self._versions = 1 + max(message.highest for message in values)
        self.code = [framing, self._types, self._versions, *[0] * (self._types * (1 + self._versions))]
        self._names = bytearray()
        self._places: dict[str, int] = {}
        self._structs: dict[tuple[object, ...], int] = {}

    def program(self) -> Program:
        return Program(memoryview(array("q", self.code)), bytes(self._names) + bytes(kernel.PADDING))

    def value_place(self, record_type: int, version: int) -> int:
        return TABLES + self._types + record_type * self._versions + version

    def message(self, message: MessageSchema, version: int, lead: str, switch: Switch | None = None) -> int:
        """Returns the index of a message; 0 if the kernel cannot render it."""
        is_flexible = message.flexible is not None and version >= message.flexible
        try:
            struct = self._struct(message.fields, version, is_flexible, switch)
        except UnrenderableError:
            return 0
        return self._append([self._text(lead), len(lead), struct, is_flexible])

    def _append(self, columns: list[int]) -> int:
        self.code += columns
        return len(self.code) - len(columns)

    def _text(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self._names)
            self._names += text.encode()
        return self._places[text]

    def _struct(self, fields: tuple[Field, ...], version: int, is_flexible: bool, switch: Switch | None) -> int:
        key = (fields, version, is_flexible, switch is not None)
        if key not in self._structs:
            here = [each for each in fields if each.is_in(version) and (is_flexible or each.tag is None)]
            rows = [self._field(each, version, is_flexible, switch) for each in here]
            tagged = [each.tag is not None for each in here]
            known = sum(1 << each.tag for each in here if each.tag is not None)
            head = [len(here), tagged != sorted(tagged), known]
            self._structs[key] = self._append(head + [column for row in rows for column in row])
        return self._structs[key]

    def _field(self, each: Field, version: int, is_flexible: bool, switch: Switch | None) -> list[int]:
        kind, struct = each.kind, 0
        default = each.default if isinstance(each.default, int) else 0
        if kind == "struct":
            struct = self._struct(each.fields, version, is_flexible, switch)
        elif switch and each.name == switch.field:
            kind, struct, default = "switch", self._text(switch.text), len(switch.text.encode())
        elif switch and each.name in switch.messages:
            # The table of the structs of a message that is not flexible, one per version from 0 on.
            message = switch.messages[each.name]
            structs = [self._struct(message.fields, version, False, None) for version in range(message.highest + 1)]
            kind, struct = "protocol", self._append([len(structs), *structs])
        if kind not in _KINDS or (each.tag or 0) >= kernel.TAGS:
            raise UnrenderableError(each.name)
        flags = (
            kernel.IS_ARRAY * each.is_array
            + kernel.IS_NULLABLE * each.is_nullable
            + kernel.IS_DEFAULT_NULL * (each.default is None)
        )
        name = f',"{each.name}":'
        tag = -1 if each.tag is None else each.tag
        weight = 1 + len(each.fields)
        if each.names:
            struct = self._append([len(each.names), *(n for name in each.names for n in (self._text(name), len(name)))])
        if kind == "struct" and tag >= 0 and not each.is_array:
            default, weight = self._text(json_text(each.default)), len(json_text(each.default))
        return [_KINDS[kind], flags, self._text(name), len(name), tag, int(default), struct, weight]
