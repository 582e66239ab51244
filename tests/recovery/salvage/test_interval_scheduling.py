"""The choice among batches for the same offsets, against all choices there are."""

from collections.abc import Iterator
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from kseg.recovery.salvage.segment_assembly import OffsetInterval, cut_at_conflicts, schedule


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
