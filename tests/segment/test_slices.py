"""Slices of a segment, however it is cut, together give the items of a read from its start."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, record
from kseg.kernel.layout.rows import FRAME_WIDTH
from kseg.segment.files import SegmentFile, segment_file
from kseg.segment.items import Damage
from kseg.segment.reader import Run, open_segment
from kseg.segment.slices import Slice, runs_of, slices
from segment.long_log import write_long_log
from segment.segments import SAMPLES, entries, sample

BASE = 1187


def items(file: SegmentFile, part: Slice | None) -> list[tuple[object, ...]]:
    """Returns the frames and damage of a slice; None: of the whole file, by the reader alone."""
    found: list[tuple[object, ...]] = []
    with open_segment(file) as reader:
        for item in reader.runs() if part is None else runs_of(reader, file, part):
            if isinstance(item, Damage):
                found.append(item)
                continue
            assert isinstance(item, Run)
            columns = item.rows[: item.count * FRAME_WIDTH].tolist()
            found += [tuple(columns[at : at + FRAME_WIDTH]) for at in range(0, len(columns), FRAME_WIDTH)]
    return found


def check(file: SegmentFile, cuts: list[int]) -> None:
    ends: list[int | None] = [*cuts, None]
    parts = [Slice(start, end) for start, end in zip([0, *cuts], ends, strict=True)]
    assert [item for part in parts for item in items(file, part)] == items(file, None)


def holding(payload: bytes, base_offset: int) -> bytes:
    """Returns a v2 batch of one record with ``payload`` as its value."""
    return batch([record(0, value=payload)], base_offset)


def moved(batch: bytes, base_offset: int) -> bytes:
    return struct.pack(">q", base_offset) + batch[8:]


def index_of(positions: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in positions)


BATCHES = [part for name in SAMPLES for part in entries(sample(name))]
V2 = entries(sample("v2"))

PARTS = st.lists(
    st.one_of(
        st.sampled_from(BATCHES),
        st.lists(st.sampled_from(BATCHES), min_size=1, max_size=3).map(b"".join).map(lambda data: holding(data, 0)),
        st.binary(max_size=90),
        st.integers(1, 90).map(bytes),
    ),
    max_size=9,
)


@st.composite
def segments(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """A .log with batches, values that contain whole batches, and damage; with a right or wrong index, or none."""
    data, entries_of_index, offset = bytearray(), [], BASE
    for part in draw(PARTS):
        if len(part) > 100 and part[16] == 2:
            part = moved(part, offset)
            offset += 1 + struct.unpack_from(">i", part, 23)[0]
            entries_of_index.append((offset - 1, len(data)))
        data += part
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        at = draw(st.integers(0, len(data) - 1))
        data[at] ^= 1 << draw(st.integers(0, 7))
    kind = draw(st.sampled_from(["right", "none", "shifted", "random"]))
    if kind == "none" or not data:
        return bytes(data), None
    if kind == "shifted":
        entries_of_index = [(offset, position + 7) for offset, position in entries_of_index]
    elif kind == "random":
        entries_of_index = [(offset, draw(st.integers(0, len(data)))) for offset, _ in entries_of_index]
    return bytes(data), index_of(entries_of_index)


@given(segment=segments(), data=st.data())
def test_the_parts_of_any_file_make_up_the_whole(
    segment: tuple[bytes, bytes | None], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("part-0")
    path = folder / f"{BASE:020}.log"
    path.write_bytes(segment[0])
    if segment[1] is not None:
        path.with_suffix(".index").write_bytes(segment[1])
    size = len(segment[0])
    check(segment_file(str(path)), sorted(data.draw(st.lists(st.integers(0, size + 1), max_size=4))))


@pytest.mark.parametrize("has_index", [True, False])
def test_a_cut_inside_a_payload_of_whole_batches(has_index: bool, tmp_path: Path) -> None:
    """Every cut of a log whose records contain logs; an index that points into them is not used."""
    inner = b"".join(moved(batch, BASE + 2 + i) for i, batch in enumerate(V2[:2]))
    parts = [moved(V2[0], BASE), holding(inner, BASE + 1), moved(V2[1], BASE + 40)]
    path = tmp_path / f"{BASE:020}.log"
    path.write_bytes(b"".join(parts))
    inside = path.read_bytes().index(inner)
    if has_index:
        places = [(BASE + 1, len(V2[0])), (BASE + 2, inside), (BASE + 3, inside + len(V2[0]))]
        path.with_suffix(".index").write_bytes(index_of(places))
    for cut in range(path.stat().st_size):
        check(segment_file(str(path)), [cut])


@pytest.mark.parametrize("with_indexes", [True, False])
def test_a_part_of_a_long_log_reads_little_before_it(with_indexes: bool, tmp_path: Path) -> None:
    file = write_long_log(tmp_path, 3 << 20, with_indexes=with_indexes)
    size = Path(file.path).stat().st_size
    whole = items(file, None)
    found = []
    for part in slices(size, 1 << 20):
        with open_segment(file) as reader:
            for item in runs_of(reader, file, part):
                assert isinstance(item, Run)
                found.append(item.count)
            assert reader.start >= part.start - (16 << 10)
    assert sum(found) == len(whole)


@pytest.mark.parametrize("size", [0, 1, 99, 100, 149, 151, 1000])
def test_slices_cover_a_file_once(size: int) -> None:
    parts = slices(size, 100)
    assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert (parts[0].start, parts[-1].end) == (0, None)
    assert all(50 <= part.end - part.start <= 150 for part in parts[:-1] if part.end is not None)
