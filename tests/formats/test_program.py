"""Compiled schema programs: which messages they contain, and that each ends where it should."""

import pytest

from kseg.decoders.framed import type_name
from kseg.decoders.schemas import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from kseg.formats.program import COORDINATOR, FRAMED, Switch, coordinator_program, framed_program
from kseg.formats.schema import MessageSchema
from kseg.kernel.render import schema as kernel

COORDINATORS = [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE]


def names_of(records):
    return {api_key: type_name(message) for api_key, message in records.items()}


def value_entry(program, record_type, version):
    _framing, types, versions = program.code[:3]
    return program.code[3 + types + record_type * versions + version]


def lead(program, entry):
    position, size = program.code[entry : entry + 2]
    return program.names[position : position + size].decode()


def fields(program, struct):
    """Returns (name, kind, tag, flags) of a struct's fields."""
    width = kernel.FIELD_WIDTH
    for k in range(program.code[struct]):
        at = struct + kernel.STRUCT_HEAD + k * width
        kind, flags, position, size, tag = program.code[at : at + 5]
        yield program.names[position : position + size].decode(), kind, tag, flags


@pytest.mark.parametrize("schemas", COORDINATORS)
def test_every_message_of_a_coordinator_has_its_place(schemas):
    program = coordinator_program(schemas.keys, schemas.values)
    assert program.code[0] == COORDINATOR
    for record_type, message in schemas.values.items():
        assert lead(program, program.code[3 + record_type]) == f'{{"type":"{record_type}","data":'
        for version in range(program.code[2]):
            entry = value_entry(program, record_type, version)
            assert bool(entry) == (version <= message.highest)
            if entry:
                assert lead(program, entry) == f'{{"version":"{version}","data":'


@pytest.mark.parametrize("records", [CLUSTER_METADATA, REMOTE_LOG_METADATA])
def test_framed_messages_but_those_with_floats(records):
    program = framed_program(records, names_of(records))
    assert program.code[0] == FRAMED
    for api_key, message in records.items():
        has_float = any(each.kind == "f64" for each in message.fields)
        assert bool(value_entry(program, api_key, message.highest)) != has_float


def test_the_fields_of_a_version():
    program = coordinator_program(CONSUMER_OFFSETS.keys, CONSUMER_OFFSETS.values)

    def shown(version):
        entry = value_entry(program, 1, version)
        assert program.code[entry + 3] == (version >= 4)
        return [name[2:-2] for name, _kind, _tag, _flags in fields(program, program.code[entry + 2])]

    assert shown(0) == shown(2) == ["offset", "metadata", "commitTimestamp"]
    assert shown(1) == ["offset", "metadata", "commitTimestamp", "expireTimestamp"]
    assert shown(4) == ["offset", "leaderEpoch", "metadata", "commitTimestamp", "topicId"]


def test_flags_tags_and_order():
    message = MessageSchema("M", "a:str?(tag1), b:[]i32?(v0+ tag0 =[]), c:uuid, d:u16(v3+)")
    program = coordinator_program({0: MessageSchema("K", "k:i8", flexible=None)}, {0: message})
    struct = program.code[value_entry(program, 0, 0) + 2]
    array, nullable, null = kernel.IS_ARRAY, kernel.IS_NULLABLE, kernel.IS_DEFAULT_NULL
    assert program.code[struct + 1]  # tagged fields come before one that is in line
    assert list(fields(program, struct)) == [
        (',"a":', kernel.STR, 1, nullable + null),
        (',"b":', kernel.I32, 0, array + nullable),
        (',"c":', kernel.UUID, -1, 0),
    ]


@pytest.mark.parametrize("table", ["a:f64", "a:i32(tag16)", "a:[]{b:{c:f64}?}"])
def test_what_the_kernel_cannot_show_has_no_place(table):
    program = coordinator_program({0: MessageSchema("K", "k:i8", flexible=None)}, {0: MessageSchema("M", table)})
    assert value_entry(program, 0, 0) == 0
    assert program.code[3]


def test_a_switch_is_for_its_record_type_alone():
    message = MessageSchema("M", "kind:str, data:bytes")
    keys = {n: MessageSchema("K", "k:i8", flexible=None) for n in (0, 1)}
    switch = Switch(1, "kind", "x", {"data": MessageSchema("D", "d:i32", highest=2, flexible=None)})
    program = coordinator_program(keys, {0: message, 1: message}, switch)
    kinds = [
        [kind for _name, kind, _tag, _flags in fields(program, program.code[value_entry(program, n, 0) + 2])]
        for n in (0, 1)
    ]
    assert kinds == [[kernel.STR, kernel.BYTES], [kernel.SWITCH, kernel.PROTOCOL]]
