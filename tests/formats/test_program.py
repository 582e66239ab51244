"""Compiled schema programs: what they leave to the decoders. tests/kernel/render shows all messages of real tables."""

import pytest

from kseg.formats.program import Switch, coordinator_program
from kseg.formats.schema import MessageSchema
from kseg.kernel.render import schema as kernel

KEY = MessageSchema("K", "k:i8", flexible=None)


def value_entry(program, record_type):
    """The place of the value message of version 0."""
    _framing, types, versions = program.code[:3]
    return program.code[3 + types + record_type * versions]


@pytest.mark.parametrize("table", ["a:f64", "a:i32(tag16)", "a:[]{b:{c:f64}?}"])
def test_what_the_kernel_cannot_show_has_no_place(table):
    program = coordinator_program({0: KEY}, {0: MessageSchema("M", table)})
    assert value_entry(program, 0) == 0
    assert program.code[3]


def test_a_switch_is_for_its_record_type_alone():
    message = MessageSchema("M", "kind:str, data:bytes")
    switch = Switch(1, "kind", "x", {"data": MessageSchema("D", "d:i32", highest=2, flexible=None)})
    program = coordinator_program({0: KEY, 1: KEY}, {0: message, 1: message}, switch)
    kinds = []
    for record_type in (0, 1):
        struct = program.code[value_entry(program, record_type) + 2]
        first = struct + kernel.STRUCT_HEAD
        kinds.append(list(program.code[first : first + 2 * kernel.FIELD_WIDTH : kernel.FIELD_WIDTH]))
    assert kinds == [[kernel.STR, kernel.BYTES], [kernel.SWITCH, kernel.PROTOCOL]]
