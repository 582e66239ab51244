"""Records of a v2 batch: those of the usual shape, which C reads at once, tell what reading field by field tells."""

from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import int64s, sized, varint
from kseg import kernel
from kseg.kernel.interpreted import InterpretedLoader
from kseg.kernel.layout import rows as native
from kseg.kernel.layout.rows import ROW_WIDTH
from kseg.kernel.records import records
from kseg.kernel.records.records import COMPLETE, RecordWalk

ROWS, HEADERS = 12, 12
LEAST = -(1 << 63)

EDGES = [0, 1, 63, 64, 8191, 8192, (1 << 20) - 1, 1 << 20, (1 << 31) - 1]
numbers = st.sampled_from([sign * edge for edge in EDGES for sign in (1, -1)]) | st.integers(-100, 10_000)
long_numbers = numbers | st.sampled_from([1 << 34, 1 << 62, LEAST])
texts = st.none() | st.binary(max_size=12) | st.sampled_from([63, 64, 70, 8191, 8192]).map(bytes)


def field_by_field():
    """The walk as interpreted: it reads each record field by field."""
    name = records.__name__
    loader = InterpretedLoader(name, str(Path(records.__file__).with_name("records.py")))
    module = module_from_spec(spec_from_loader(name, loader))
    loader.exec_module(module)
    return module.RecordWalk


def overlong(encoded: bytes) -> bytes:
    """The same varint with a byte more."""
    return encoded[:-1] + bytes([encoded[-1] | 128, 0])


@st.composite
def encoded_records(draw):
    """A record, nearly always a good one; once in a while a number takes more bytes than it has to or tells a lie."""
    odd = draw(st.sampled_from(["", "", "", "overlong", "size", "null"]))
    stretched = overlong if odd == "overlong" else bytes
    delta = stretched(varint(draw(numbers)))
    key, value = draw(texts), draw(texts)
    body = bytes([draw(st.sampled_from([0, 0, 0, 1, 255]))]) + varint(draw(long_numbers)) + delta
    body += varint(draw(st.integers(-9000, -1))) if odd == "null" else sized(key)
    body += sized(value)
    count = draw(st.sampled_from([0, 0, 0, 1, 3]))
    body += varint(count) + b"".join(sized(b"name") + sized(draw(texts)) for _ in range(count))
    return stretched(varint(len(body) + (draw(st.integers(-3, 3)) if odd == "size" else 0))) + body


@st.composite
def areas(draw):
    """(bytes of records, how many the batch claims), whole or cut or with a byte changed."""
    found = draw(st.lists(encoded_records(), max_size=6))
    data = bytearray(b"".join(found))
    damage = draw(st.sampled_from(["", "", "byte", "cut"]))
    if data and damage == "byte":
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    elif damage == "cut":
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data), len(found) + draw(st.sampled_from([0, 0, 0, 1, -1]))


def seen(walk):
    return walk.index, walk.position, walk.flags, walk.largest_timestamp


def checked(make, data, header):
    walk = make(*header)
    return walk.check(data), seen(walk)


def read(make, data, header):
    walk, rows, headers = make(*header), int64s(ROW_WIDTH * ROWS), int64s(4 * HEADERS)
    status = walk.read(data, rows, headers)
    return status, seen(walk), rows.tolist()[: ROW_WIDTH * walk.row_count], headers.tolist()[: 4 * walk.header_count]


@pytest.mark.skipif(not kernel.COMPILED, reason="interpreted, every record is read field by field")
@given(areas(), st.sampled_from([5, LEAST, -LEAST - 1]), st.booleans(), numbers, st.sampled_from([-1, 0, 2**31 - 2]))
def test_records_of_the_usual_shape_tell_what_their_fields_tell(area, timestamp, log_append, last_delta, sequence):
    (data, count), slow = area, field_by_field()
    header = count, 1000, timestamp, 7, log_append, sequence, last_delta
    assert checked(RecordWalk, data, header) == checked(slow, data, header)
    assert read(RecordWalk, data, header) == read(slow, data, header)


def test_a_tombstone_may_end_where_the_file_does():
    """Behind its key there are two bytes only, and no third one to look at."""
    body = b"\0" + varint(0) + varint(0) + sized(b"key of some length") + sized(None) + varint(0)
    data = varint(len(body)) + body
    status, (index, position, *_), rows, _ = read(RecordWalk, data, (1, 0, 0, 0, False, -1, 0))
    assert (status, index, position) == (COMPLETE, 1, len(data))
    assert rows[native.ROW_VALUE_SIZE] == -1
