"""Misplaced runs that compete for a gap: the order in which they are placed, and runs that fit nowhere."""

import struct
from pathlib import Path

import pytest

from kernel.rendering import message
from kseg.recovery.salvage import relocation, segment_draft
from kseg.recovery.salvage.relocation import Relocation
from kseg.recovery.salvage.segment_draft import MisplacedRun, SalvagedBatches, SegmentDraft
from kseg.stores.source import open_source
from recovery.partitions import keyed_batch
from segment.segments import sealed

FAR = 1 << 20


class Draft:
    """Writes a segment batch by batch; ``draft`` is what a scan would have made of it."""

    def __init__(self, path: Path, base: int, limit: int = FAR, is_named: bool = True) -> None:
        self.path = path
        path.touch()
        self.draft = SegmentDraft(str(path), base, None)
        self.draft.name, self.draft.limit = path.name if is_named else "", limit

    def keep(self, first: int, last: int) -> None:
        """A batch in its place."""
        self.draft.parts.append(self._write([(first, bytes(range(last - first + 1)))])._replace(path=""), 1, 1)

    def run(self, *batches: tuple[int, bytes], expected: int = -1) -> SalvagedBatches:
        """Adjacent batches, each given by its first offset and its keys, one record each."""
        part = self._write(list(batches))
        self.draft.misplaced.append(MisplacedRun(self.draft, part, len(batches), expected))
        return part

    def _write(self, batches: list[tuple[int, bytes]]) -> SalvagedBatches:
        start = self.path.stat().st_size
        with self.path.open("ab") as file:
            for first, keys in batches:
                file.write(keyed_batch(first, keys))
        last = batches[-1][0] + len(batches[-1][1]) - 1
        return SalvagedBatches(start, self.path.stat().st_size, batches[0][0], last, path=str(self.path))

    @property
    def put(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and position of what was put into the segment."""
        return [(part.first, part.last, part.start) for part in self.draft.extra]

    @property
    def cuts(self) -> list[int]:
        return [cut.position for cut in self.draft.cuts]


def placed(*drafts: Draft, others: tuple[Draft, ...] = ()) -> None:
    Relocation([each.draft for each in drafts], [each.draft for each in others]).run()


Batches = list[tuple[int, bytes]]


@pytest.mark.parametrize(
    ("other", "kept", "expected", "place"),
    [
        pytest.param([(13, b"x"), (14, b"y")], [(12, b"a"), (13, b"b"), (14, b"c")], -1, (12, 14), id="longer run"),
        pytest.param([(15, b"x")], [(10, b"abcdefghij")], -1, (10, 19), id="more offsets"),
        pytest.param([(7000, b"x")], [(5000, b"a")], 10, (10, 10), id="expected by its neighbours"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_for_one_gap_one_is_kept_whole(
    other: Batches, kept: Batches, expected: int, place: tuple[int, int], is_first: bool, tmp_path: Path
) -> None:
    segment = Draft(tmp_path / "0.log", 0)
    if is_first:
        lost = segment.run(*other)
    segment.keep(0, 9)
    if not is_first:
        lost = segment.run(*other)
    segment.keep(20, 29)
    found = segment.run(*kept, expected=expected)
    placed(segment)
    assert segment.put == [(*place, found.start)]
    assert segment.cuts == [lost.start]


def test_without_another_candidate_a_batch_gets_the_gap_behind_its_neighbour(tmp_path: Path) -> None:
    segment = Draft(tmp_path / "0.log", 0)
    segment.keep(0, 9)
    fitting = segment.run((7000, b"x"))
    segment.keep(20, 29)
    placed(segment)
    assert segment.put == [(10, 10, fitting.start)]
    assert segment.cuts == []


def test_of_two_batches_for_one_offset_that_of_a_segment_comes_before_that_of_a_copy(tmp_path: Path) -> None:
    segment, copy = Draft(tmp_path / "0.log", 0), Draft(tmp_path / "0.log.bak", 0, is_named=False)
    segment.keep(0, 9)
    segment.keep(11, 19)
    own, copied = segment.run((10, b"x")), copy.run((10, b"y"))
    placed(segment, others=(copy,))
    assert segment.put == [(10, 10, own.start)]
    assert segment.draft.extra[0].path == ""
    assert (segment.cuts, copy.cuts) == ([], [copied.start])


def test_of_two_batches_for_one_offset_that_of_the_earlier_segment_is_kept(tmp_path: Path) -> None:
    first, second, third = (Draft(tmp_path / f"{base}.log", base, base + 99) for base in (0, 100, 200))
    first.keep(0, 9)
    first.keep(11, 19)
    second.keep(100, 109)
    third.keep(200, 209)
    earlier, later = second.run((10, b"x")), third.run((10, b"y"))
    placed(first, second, third)
    assert first.put == [(10, 10, earlier.start)]
    assert first.draft.extra[0].path == str(second.path)
    assert (second.put, third.put) == ([], [(210, 210, later.start)])


@pytest.mark.parametrize("is_full", [False, True])
def test_no_segment_grows_beyond_its_index(is_full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment, copy = Draft(tmp_path / "0.log", 0), Draft(tmp_path / "0.log.bak", 0, is_named=False)
    segment.keep(0, 9)
    segment.keep(11, 19)
    run = copy.run((10, b"x"))
    monkeypatch.setattr(segment_draft, "LARGEST_POSITION", segment.draft.size + run.size - is_full)
    placed(segment, others=(copy,))
    assert segment.put == ([] if is_full else [(10, 10, run.start)])
    assert copy.cuts == ([run.start] if is_full else [])


@pytest.mark.parametrize(("keys", "put"), [(b"abcde", [(10, 14)]), (b"abc", []), (b"abcdef", [])])
def test_a_batch_fills_a_gap_of_exactly_its_size(keys: bytes, put: list[tuple[int, int]], tmp_path: Path) -> None:
    """It is alone in its file, and the offsets that it claims are partly taken. Without such a gap it stays there."""
    segment, alone = Draft(tmp_path / "0.log", 0, 99), Draft(tmp_path / "100.log", 100)
    segment.keep(0, 9)
    segment.keep(15, 29)
    run = alone.run((8, keys))
    placed(segment, alone)
    assert [(first, last) for first, last, _ in segment.put] == put
    assert alone.put == ([] if put else [(100, 99 + len(keys), run.start)])


@pytest.mark.parametrize(("most", "runs_split"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_misplaced_ones_are_few(most: int, runs_split: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of two batches: the offsets of the first batch are taken, those of the second are free."""
    monkeypatch.setattr(relocation, "MAX_SINGLES", most)
    segment, copy = Draft(tmp_path / "0.log", 0), Draft(tmp_path / "0.log.bak", 0, is_named=False)
    for first, last in [(0, 3), (6, 9), (12, 19)]:
        segment.keep(first, last)
    runs = [copy.run((first, b"xy"), (first + 2, b"zz")) for first in (2, 8)]
    placed(segment, others=(copy,))
    half = runs[0].size // 2
    free = [(4, 5, runs[0].start + half), (10, 11, runs[1].start + half)]
    assert segment.put == free[:runs_split]
    cuts = {cut.position: (cut.length, cut.message) for cut in copy.draft.cuts}
    expected = {}
    for i, run in enumerate(runs):
        if i < runs_split:
            expected[run.start] = (
                half,
                f"offsets {run.first} to {run.first + 1} are taken, or too far from all others",
            )
        else:
            expected[run.start] = (2 * half, f"offsets {run.first} to {run.last} are too many in the wrong place")
    assert cuts == expected


def v2(timestamp: int) -> bytes:
    return sealed(keyed_batch(0, b"x"), 27, struct.pack(">qq", timestamp, timestamp))


def v1(timestamp: int) -> bytes:
    return message(0, 1, None, b"", timestamp)


@pytest.mark.parametrize(
    ("one", "other", "is_older"),
    [
        (v1(5), v2(-1), True), (v2(-1), v1(5), False), (v2(1), v2(2), True), (v2(2), v2(2), False),
        (v2(1), v1(2), True), (v1(2), v2(1), False), (v2(-1), v2(1), False),
    ],
)  # fmt: skip
def test_the_format_decides_only_without_timestamps(one: bytes, other: bytes, is_older: bool, tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(one + other)
    parts = SalvagedBatches(0, len(one), 0, 0), SalvagedBatches(len(one), len(one) + len(other), 0, 0)
    with open_source(str(path)) as source:
        assert Relocation([], [])._is_older(source, *parts) is is_older
