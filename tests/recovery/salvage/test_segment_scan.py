"""The scan of a file accounts for each of its bytes: batches in their places, misplaced ones, and ranges cut out."""

from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.rows import Scratch
from kseg.kernel.scan.checksums import crc32c
from kseg.recovery.salvage import segment_scan
from kseg.recovery.salvage.segment_assembly import OffsetInterval, cut_at_conflicts, schedule
from kseg.recovery.salvage.segment_draft import NO_OFFSET, SalvagedBatches, SegmentDraft
from kseg.recovery.salvage.segment_scan import OverlapResolution, OverlapResult
from kseg.segment.items import Damage as Range
from kseg.stores.source import open_source
from recovery.damages import Damage, broken, damaged_by, first_offset, last_offset, lists_of_damage, read, with_epoch
from recovery.partitions import TESTDATA, TRANSACTIONS, at_offset, keyed_batch, real_batches
from segment.segments import entries, sealed

# The choice among batches for the same offsets, against all choices there are.


@st.composite
def pieces(draw: st.DrawFn) -> list[OffsetInterval]:
    """Stretches of batches of one record an offset, at different positions."""
    found = []
    for number in range(draw(st.integers(0, 7))):
        first, count = draw(st.integers(0, 20)), draw(st.integers(1, 6))
        records, preference = draw(st.integers(0, count)), draw(st.integers(0, 3))
        found.append(OffsetInterval(first, first + count - 1, number, 0, 100, records, 1, preference))
    return found


def do_not_overlap(chosen: list[OffsetInterval]) -> bool:
    return all(one.last < two.first for one, two in pairwise(sorted(chosen)))


def worth(chosen: list[OffsetInterval]) -> tuple[int, int]:
    """Records, and what speaks for them; a batch without records is one all the same."""
    records = [max(piece.records, 1) for piece in chosen]
    return sum(records), sum(n * piece.preference for n, piece in zip(records, chosen, strict=True))


@given(pieces())
def test_no_other_choice_keeps_more(found: list[OffsetInterval]) -> None:
    chosen = schedule(found)
    assert do_not_overlap(chosen)
    all_choices = (list(some) for n in range(len(found) + 1) for some in combinations(found, n))
    assert worth(chosen) == max(worth(some) for some in all_choices if do_not_overlap(some))


@given(pieces())
def test_pieces_in_dispute_are_cut_at_batches(found: list[OffsetInterval]) -> None:
    """Batches of one offset each: then what is cut overlaps only what claims just the same."""

    def batches_of(piece: OffsetInterval) -> Iterator[OffsetInterval]:
        for offset in range(piece.first, piece.last + 1):
            yield piece._replace(first=offset, last=offset, records=1)

    whole = [piece._replace(records=piece.last - piece.first + 1) for piece in found]
    cut = cut_at_conflicts(whole, batches_of)
    assert all(one.last < two.first or one[:2] == two[:2] for one, two in pairwise(sorted(cut)))
    assert sum(piece.records for piece in cut) == sum(piece.records for piece in whole)
    reached = {offset for piece in schedule(cut) for offset in range(piece.first, piece.last + 1)}
    assert reached == {offset for piece in whole for offset in range(piece.first, piece.last + 1)}


# Which of two batches that claim the same offsets stays, if nothing but they themselves can tell.


def resolved(path: Path, claims: list[tuple[int, bytes]], last: int, chosen: list[int]) -> dict[int, OverlapResult]:
    """The verdict on batches, given by first offset and keys, that leave no offset free from 10 on."""
    data, draft = b"", SegmentDraft("", 10, last + 1)
    for first, keys in claims:
        batch = keyed_batch(first, keys)
        part = SalvagedBatches(len(data), len(data) + len(batch), first, first + len(keys) - 1)
        draft.parts.append(part, 1, len(keys))
        data += batch
    path.write_bytes(data)
    with open_source(str(path)) as source:
        others = {number: OverlapResult() for number in range(len(claims)) if number not in chosen}
        return OverlapResolution(source, draft, None, Scratch()).resolve(chosen, others)


@pytest.mark.parametrize("chosen", [0, 1])
def test_of_two_with_as_many_records_the_chosen_one_stays(chosen: int, tmp_path: Path) -> None:
    found = resolved(tmp_path / "10.log", [(10, b"ab"), (11, b"cd")], 12, [chosen])
    assert list(found) == [1 - chosen]
    assert "which is ambiguous" in found[1 - chosen].doubt


@pytest.mark.parametrize("chosen", [0, 1])
def test_the_one_with_more_records_stays(chosen: int, tmp_path: Path) -> None:
    found = resolved(tmp_path / "10.log", [(10, b"ab"), (10, b"cde")], 12, [chosen])
    assert list(found) == [0]
    assert "which is ambiguous" in found[0].doubt


def test_a_part_that_cannot_be_judged_does_not_stop_the_others(tmp_path: Path) -> None:
    """The first overlaps two batches, so that nothing is said about it; the second overlaps one."""
    claims = [(10, b"a"), (11, b"b"), (10, b"cd"), (12, b"e"), (12, b"fg")]
    found = resolved(tmp_path / "10.log", claims, 14, [0, 1, 3])
    assert set(found) == {2, 4}
    assert found[2] == OverlapResult()
    assert found[4].expected == 13


SEGMENTS = {
    "plain": (TESTDATA / "log-directories/4.3.1/logs/dplain-0", 46),
    "transactions": (TRANSACTIONS, 0),
    "compacted": (TESTDATA / "kafka-4.3.1/compacted/e-idem-0", 0),
}
DAMAGES = lists_of_damage(min_size=0, max_size=3)


def scanned(path: Path, base: int | None, next_base: int | None = None) -> SegmentDraft:
    with open_source(str(path)) as source:
        return segment_scan.scan_segment(source, base, next_base, Scratch())


def count_of(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big", signed=True)


def assert_intact(data: bytes, part: SalvagedBatches) -> list[bytes]:
    """The batches of a part are intact, with contiguous offsets from its first to its last one."""
    found = entries(part.head + data[part.start + len(part.head) : part.end])
    assert all(crc32c(batch[21:]) == int.from_bytes(batch[17:21], "big") for batch in found)
    assert (first_offset(found[0]), last_offset(found[-1])) == (part.first, part.last)
    assert all(last_offset(one) + 1 == first_offset(two) for one, two in pairwise(found))
    return found


def ranges_of(draft: SegmentDraft) -> Iterator[tuple[int, int]]:
    yield from ((part.start, part.end) for part in draft.parts)
    yield from ((cut.position, cut.position + cut.length) for cut in draft.cuts)
    yield from ((run.part.start, run.part.end) for run in draft.misplaced)


@pytest.mark.parametrize("name", SEGMENTS)
@given(damages=DAMAGES)
def test_each_byte_is_accounted_for(name: str, damages: list[Damage], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, base = SEGMENTS[name]
    segments = read(folder)
    damaged, next_base = damaged_by(segments, damages), min((one for one in segments if one > base), default=None)
    path = tmp_path_factory.mktemp("scan") / f"{base:020d}.log"
    data = b"".join(damaged[base])
    path.write_bytes(data)
    draft = scanned(path, base, next_base)
    assert (draft.base, draft.is_last) == (base, next_base is None)
    assert draft.limit == (base + (1 << 31) - 1 if next_base is None else next_base - 1)
    ranges = sorted(ranges_of(draft))
    assert [0, *(end for _, end in ranges)] == [*(start for start, _ in ranges), len(data)]
    kept = []
    for i, part in enumerate(draft.parts):
        found = assert_intact(data, part)
        assert base <= part.first <= part.last <= draft.limit
        if not part.head:
            assert draft.parts.records[i] == sum(map(count_of, found))
        kept += found
    assert draft.parts.is_rising
    for run in draft.misplaced:
        found = assert_intact(data, run.part)
        assert run.part.path == str(path)
        if not run.part.head:
            assert (run.batches, run.records) == (len(found), sum(map(count_of, found)))
    assert draft.parts.repaired == sum(bool(part.head) for part in draft.parts)
    if not damages:
        assert not draft.is_changed
        assert kept == read(folder)[base]
    epochs = [int.from_bytes(batch[12:16], "big", signed=True) for batch in kept]
    # Those of a changed segment are all compared anyway.
    assert draft.epochs_fall or draft.is_changed or (epochs == sorted(epochs) and min(epochs, default=0) >= -1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{1000:020d}.log"


def test_a_file_without_a_base_has_misplaced_batches_only(path: Path) -> None:
    path.write_bytes(b"".join(real_batches(0)))
    draft = scanned(path, None)
    (run,) = draft.misplaced
    assert (draft.base, draft.limit, draft.is_last) == (NO_OFFSET, NO_OFFSET, False)
    last = last_offset(real_batches(0)[-1])
    assert run.part == SalvagedBatches(0, path.stat().st_size, 0, last, path=str(path))
    assert (run.batches, run.records, run.expected, run.doubt) == (len(real_batches(0)), last + 1, -1, "")


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_the_misplaced_runs_of_a_file_are_limited(most: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "MAX_MISPLACED", most)
    found = [keyed_batch(10 * i, b"ab") for i in range(3)]
    path.write_bytes(b"".join(found))
    draft, size = scanned(path, 1000), len(found[0])
    parts = [SalvagedBatches(i * size, (i + 1) * size, 10 * i, 10 * i + 1, path=str(path)) for i in range(3)]
    assert [(run.part, run.batches, run.records) for run in draft.misplaced] == [(part, 1, 2) for part in parts[:most]]
    texts = [f"offsets {10 * i} to {10 * i + 1} do not belong here" for i in range(3)]
    cuts = [Range("batch-out-of-order", i * size, size, texts[i]) for i in range(3)]
    assert draft.cuts == cuts[most:]


@pytest.mark.parametrize(("next_base", "fitting"), [(1003, 1), (1004, 2), (1005, 2), (1006, 3), (None, 3)])
def test_batches_above_the_limit_are_misplaced(next_base: int | None, fitting: int, path: Path) -> None:
    found = [keyed_batch(1000 + 2 * i, b"ab") for i in range(3)]
    path.write_bytes(b"".join(found))
    draft, size = scanned(path, 1000, next_base), len(found[0])
    assert list(draft.parts) == [SalvagedBatches(0, fitting * size, 1000, 999 + 2 * fitting)]
    rest = SalvagedBatches(fitting * size, 3 * size, 1000 + 2 * fitting, 1005, path=str(path))
    expected = [(rest, 3 - fitting, 6 - 2 * fitting)] * (fitting < 3)
    assert [(run.part, run.batches, run.records) for run in draft.misplaced] == expected


@pytest.mark.parametrize(("first", "is_kept"), [(999, False), (1000, True)])
@pytest.mark.parametrize(("delta", "is_below"), [(0, True), (1, False)])
def test_the_offsets_of_a_segment(first: int, is_kept: bool, delta: int, is_below: bool, path: Path) -> None:
    largest = 1000 + (1 << 31) - 1 + delta
    path.write_bytes(keyed_batch(first, b"a") + keyed_batch(largest, b"b"))
    draft = scanned(path, 1000)
    assert [part.first for part in draft.parts] == [first] * is_kept + [largest] * is_below
    assert [run.part.first for run in draft.misplaced] == [first] * (not is_kept) + [largest] * (not is_below)


@pytest.mark.parametrize("gaps", [0, 7, 8, 9])
def test_a_log_with_many_gaps_that_damage_does_not_explain_was_compacted(gaps: int, path: Path) -> None:
    found = [keyed_batch(1000 + 3 * i, b"ab") for i in range(gaps + 1)]
    path.write_bytes(b"".join(found))
    assert scanned(path, 1000).is_sparse is (gaps > 8)
    with_zeros = b"".join(batch + bytes(100) for batch in found)
    path.write_bytes(with_zeros)
    assert not scanned(path, 1000).is_sparse


@pytest.mark.parametrize(
    ("epochs", "falls"),
    [
        ((0, 0, 0), False), ((-1, -1, -1), False), ((0, 0, 1), False), ((1, 0, 0), True), ((0, 1, 0), True),
        ((-2, -2, -2), True),
    ],
)  # fmt: skip
def test_leader_epochs_that_fall(epochs: tuple[int, ...], falls: bool, path: Path) -> None:
    found = [with_epoch(keyed_batch(1000 + i, b"a"), epoch) for i, epoch in enumerate(epochs)]
    path.write_bytes(b"".join(found))
    assert scanned(path, 1000).epochs_fall is falls


@pytest.fixture(params=(1024, 1, 2, 3))
def followed_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of batches that the scan follows at once."""
    monkeypatch.setattr(segment_scan, "_FEWEST_ROWS", request.param)


def wide(batch: bytes, last_delta: int) -> bytes:
    """A batch with more offsets than records."""
    return sealed(batch, 23, last_delta.to_bytes(4, "big"))


@pytest.mark.usefixtures("followed_at_once")
@pytest.mark.parametrize(("last_delta", "is_doubted"), [(1, False), (2, True), (5, True)])
def test_a_batch_of_more_offsets_than_records_before_the_next(last_delta: int, is_doubted: bool, path: Path) -> None:
    found = [keyed_batch(1000, b"ab"), wide(keyed_batch(1002, b"ab"), last_delta), keyed_batch(1004, b"ab")]
    path.write_bytes(b"".join(found))
    draft, size = scanned(path, 1000), len(found[0])
    expected = [SalvagedBatches(size, 2 * size, 1002, 1002 + last_delta, path=str(path))] * is_doubted
    assert [run.part for run in draft.misplaced] == expected
    assert all(run.doubt for run in draft.misplaced)
    offsets = [(part.first, part.last) for part in draft.parts]
    assert offsets == ([(1000, 1001), (1004, 1005)] if is_doubted else [(1000, 1005)])
    assert list(draft.parts.records) == ([2, 2] if is_doubted else [6])


@pytest.mark.usefixtures("followed_at_once")
@pytest.mark.parametrize(("place", "expected"), [(1, 1002), (2, 1004), (3, 1006)])
def test_a_batch_with_another_offset_is_expected_between_its_neighbours(place: int, expected: int, path: Path) -> None:
    found = [keyed_batch(1000 + 2 * i, b"ab") for i in range(5)]
    found[place] = at_offset(found[place], 5)
    path.write_bytes(b"".join(found))
    draft, size = scanned(path, 1000), len(found[0])
    (run,) = draft.misplaced
    assert run.part == SalvagedBatches(place * size, (place + 1) * size, 5, 6, path=str(path))
    assert (run.batches, run.records, run.expected) == (1, 2, expected)


@pytest.mark.usefixtures("followed_at_once")
@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize(("offset", "is_next_broken"), [(1005, False), (1012, True)], ids=["disputed", "explained"])
def test_a_gap_proves_nothing_if_the_log_was_compacted(
    offset: int, is_next_broken: bool, is_compacted: bool, path: Path
) -> None:
    """Only a batch far behind it shows whether it was."""
    found = [keyed_batch(1000 + 2 * i, b"ab") for i in range(12)]
    found[3], found[4] = at_offset(found[3], offset), broken(found[4]) if is_next_broken else found[4]
    path.write_bytes(b"".join(found) + wide(keyed_batch(1024, b"ab"), 5 if is_compacted else 1))
    (run,) = scanned(path, 1000).misplaced
    assert (run.part.first, run.batches, run.records) == (offset, 1, 2)
    assert run.expected == (-1 if is_compacted else 1006)
