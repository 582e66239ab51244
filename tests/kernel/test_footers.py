"""A row group's entry in a footer says where its pages are once they lie further behind, and nothing else changes."""

import copy

import pytest

from kseg.columns import thrift
from kseg.columns.thrift import BINARY, FALSE, I16, I32, I64, LIST, STRUCT, TRUE, Elements, Field, Struct
from kseg.kernel.footers import moved_group

MOST = (1 << 62) - 1


def footer(position: int, ordinal: int = 3) -> Struct:
    """A file of one row group, with positions in all fields that hold any, and numbers in some others."""
    encodings = Elements(I32, [0, 3, -1])
    statistics = {1: Field(BINARY, b"x" * 300), 2: Field(I64, position), 9: Field(TRUE, None)}
    meta = {
        1: Field(I32, 6), 2: Field(LIST, encodings), 3: Field(LIST, Elements(BINARY, [b"headers", b"list"] * 8)),
        5: Field(I64, 1000), 6: Field(I64, position), 9: Field(I64, position), 10: Field(I64, 0),
        11: Field(I64, position + 1), 12: Field(STRUCT, statistics), 14: Field(I64, position), 15: Field(I32, 5),
        40: Field(LIST, Elements(TRUE, [1, 2])),
    }  # fmt: skip
    chunk = {2: Field(I64, position), 3: Field(STRUCT, meta), 4: Field(I64, position), 5: Field(I32, 7),
             6: Field(I64, position), 7: Field(I32, 9), 8: Field(STRUCT, {1: Field(FALSE, None)})}  # fmt: skip
    group = {1: Field(LIST, Elements(STRUCT, [chunk] * 20)), 2: Field(I64, position), 3: Field(I64, -7),
             5: Field(I64, position), 6: Field(I64, 9), 7: Field(I16, ordinal)}  # fmt: skip
    return {1: Field(I32, 2), 2: Field(LIST, Elements(STRUCT, [{4: Field(BINARY, b"schema")}] * 2)),
            3: Field(I64, 1000), 4: Field(LIST, Elements(STRUCT, [group])), 6: Field(BINARY, b"writer")}  # fmt: skip


def moved(data: bytes, by: int, ordinal: int) -> bytes:
    out = bytearray(6 * len(data))
    return bytes(out[: moved_group(data, by, ordinal, out)])


@pytest.mark.parametrize("by", [0, 1, 127, 1 << 20, 1 << 40])
@pytest.mark.parametrize("position", [4, 63, 64, 1 << 31, MOST - (1 << 41)])
@pytest.mark.parametrize("ordinal", [0, 63, 64, 32767, -1])
def test_positions_and_number_change(position: int, by: int, ordinal: int) -> None:
    data = thrift.written(footer(position))
    want = copy.deepcopy(footer(position)[4].value.values[0])
    want[5] = Field(I64, position + by)
    want[7] = Field(I16, ordinal)
    if ordinal < 0:
        del want[7]
    chunk = want[1].value.values[0]  # they all are one
    for fields, numbers in ((chunk, (2, 4, 6)), (chunk[3].value, (9, 11, 14))):
        for number in numbers:
            fields[number] = Field(I64, fields[number].value + by)
    assert thrift.read(moved(data, by, ordinal)) == want


def test_what_is_cut_short_is_refused() -> None:
    data = thrift.written(footer(1000))
    size = len(thrift.written({k: v for k, v in footer(1000).items() if k <= 4})) - 1
    for end in range(1, size):
        with pytest.raises(ValueError, match="no footer"):
            moved(data[:end], 5, 0)
    assert moved(data[:size], 5, 0) == moved(data, 5, 0)


def test_what_has_no_room_is_refused() -> None:
    data = thrift.written(footer(1000))
    size = len(moved(data, 5, 0))
    for room in range(1, size):
        with pytest.raises(ValueError, match="no footer"):
            moved_group(data, 5, 0, bytearray(room))


@pytest.mark.parametrize("groups", [0, 2])
def test_a_file_of_several_groups_or_none_is_refused(groups: int) -> None:
    fields = footer(1000)
    fields[4] = Field(LIST, Elements(STRUCT, fields[4].value.values * groups))
    with pytest.raises(ValueError, match="no footer"):
        moved(thrift.written(fields), 5, 0)


def test_nonsense_is_refused() -> None:
    nested = b"\x1c" * 200
    for data in (
        b"\xff" * 40,
        nested,
        b"\x49\x1c" + nested,
        b"\x18" + b"\xff" * 9 + b"\x01",
        b"\x00",
        b"\x19\xf1\xff\x7f",
    ):
        with pytest.raises(ValueError, match="no footer"):
            moved(data, 5, 0)
    with pytest.raises(ValueError, match="empty"):
        moved_group(b"", 0, 0, bytearray(1))
