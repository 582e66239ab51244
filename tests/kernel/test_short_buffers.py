"""Every loop refuses a buffer that is one item too short, or a number outside of one: compiled, it would read or write
beyond the end.

The comparison of both kernels does not see that: most loops stop before the end of a buffer.
"""

import ast
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kseg.kernel
from kernel.rendering import batch, frames, header_rows, int64s, record
from kseg.formats.compression import expansion_buffer
from kseg.formats.rows import ALL, Rows
from kseg.kernel.compact import survivors
from kseg.kernel.compact.key_map import ENTRY_WIDTH, SECRET_BYTES, KeyMap, KeyReader, Secret
from kseg.kernel.layout.headers import V0_HEADER_BYTES, V07_MIN_BYTES, V2_HEADER_BYTES
from kseg.kernel.layout.rows import BATCH_WIDTH, CHECK_VALID_SHIFT, FRAME_WIDTH, HEADER_WIDTH, ROW_VALUE, ROW_WIDTH
from kseg.kernel.records import building, columns
from kseg.kernel.records.messages import MessageWalk
from kseg.kernel.records.records import RecordWalk
from kseg.kernel.records.replacing import Replacer
from kseg.kernel.render.rendering import MIN_OUTPUT_BYTES, Renderer
from kseg.kernel.scan import frames as scanning
from kseg.kernel.scan import headers, pieces
from kseg.kernel.state import indexing, producers, replicas, tally


class Free:
    """A buffer that may have any length: it ends the input, or holds as much output as fits."""

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self.buffer = buffer


DATA = batch([record(0, key=b"k", value=b"v")], 5) + batch([record(0, key=b"l", value=b"w")], 6)
FRAMES = frames(DATA)
BEFORE = int64s([-1, *FRAMES[1:]])
BATCHES, COUNT = header_rows(DATA)
LONG = DATA * 5

# One record whose key and value are the same byte, once with that byte as a header, too.
PAYLOAD = b"k"
ROW = int64s([7, 5, -1, 0, 1, 0, 1, 0, 0, 3 << CHECK_VALID_SHIFT])
WITH_HEADER = int64s([7, 5, -1, 0, 1, 0, 1, 0, 1, 3 << CHECK_VALID_SHIFT])
HEADER = int64s([0, 1, 0, 1])
SINGLE_BATCH_BYTES = 70

DISTINCT = tally.TABLE + 2
TALLY = tally.TALLY_WIDTH


def int32s(*values: int) -> memoryview:
    return memoryview(array("i", values))


def distinct() -> memoryview:
    table = int64s(DISTINCT)
    table[tally.CAP] = table[tally.TABLE_MASK] = 1
    return table


def key_map(keys: int = 0) -> KeyMap:
    found = KeyMap(Secret(bytes(SECRET_BYTES)))
    found.use(int64s(ENTRY_WIDTH * 4), 4, 3)
    found.put(int64s([1, 2] * keys), int64s(keys), keys)
    return found


def key_reader() -> KeyReader:
    return KeyReader(Secret(bytes(SECRET_BYTES)), 0)


def replacer(frame: int = 0) -> Replacer:
    found = Replacer(Secret(bytes(SECRET_BYTES)), False)
    found.go_to(frame)
    return found


def producer_table() -> producers.ProducerTable:
    table = producers.ProducerTable(0, 0, 0, False)
    table.use(int64s(producers.ENTRY_WIDTH), int64s(2))
    table.load([1] * producers.ENTRY_WIDTH)
    return table


def added(rows: memoryview) -> int:
    area = building.Area(2)
    return area.add(Rows(PAYLOAD, rows, HEADER, 1), 0, 1)


def expansion() -> object:
    return expansion_buffer(1 << 20)


# Functions with arguments that just suffice.
CASES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "KeyMap.use": lambda: (KeyMap(Secret(bytes(SECRET_BYTES))).use, int64s(ENTRY_WIDTH * 2), 2, 1),
    "KeyMap.put": lambda: (key_map().put, int64s(2), int64s(1), 1),
    "KeyMap.scatter": lambda: (key_map(1).scatter, int64s(3), int64s(ENTRY_WIDTH)),
    "KeyMap.move": lambda: (key_map().move, int64s(ENTRY_WIDTH), 0, 1),
    "KeyMap.look_up": lambda: (key_map().look_up, Free(int64s(ENTRY_WIDTH)), int64s(ENTRY_WIDTH)),
    "KeyReader.read": lambda: (
        key_reader().read, DATA, BATCHES, COUNT, int64s(COUNT), int64s(ROW_WIDTH), Free(int64s(2)), Free(int64s(1)),
        expansion(),
    ),
    "KeyReader.read_rows": lambda: (key_reader().read_rows, Free(PAYLOAD), ROW, 1, int64s(2), int64s(1)),
    "Survivors.mark": lambda: (
        survivors.Survivors(key_map(), survivors.Counts()).mark, Free(PAYLOAD), ROW, 1, bytearray(1)
    ),
    "Survivors.write": lambda: (
        survivors.Survivors(key_map(), survivors.Counts()).write, DATA, BATCHES, COUNT, int64s(COUNT),
        int64s(ROW_WIDTH), bytearray(1), bytearray(1), expansion(),
    ),
    "building.seal": lambda: (building.seal, bytearray(61), 0, 61, bytes(61), 0, 0, 0, 0),
    "building.max_bytes": lambda: (building.max_bytes, ROW, 1),
    "building.single_batches": lambda: (
        building.single_batches, PAYLOAD, ROW, int64s(1), 1, 0, bytearray(SINGLE_BATCH_BYTES)
    ),
    "Area.add": lambda: (added, ROW),
    "columns.gather": lambda: (
        columns.gather, PAYLOAD, ROW, 0, 1, ROW_WIDTH, ROW_VALUE, bytearray(1), int32s(1, 0), bytearray(1), 0
    ),
    "columns.keep_key": lambda: (columns.keep_key, PAYLOAD, ROW, 1, Free(b"k")),
    "Collector.collect": lambda: (
        columns.Collector(0).collect, DATA, FRAMES, COUNT, ALL, int64s(ROW_WIDTH), int64s(HEADER_WIDTH)
    ),
    "columns.stamp": lambda: (columns.stamp, int64s(ROW_WIDTH), 1, 1),
    "columns.count_invalid": lambda: (columns.count_invalid, ROW, 1),
    "columns.keep": lambda: (columns.keep, ROW, 1, ALL),
    "columns.fitting": lambda: (columns.fitting, WITH_HEADER, HEADER, 0, 1, columns.HEADERS, 9),
    "columns.kinds": lambda: (columns.kinds, ROW, 0, 1, int32s(0), 0),
    "columns.times": lambda: (columns.times, ROW, 0, 1, 1, int64s(1), bytearray(1), 0),
    "columns.header_ends": lambda: (columns.header_ends, ROW, 0, 1, int32s(0, 0), 0),
    "columns.headers_of": lambda: (columns.headers_of, WITH_HEADER, 0, 1, HEADER, int64s(HEADER_WIDTH)),
    "HeaderOffsets.fill": lambda: (columns.HeaderOffsets(9).fill, BATCHES, COUNT, ALL, int64s(2), 2),
    "HeaderOffsets.next_given": lambda: (columns.HeaderOffsets(9).next_given, BATCHES, COUNT),
    "MessageWalk.read": lambda: (MessageWalk().read, Free(b""), int64s(ROW_WIDTH)),
    "RecordWalk.__init__": lambda: (RecordWalk, bytes(V2_HEADER_BYTES)),
    "RecordWalk.read": lambda: (
        RecordWalk(DATA, V2_HEADER_BYTES).read, Free(DATA), int64s(ROW_WIDTH), Free(int64s(HEADER_WIDTH))
    ),
    "Replacer.replace_frames": lambda: (
        replacer().replace_frames, DATA, FRAMES, COUNT, int64s(ROW_WIDTH), Free(int64s(HEADER_WIDTH)),
        bytearray(DATA), expansion(),
    ),
    "Replacer.read_frames": lambda: (
        replacer().read_frames, DATA, FRAMES, COUNT, int64s(ROW_WIDTH), Free(int64s(HEADER_WIDTH))
    ),
    "Replacer.seal": lambda: (replacer(COUNT).seal, FRAMES, 0, bytearray(DATA)),
    "Replacer.replace": lambda: (replacer().replace, Free(bytearray(1)), ROW, 1, Free(int64s(1))),
    "Renderer.print_batches": lambda: (
        Renderer().print_batches, DATA, FRAMES, COUNT, int64s(ROW_WIDTH), Free(int64s(HEADER_WIDTH)),
        bytearray(MIN_OUTPUT_BYTES),
    ),
    "Renderer.print_records": lambda: (
        Renderer().print_records, Free(PAYLOAD), ROW, Free(int64s(1)), 1, 2, 1, bytearray(MIN_OUTPUT_BYTES)
    ),
    "frames.claimed_end": lambda: (scanning.claimed_end, DATA, 0, len(DATA), False, 1 << 20),
    "frames.scan": lambda: (partial(scanning.scan, scanning.FrameScan()), DATA, len(DATA), Free(int64s(FRAME_WIDTH))),
    "frames.find": lambda: (partial(scanning.find, scanning.FrameScan()), DATA, 1, len(DATA), len(DATA)),
    "frames.recodable": lambda: (scanning.recodable, DATA, FRAMES, 0, COUNT, 0, 1, 1 << 20),
    "WindowedScan.follow": lambda: (
        scanning.WindowedScan(-1, 0, 0, 0).follow, 0, bytearray(1), int64s(FRAME_WIDTH), Free(int64s(0))
    ),
    "headers.read": lambda: (headers.read, DATA, FRAMES, COUNT, False, 0, int64s(COUNT * BATCH_WIDTH)),
    "headers.pack_fingerprints": lambda: (
        headers.pack_fingerprints, DATA, BATCHES, COUNT, 0, bytearray(COUNT * headers.MAX_FINGERPRINT_BYTES)
    ),
    "headers.follow": lambda: (headers.follow, BATCHES, COUNT, headers.Chain()),
    "KeyIndex.__init__": lambda: (pieces.KeyIndex, int64s(4), 1),
    "KeyIndex.add": lambda: (
        pieces.KeyIndex(int64s(4), 1).add, bytes(V0_HEADER_BYTES), 0, int64s(BATCH_WIDTH), 0, 1, 0
    ),
    "KeyIndex.alike": lambda: (
        pieces.KeyIndex(int64s(4), 1).alike, bytes(V0_HEADER_BYTES), 0, int64s(BATCH_WIDTH), 0
    ),
    "pieces.breaks": lambda: (pieces.breaks, BATCHES, COUNT, 512, 1 << 60, int64s(COUNT)),
    "pieces.summarize": lambda: (pieces.summarize, BATCHES, COUNT),
    "pieces.contradict": lambda: (pieces.contradict, BATCHES, 0, COUNT, BATCHES, 0, COUNT),
    "pieces.mark_blocks": lambda: (pieces.mark_blocks, bytes(64), 64, 64, int64s(4)),
    "indexing.changes": lambda: (
        indexing.changes, BATCHES, 0, COUNT, indexing.EpochState(), int64s(indexing.CHANGE_WIDTH)
    ),
    "indexing.index": lambda: (
        indexing.index, BATCHES, COUNT, indexing.IndexBuild(0, 0), bytearray(COUNT * indexing.OFFSETS),
        bytearray(COUNT * indexing.TIMES),
    ),
    "EntryWalk.move": lambda: (
        indexing.EntryWalk(indexing.TIMES, 0, int64s(0)).move, 0, 2, bytes(2 * indexing.TIMES)
    ),
    "indexing.follow": lambda: (
        partial(indexing.follow, indexing.EntryWalk(indexing.OFFSETS, 0, int64s(0))), BATCHES, 0, COUNT
    ),
    "ProducerTable.use": lambda: (producer_table().use, int64s(producers.ENTRY_WIDTH), int64s(2)),
    "producers.replay": lambda: (partial(producers.replay, producer_table()), BATCHES, 0, COUNT),
    "producers.compare": lambda: (
        partial(producers.compare, producer_table()),
        bytes(producers.SNAPSHOT_HEADER_BYTES + producers.SNAPSHOT_ENTRY_BYTES), 0, 1, Free(int64s(2)),
    ),
    "Side.__init__": lambda: (replicas.Side, PAYLOAD, ROW, int64s(1), 1, 0),
    "RecordComparison.__init__": lambda: (replicas.RecordComparison, int64s(replicas.EVENT_WIDTH)),
    "tally.add": lambda: (tally.add, distinct(), Free(b"x")),
    "tally.largest_of": lambda: (tally.largest_of, int64s(TALLY), False),
    "tally.header_keys": lambda: (tally.header_keys, int64s(TALLY)),
    "tally.add_frames": lambda: (
        tally.add_frames, DATA, FRAMES, 0, COUNT, False, int64s(TALLY), distinct(), distinct(), int64s(ROW_WIDTH),
        int64s(HEADER_WIDTH),
    ),
    "tally.add_batch v0": lambda: (tally.add_batch, bytes(V0_HEADER_BYTES + 8), 0, int64s(TALLY), distinct()),
    "tally.add_batch v2": lambda: (tally.add_batch, bytes(V2_HEADER_BYTES), 2, int64s(TALLY), distinct()),
    "tally.add_batch 0.7": lambda: (tally.add_batch, bytes(V07_MIN_BYTES), -7, int64s(TALLY), distinct()),
    "tally.add_rows": lambda: (
        tally.add_rows, Free(PAYLOAD), ROW, int64s(1), 1, int64s(TALLY), distinct(), False, True
    ),
    "tally.add_size": lambda: (tally.add_size, int64s(TALLY), 0, 1),
    "tally.count_forms": lambda: (tally.count_forms, BATCHES, COUNT, False, int64s(tally.FORMS_WIDTH)),
}  # fmt: skip

# Of these cases the places of arguments, or fields of the object, with values outside of the buffers.
OUTSIDE: dict[str, list[tuple[int | str, object]]] = {
    "KeyMap.use": [(2, 0), (2, 1 << 32), (3, 2)],
    "KeyMap.scatter": [(1, int64s([0, 1, 0])), (1, int64s([0, -1, 0]))],
    "KeyMap.move": [(2, -1), (2, 2)],
    "KeyReader.read": [("frame", -1), ("keys", -1)],
    "Survivors.write": [("frame", -1), ("size", -1)],
    "building.seal": [(2, -1), (2, 1)],
    "building.max_bytes": [(2, -1)],
    "building.single_batches": [(4, -1)],
    "columns.gather": [(3, -1), (3, 2), (6, -1), (6, ROW_WIDTH - 1), (8, int32s(-1, 0)), (8, int32s(2, 0)), (10, -1)],
    "columns.keep_key": [(3, -1)],
    "Collector.collect": [
        ("frame", -1), ("row_count", -1), ("row_count", 2), ("header_count", -1), ("header_count", 2), (2, BEFORE)
    ],
    "columns.stamp": [(2, -1)],
    "columns.count_invalid": [(2, -1)],
    "columns.keep": [(2, -1)],
    "columns.fitting": [(3, -1), (3, 2)],
    "columns.kinds": [(2, -1), (2, 2), (5, -1)],
    "columns.times": [(2, -1), (2, 2), (4, 0), (7, -1)],
    "columns.header_ends": [(2, -1), (2, 2), (5, -1)],
    "columns.headers_of": [(2, -1), (2, 2)],
    "HeaderOffsets.fill": [("batch", -1), (2, -1), (5, -1), (5, 3)],
    "HeaderOffsets.next_given": [("batch", -1), (2, -1)],
    "MessageWalk.read": [("position", -1)],
    "Replacer.replace_frames": [("frame", -1), (2, BEFORE)],
    "Replacer.read_frames": [("frame", -1), (2, BEFORE)],
    "Replacer.seal": [(2, -1), (1, BEFORE)],
    "Renderer.print_batches": [("frame", -1), ("written", -1), ("written", MIN_OUTPUT_BYTES + 1), (2, BEFORE)],
    "Renderer.print_records": [("record", -1), (4, 2), (6, 3), ("written", -1)],
    "frames.claimed_end": [(2, -1)],
    "frames.scan": [("position", -1)],
    "frames.recodable": [(3, -1), (2, BEFORE)],
    "WindowedScan.follow": [("filled", 2), ("filled", -1), ("header_count", 1)],
    "headers.read": [(2, BEFORE)],
    "headers.pack_fingerprints": [(4, 1)],
    "KeyIndex.add": [(4, -1)],
    "KeyIndex.alike": [(4, -1)],
    "pieces.breaks": [(2, -1), (3, 0)],
    "pieces.contradict": [(2, -1), (5, -1)],
    "pieces.mark_blocks": [(2, 65), (3, 0)],
    "indexing.changes": [(2, -1)],
    "indexing.follow": [(2, -1)],
    "producers.replay": [(2, -1)],
    "Side.__init__": [(5, -1)],
    "tally.add_frames": [(3, -1), (2, BEFORE)],
    "tally.add_batch v0": [(2, -1)],
    "tally.add_batch v2": [(2, 3)],
    "tally.add_size": [(2, -1), (2, 4)],
}  # fmt: skip

# Functions that take a buffer as long as it is, and parts of loops that no other module calls.
WITHOUT_LIMIT = {
    "ExpansionBuffer.expand", "KeyMap.merge", "ProducerTable.write_to", "frames.continues", "frames.leading_zeros",
    "frames.long_zeros", "frames.move_frames", "key_map.hash_of", "key_map.copy_entry", "key_map.hash_rows",
    "pieces.common_prefix",
}  # fmt: skip


def called(arguments: list[object]) -> None:
    function, *others = (each.buffer if isinstance(each, Free) else each for each in arguments)
    assert callable(function)
    function(*others)


REFUSAL = r"too short|too few|too small|no such|outside|beyond|no free|no batch|no power|not fit"
SHORT = [
    pytest.param(name, place, id=f"{name}-{place}")
    for name, case in CASES.items()
    for place, argument in enumerate(case())
    if isinstance(argument, (bytes, bytearray, memoryview))
]


@pytest.mark.parametrize("name", CASES)
def test_buffers_that_just_suffice_are_taken(name: str) -> None:
    called(list(CASES[name]()))


@pytest.mark.parametrize(("name", "place"), SHORT)
def test_a_buffer_that_is_one_item_too_short_is_refused(name: str, place: int) -> None:
    arguments = list(CASES[name]())
    arguments[place] = arguments[place][:-1]
    with pytest.raises(ValueError, match=REFUSAL):
        called(arguments)


@pytest.mark.parametrize(("name", "what", "value"), [(name, *each) for name, some in OUTSIDE.items() for each in some])
def test_a_number_outside_of_the_buffers_is_refused(name: str, what: int | str, value: object) -> None:
    arguments = list(CASES[name]())
    if isinstance(what, int):
        arguments[what] = value
    else:
        function = arguments[0]
        setattr(function.args[0] if isinstance(function, partial) else function.__self__, what, value)
    with pytest.raises(ValueError, match=REFUSAL):
        called(arguments)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(scanning.scan, (len(LONG), int64s(FRAME_WIDTH))), (scanning.find, (1, len(LONG), len(LONG)))],
    ids=["scan", "find"],
)
def test_prefix_crcs_must_reach_to_the_end(function: Callable[..., int], arguments: tuple[object, ...]) -> None:
    scan = scanning.FrameScan()
    scan.use_prefixes(0, 0)
    with pytest.raises(ValueError, match="prefix table is too short"):
        function(scan, LONG, *arguments)
    scan.forget_prefixes()
    function(scan, LONG, *arguments)
    scan.use_prefixes(0, len(LONG))
    function(scan, LONG, *arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.put(int64s(2), int64s(1), 1), lambda one: one.find(0, 0),
        lambda one: one.scatter(int64s(3), int64s(0)), lambda one: one.merge(int64s(ENTRY_WIDTH), 0),
        lambda one: one.move(int64s(ENTRY_WIDTH), 0, 0), lambda one: one.look_up(int64s(0), int64s(0)),
        lambda one: survivors.Survivors(one, survivors.Counts()),
    ],
    ids=["put", "find", "scatter", "merge", "move", "look_up", "Survivors"],
)  # fmt: skip
def test_a_key_map_without_a_table_is_refused(call: Callable[[KeyMap], object]) -> None:
    with pytest.raises(ValueError, match="too few slots"):
        call(KeyMap(Secret(bytes(SECRET_BYTES))))


def test_a_table_that_is_gone_is_not_written_to() -> None:
    found = key_map()
    writer = survivors.Survivors(found, survivors.Counts())
    found.clear()
    with pytest.raises(ValueError, match="too few slots"):
        writer.write(
            DATA, BATCHES, COUNT, int64s(COUNT), int64s(ROW_WIDTH), bytearray(1), bytearray(200), expansion_buffer(1)
        )


def test_tables_without_a_free_slot_are_refused() -> None:
    full = distinct()
    full[tally.CAP] = full[tally.TABLE_MASK] + 1
    with pytest.raises(ValueError, match="too few slots"):
        tally.add(full, b"x")
    with pytest.raises(ValueError, match="the table is full"):
        producer_table().load([2] * producers.ENTRY_WIDTH)


def test_no_loop_with_a_buffer_is_missing_here() -> None:
    taking = set()
    for path in Path(kseg.kernel.__file__).parent.glob("[!ln]*/[!_]*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            owner = node.name if isinstance(node, ast.ClassDef) else path.stem
            for each in node.body if isinstance(node, (ast.ClassDef, ast.Module)) else ():
                if isinstance(each, ast.FunctionDef) and (each.name[0] != "_" or each.name == "__init__"):
                    kinds = [ast.unparse(one.annotation) for one in each.args.args if one.annotation]
                    if any(kind.endswith(("sIn", "sOut")) for kind in kinds):
                        taking.add(f"{owner}.{each.name}")
    assert taking == {name.split()[0] for name in CASES} - {"Area.add"} | WITHOUT_LIMIT
