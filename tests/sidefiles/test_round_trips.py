"""Files written by real brokers are read without a problem and rebuilt byte for byte."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS, build_leader_epochs, build_offset_checkpoint, offsets_of
from kseg.sidefiles.hash_order import hash_map_order
from kseg.sidefiles.indexes import (
    EntryFile,
    OffsetIndex,
    OffsetIndexEntry,
    TimeIndex,
    TimeIndexEntry,
    TransactionIndex,
    build_transaction_index,
)
from kseg.sidefiles.kinds import SideFile, read_items
from kseg.sidefiles.problems import SideFileProblem, entries_of, problems_of
from kseg.sidefiles.producer_state import build_producer_snapshot
from kseg.sidefiles.text_files import build_partition_metadata
from sidefiles.index_bytes import offset_index_bytes, time_index_bytes
from sidefiles.real_files import DAMAGED, healthy, name_of

BUILDERS: dict[str, Callable[[list[Any], int], bytes]] = {
    ".index": offset_index_bytes,
    ".timeindex": time_index_bytes,
    ".txnindex": lambda entries, _base: build_transaction_index(entries),
    ".snapshot": lambda entries, _base: build_producer_snapshot(entries),
    "leader-epoch-checkpoint": lambda entries, _base: build_leader_epochs(entries),
    ".leader_epoch_checkpoint": lambda entries, _base: build_leader_epochs(entries),
    "partition.metadata": lambda entries, _base: build_partition_metadata(entries[0]),
    **dict.fromkeys(OFFSET_CHECKPOINTS, lambda entries, _base: build_offset_checkpoint(offsets_of(entries))),
}
EMPTY_CHECKPOINT = b"0\n0\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", healthy(*BUILDERS), ids=name_of)
def test_a_real_file_comes_out_as_it_went_in(file: SideFile) -> None:
    data = Path(file.path).read_bytes()
    items = list(read_items(file.kind, data, file.base_offset))
    assert problems_of(items) == []
    built = BUILDERS[file.kind](entries_of(items), file.base_offset)
    assert built == data or (not data and built == EMPTY_CHECKPOINT)


@pytest.mark.parametrize("file", [file for file in healthy(".snapshot") if "kafka-4.3.1" in file.path], ids=name_of)
def test_producers_are_ordered_as_the_broker_orders_them(file: SideFile) -> None:
    data = Path(file.path).read_bytes()
    entries = sorted(entries_of(read_items(".snapshot", data)))
    # Brokers assign producer ids in sequence, so that order of first appearance is nearly always order of ids.
    assert build_producer_snapshot(entries, hash_map_order) == data


@pytest.mark.parametrize("file", healthy("meta.properties", ".kafka_cleanshutdown", "quorum-state"), ids=name_of)
def test_a_real_property_file_has_one_entry_and_no_problem(file: SideFile) -> None:
    items = list(read_items(file.kind, Path(file.path).read_bytes()))
    assert problems_of(items) == []
    assert len(items) == 1


def test_preallocated_bytes_are_reported_and_not_entries() -> None:
    folder = DAMAGED / "preallocated" / "dplain-0"
    data = (folder / "00000000000000000116.index").read_bytes()
    index = OffsetIndex(data, 116)
    assert 0 < len(index) < index.capacity == 1024
    used = len(index) * 8
    assert offset_index_bytes(index, 116) == data[:used]
    assert problems_of(index.items()) == [
        SideFileProblem("zero-tail", used, 8192 - used, f"{1024 - len(index)} entries not in use")
    ]
    data = (folder / "00000000000000000116.timeindex").read_bytes()
    times = TimeIndex(data, 116)
    assert time_index_bytes(times, 116) == data[: len(times) * 12]
    assert [problem.code for problem in problems_of(times.items())] == ["zero-tail"]
    assert index.sanity_problem() is None
    assert "the last timestamp 0 is below the first" in str(times.sanity_problem())


@pytest.mark.parametrize(
    ("kind", "entries", "codes"),
    [
        (OffsetIndex, [(0, 0), (0, 70), (1, 70), (2, 71), (3, -1), (-1, 90)],
         ["unsorted", "unsorted", "bad-value", "offset-below-base"]),
        (TimeIndex, [(10, 1), (10, 2), (11, 1), (12, 1), (13, -1)], ["unsorted", "unsorted", "offset-below-base"]),
        (TransactionIndex,
         [(0, 1, 5, 5, 5), (0, 1, 5, 4, 4), (1, 1, 5, 6, 5), (0, 1, 8, 7, 7), (0, -1, 7, 8, 8), (0, 1, -1, 9, 9),
          (0, 1, 7, 9, 9), (0, 1, 0, 10, 10)],
         ["offset-below-base", "unknown-version", "bad-value", "bad-value", "bad-value", "unsorted"]),
    ],
)  # fmt: skip
def test_each_problem_of_an_entry(kind: type[EntryFile[Any]], entries: list[tuple[int, ...]], codes: list[str]) -> None:
    index = kind(b"".join(kind.LAYOUT.pack(*entry) for entry in entries), 5)
    assert [problem.code for problem in problems_of(index.items())] == codes


def test_entries_whose_last_bytes_are_zero_are_in_use() -> None:
    entries = [OffsetIndexEntry(12, 1 << 8), OffsetIndexEntry(40, 1 << 24)]
    data = offset_index_bytes(entries, 10)
    assert list(OffsetIndex(data + bytes(80), 10)) == entries
    assert list(OffsetIndex(data, 10)) == entries


def test_the_only_entry_of_a_time_index_may_be_zero() -> None:
    entry = TimeIndexEntry(0, 7)
    assert list(TimeIndex(time_index_bytes([entry], 7), 7)) == [entry]
    assert list(TimeIndex(bytes(24), 7)) == []


def test_lookups_find_the_last_entry_that_is_not_above() -> None:
    file = next(file for file in healthy(".index") if Path(file.path).stat().st_size >= 24)
    index = OffsetIndex(Path(file.path).read_bytes(), file.base_offset)
    entries = list(index)
    assert index.lookup(entries[0].offset - 1) == (file.base_offset, 0)
    for entry, following in pairwise(entries):
        assert index.lookup(entry.offset) == index.lookup(following.offset - 1) == entry
    assert index.lookup(1 << 60) == entries[-1]


def test_copies_of_remote_indexes_have_the_base_offset_of_their_name() -> None:
    copies = {name: file for file in healthy(".index") if (name := Path(file.path).name).startswith("220_")}
    assert [(file.base_offset, file.is_remote_copy) for file in copies.values()] == [(220, True)]
