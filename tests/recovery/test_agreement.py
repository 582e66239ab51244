"""The comparison of two replicas, against sets of offsets."""

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.rows import Scratch
from kseg.recovery import replica
from kseg.recovery.replica import Agreement, MissingBatches, ReplicasDivergeError
from kseg.recovery.salvage.segment_draft import SalvagedBatches
from recovery.damages import first_offset, last_offset
from recovery.partitions import keyed_batch

LENGTH = 16
Span = tuple[int, int]
"""First and last offset of a batch."""


@st.composite
def sides(draw: st.DrawFn) -> list[Span]:
    """Batches of a log of which some are missing."""
    cuts = sorted({0, LENGTH, *draw(st.lists(st.integers(1, LENGTH - 1), max_size=8))})
    spans = [(first, stop - 1) for first, stop in pairwise(cuts)]
    return [span for span in spans if draw(st.integers(0, 3))]


def batch_of(span: Span, epoch: int = 0) -> bytes:
    """Each offset has its own key."""
    batch = keyed_batch(span[0], bytes(range(span[0], span[1] + 1)))
    return batch[:12] + epoch.to_bytes(4, "big", signed=True) + batch[16:]


def parts_in(path: Path, batches: list[bytes]) -> Iterator[SalvagedBatches]:
    """Writes a file of batches; contiguous ones are one part."""
    found, at = list[SalvagedBatches](), 0
    for batch in batches:
        first, last = first_offset(batch), last_offset(batch)
        if found and found[-1].last + 1 == first:
            found[-1] = found[-1]._replace(end=at + len(batch), last=last)
        else:
            found.append(SalvagedBatches(at, at + len(batch), first, last, path=str(path)))
        at += len(batch)
    path.write_bytes(b"".join(batches))
    return iter(found)


def compared(here: list[bytes], there: list[bytes]) -> tuple[Agreement, list[MissingBatches]]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "a.log", Path(folder) / "b.log"]
        found = Agreement(parts_in(paths[0], here), parts_in(paths[1], there), Scratch())
        return found, list(found.holes())


def offsets(spans: list[Span]) -> set[int]:
    return {offset for first, last in spans for offset in range(first, last + 1)}


def joined(parts: list[SalvagedBatches]) -> set[int]:
    return offsets([(part.first, part.last) for part in parts])


@pytest.mark.parametrize("chunk", [1, 1 << 14])
@given(here=sides(), there=sides())
def test_holes_are_what_only_the_other_replica_has(chunk: int, here: list[Span], there: list[Span]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica, "_FIRST_BYTES", chunk)
        patch.setattr(replica, "_LAST_BYTES", 4 * chunk)
        found, holes = compared(list(map(batch_of, here)), list(map(batch_of, there)))
    mine, other = offsets(here), offsets(there)
    offered = [offer.part for hole in holes for offer in hole.offers]
    assert joined(offered) == offsets([span for span in there if not offsets([span]) & mine])
    unmatched = joined([one.part for one in found.unmatched])
    assert unmatched >= offsets([span for span in here if not offsets([span]) & other])
    assert unmatched <= offsets([span for span in here if offsets([span]) - other])
    assert all(part.last < behind.first for part, behind in pairwise(offered))
    assert (found.heads, found.epochs) == ({}, {})
    for hole in holes:
        assert {(offer.first_epoch, offer.last_epoch) for offer in hole.offers} == {(0, 0)}
        first, last = hole.offers[0].part.first, hole.offers[-1].part.last
        before = [span for span in here if span[1] < first]
        behind = [span for span in here if span[0] > last]
        for border, span in ((hole.before, before[-1:]), (hole.behind, behind[:1])):
            assert [(border.part.first, border.part.last)] * bool(border) == span if border else not span
            if border:
                assert border.epoch == 0
                assert not border.is_common or offsets(span) & other
                assert border.is_common or not offsets(span) <= other


@given(here=sides(), there=sides(), offset=st.integers(0, LENGTH - 1))
def test_the_first_other_record_is_found(here: list[Span], there: list[Span], offset: int) -> None:
    def changed(span: Span) -> bytes:
        keys = [200 if each == offset else each for each in range(span[0], span[1] + 1)]
        return keyed_batch(span[0], bytes(keys))

    batches = list(map(batch_of, here)), list(map(changed, there))
    if offset not in offsets(here) & offsets(there):
        compared(*batches)
        return
    with pytest.raises(
        ReplicasDivergeError, match=f"diverge at offset {offset}: another record; nothing was changed"
    ) as error:
        compared(*batches)
    assert error.value.here is not None
    (span,) = [span for span in here if span[0] <= offset <= span[1]]
    assert (error.value.here.part.first, error.value.here.part.last) == span


@pytest.mark.parametrize(("mine", "other", "is_common"), [(0, 0, True), (1, 2, False), (2, 1, False), (-1, 3, True)])
def test_leader_epochs_of_the_same_records(mine: int, other: int, is_common: bool) -> None:
    """-1 is that of brokers before leader epochs; the batches have other bounds on each side."""
    here = [batch_of((0, 3), mine), batch_of((4, 7), mine)]
    there = [batch_of((0, 5), other), batch_of((6, 7), other)]
    if is_common:
        found, holes = compared(here, there)
        assert (found.unmatched, holes) == ([], [])
        return
    with pytest.raises(ReplicasDivergeError, match=f"diverge at offset 0: leader epochs {mine} and {other}"):
        compared(here, there)


def test_leader_epochs_that_fall_are_those_of_no_sound_replica() -> None:
    whole = [batch_of((0, 3)), batch_of((4, 7), 5), batch_of((8, 11), 5)]
    (hole,) = compared(whole[:1], whole)[1]
    assert [(offer.first_epoch, offer.last_epoch) for offer in hole.offers] == [(5, 5)]
    (hole,) = compared([], whole)[1]
    assert [(offer.first_epoch, offer.last_epoch) for offer in hole.offers] == [(0, 5)]
    with pytest.raises(ReplicasDivergeError, match="leader epoch 4 follows 5: no sound replica"):
        compared([], [*whole, batch_of((12, 12), 4)])


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_the_listed_batches_of_one_replica_are_limited(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "_MAX_UNMATCHED", most)
    found, holes = compared([batch_of((first, first)) for first in (0, 4, 8)], [batch_of((2, 2)), batch_of((6, 6))])
    assert [one.part.first for one in found.unmatched] == [0, 4, 8][:most]
    assert [offer.part.first for hole in holes for offer in hole.offers] == [2, 6]


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ((1, 7, 3), {4: 2}),  # above the next one
        ((1, -5, 3), {4: 2}),
        ((3, 1, 3), {4: 2}),  # below the previous one
        ((1, 3, 3), None),  # as sound as that of the other replica
        ((1, 1, 3), None),
    ],
)
def test_an_impossible_epoch_is_that_of_the_other_replica(
    epochs: tuple[int, ...], expected: dict[int, int] | None
) -> None:
    """Elsewhere the epochs are the same."""
    spans = [(0, 3), (4, 7), (8, 11)]
    here = [batch_of(span, epoch) for span, epoch in zip(spans, epochs, strict=True)]
    there = [here[0], batch_of(spans[1], 2), here[2]]
    if expected is None:
        with pytest.raises(ReplicasDivergeError, match="diverge at offset 4: leader epochs"):
            compared(here, there)
    else:
        found, holes = compared(here, there)
        assert (found.epochs, holes) == (expected, [])


@pytest.mark.parametrize(
    ("spans", "is_joined"),
    [
        ([(4, 7)], False),
        ([(0, 3), (4, 7)], True),
        ([(0, 2), (4, 7)], False),
        ([(4, 7), (8, 9)], True),
        ([(4, 7), (9, 9)], False),
    ],
)
def test_whether_other_records_continue_a_neighbour(spans: list[Span], is_joined: bool) -> None:
    with pytest.raises(ReplicasDivergeError) as error:
        compared(list(map(batch_of, spans)), [keyed_batch(4, b"wxyz")])
    assert error.value.here is not None
    assert (error.value.here.part.first, error.value.here.is_joined) == (4, is_joined)
    found, _ = compared(list(map(batch_of, spans)), [batch_of((12, 13))])
    joins = [second[0] == first[1] + 1 for first, second in pairwise(spans)]
    assert [one.is_joined for one in found.unmatched[1:]] == joins[: len(found.unmatched) - 1]
