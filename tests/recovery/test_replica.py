"""Holes of real partitions filled from copies of them, which stand for other replicas."""

import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import fewer
from kseg.changes.apply import Keeping, apply
from kseg.changes.plan import ReplicaOffsets
from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch
from kseg.recovery import replica
from kseg.recovery.replica import Agreement, MissingBatches, ReplicasDivergeError, plan_from_replica, replica_of
from kseg.recovery.result import Salvage
from kseg.recovery.salvage.segment_draft import SalvagedBatches
from kseg.stores import windows
from recovery.damages import (
    KINDS,
    Damage,
    Segments,
    covered,
    damaged_by,
    first_offset,
    last_offset,
    lists_of_damage,
    read,
    with_epoch,
    with_examples,
    write,
)
from recovery.partitions import (
    PLAIN,
    START,
    TESTDATA,
    TRANSACTIONS,
    at_offset,
    contents,
    copy_of,
    keyed_batch,
    make,
    real_batches,
    salvage,
    up_to,
)
from recovery.salvage.test_salvage import copied, errors_of

COMPACTED = TESTDATA / "kafka-4.3.1/compacted/e-idem-0"
PARTITIONS = {
    "plain": PLAIN,
    "transactions": TRANSACTIONS,
    "formats mixed": TESTDATA / "kafka-1.1.1/format-switch/sw-lz4-0",
    "v0 to v2": TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0",
    "compacted": COMPACTED,
}
_LOSING = set(KINDS) - {"header"}  # a header that is mended wrongly is a difference


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copy_of(PLAIN, tmp_path)


def fill(directory: Path, replica: Path, is_compacted: bool = False) -> Salvage:
    before = contents(replica)
    found = plan_from_replica(str(directory), str(replica), START, is_compacted)
    apply(found.plan, "recover --from-replica", Keeping())
    assert contents(replica) == before
    return found


def offsets_taken(found: Salvage) -> list[tuple[int, int, str]]:
    assert not any(taken.why for taken in found.plan.from_replica)
    return [(taken.first_offset, taken.last_offset, Path(taken.file).name) for taken in found.plan.from_replica]


def log(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}.log"


def change(directory: Path, base: int, *chunks: bytes) -> Segments:
    """Gives a segment other content; all that there was."""
    before = read(directory)
    write(directory, {base: list(chunks)})
    return before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PARTITIONS)
@fewer(10)
@with_examples("replica-damages")
@given(damages=lists_of_damage(_LOSING, max_size=3))
def test_all_that_was_lost_comes_back(name: str, damages: list[Damage]) -> None:
    with copied(PARTITIONS[name]) as directory:
        before = read(directory)
        damaged = damaged_by(before, damages)
        write(directory, damaged)
        known = {found.code for found in errors_of(PARTITIONS[name])}
        try:
            found = fill(directory, PARTITIONS[name])
        except ReplicasDivergeError:
            assert has_other_epoch(before, damaged)  # which no checksum covers
            return
        assert [error for error in errors_of(directory) if error.code not in known] == []
        assert not plan_from_replica(str(directory), str(PARTITIONS[name]), START).plan
        if not any(taken.why for taken in found.plan.from_replica):
            whole = [batch for chunks in before.values() for batch in chunks]
            found_now = [batch for chunks in read(directory).values() for batch in chunks]
            assert found_now == whole


def has_other_epoch(before: Segments, damaged: Segments) -> bool:
    """Whether a batch of v2 is the same but for its leader epoch."""
    epochs = {covered(batch): batch[12:16] for chunks in before.values() for batch in chunks if batch[16] == 2}
    found = [chunk for chunks in damaged.values() for chunk in chunks if len(chunk) > 61]
    return any(chunk[12:16] != epochs.get(chunk[17:], chunk[12:16]) for chunk in found)


def test_a_tail_and_later_segments_come_back_in_their_segments(partition: Path) -> None:
    for path in [*partition.glob("*00116.*"), *partition.glob("*00150.*")]:
        path.unlink()
    fill(partition, PLAIN)
    assert read(partition) == read(PLAIN)
    assert {name for name in contents(PLAIN) if "snapshot" not in name} <= contents(partition).keys()


@pytest.mark.parametrize("more_bytes", [0, 1])
def test_a_tail_out_of_reach_is_a_segment(more_bytes: int, partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the size of the first three batches of the last segment, or one byte less."""
    good = read(partition)
    last = max(good)
    change(partition, last, *good[last][:1])
    limit = len(b"".join(good[last][:3])) - 1 + more_bytes
    monkeypatch.setattr("kseg.recovery.replica.LARGEST_POSITION", limit)
    found = fill(partition, PLAIN)
    now, kept = read(partition), 2 + more_bytes
    assert now[last] == good[last][:kept]
    assert [batch for base in sorted(now) if base >= last for batch in now[base]] == good[last]
    assert min(base for base in now if base > last) == last_offset(good[last][kept - 1]) + 1
    taken = (last_offset(good[last][0]) + 1, last_offset(good[last][-1]))
    assert [(first, end) for first, end, _ in offsets_taken(found)] == [taken]


def test_what_an_earlier_salvage_could_not_keep(partition: Path) -> None:
    path = log(partition, 76)
    path.write_bytes(bytes(path.stat().st_size))
    salvage(partition)
    assert 76 not in read(partition)
    fill(partition, PLAIN)
    assert read(partition) == read(PLAIN)


def test_producers_are_learned_again(tmp_path: Path) -> None:
    partition = copy_of(TRANSACTIONS, tmp_path)
    base = sorted(read(partition))[1]
    path = log(partition, base)
    path.write_bytes(bytes(path.stat().st_size))
    salvage(partition)
    fill(partition, TRANSACTIONS)
    now, then = contents(partition), contents(TRANSACTIONS)
    assert {name for name in now if name.endswith("index")} >= {name for name in then if name.endswith("index")}
    assert all(now[name] == then[name] for name in then if name.endswith(".txnindex"))


def test_a_cleaned_log_is_not_filled_where_no_bytes_are_missing(tmp_path: Path) -> None:
    """The replica has a record that the cleaner has taken here: it may be of a key that was deleted since."""
    partition, replica = copy_of(COMPACTED, tmp_path / "a"), copy_of(COMPACTED, tmp_path / "b")
    good = read(partition)
    change(partition, 0, *good[0][:2], *good[0][3:])
    found = fill(partition, replica)
    assert [taken.why for taken in found.plan.from_replica] == ["the log is compacted, and no bytes are missing there"]
    assert read(partition)[0] == [*good[0][:2], *good[0][3:]]


def test_other_records_at_an_offset_are_refused(partition: Path, tmp_path: Path) -> None:
    replica = copy_of(PLAIN, tmp_path / "other")
    good = read(replica)
    change(replica, 116, *[with_epoch(batch, 7) for batch in good[116]])
    log(partition, 76).write_bytes(b"")
    before = contents(partition)
    with pytest.raises(ReplicasDivergeError, match="diverge at offset 116: leader epochs 0 and 7"):
        plan_from_replica(str(partition), str(replica), START)
    assert contents(partition) == before


def test_an_epoch_that_began_elsewhere_is_not_appended(partition: Path, tmp_path: Path) -> None:
    """What a replica had written before it was told of a new leader was never committed."""
    good = read(partition)
    change(partition, 116, *good[116][:1])
    first = int.from_bytes(good[116][1][:8], "big")
    (partition / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n3 {first}\n")
    found = plan_from_replica(str(partition), str(PLAIN), START)
    why = f"leader epoch 0, but by leader-epoch-checkpoint epoch 3 began at {first}"
    assert [taken.why for taken in found.plan.from_replica] == [why]


def test_what_no_replica_is(partition: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty" / partition.name
    empty.mkdir(parents=True)
    other = Path(shutil.copytree(PLAIN, tmp_path / "other-0"))
    same_name = Path(shutil.copytree(PLAIN, tmp_path / "b" / partition.name))
    (same_name / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for place, error in [(partition, KsegError), (empty, PathError), (other, KsegError), (same_name, KsegError)]:
        with pytest.raises(error):
            plan_from_replica(str(partition), str(place), START)


def test_a_batch_at_a_wrong_offset_in_the_replica_is_not_taken(partition: Path, tmp_path: Path) -> None:
    replica = copy_of(PLAIN, tmp_path / "other")
    good = read(replica)
    last = max(good)
    change(replica, last, *good[last][:-1], at_offset(good[last][-1], 1 << 20))
    found = plan_from_replica(str(partition), str(replica), START)
    first = int.from_bytes(good[last][-1][:8], "big")
    why = f"the same batch is here at offset {first}, where offsets go on"
    assert [(taken.first_offset, taken.why) for taken in found.plan.from_replica] == [(1 << 20, why)]
    assert read(partition) == good


def test_the_same_batch_twice_is_not_taken_for_one_at_a_wrong_offset(tmp_path: Path) -> None:
    """What a producer without idempotence sends again: each replica has lost another one of the two."""
    batches = real_batches(0)
    first, behind = last_offset(batches[3]) + 1, 2 * last_offset(batches[3]) - last_offset(batches[2]) + 1
    again = [*batches[:4], at_offset(batches[3], first), at_offset(batches[5], behind)]
    here = make(tmp_path / "a-0", {0: [*again[:4], bytes(len(again[4])), again[5]]})
    there = make(tmp_path / "b" / "a-0", {0: [*again[:3], bytes(len(again[3])), *again[4:]]})
    fill(here, there)
    assert read(here) == {0: again}


@pytest.mark.parametrize("zeroed", [8, 16])
def test_a_mended_header_is_that_of_the_replica(zeroed: int, tmp_path: Path) -> None:
    """No checksum covers the leader epoch, so that it cannot be mended without a replica."""
    batches = [with_epoch(batch, 7) for batch in real_batches(0)]
    broken = batches[3][: 16 - zeroed] + bytes(zeroed) + batches[3][16:]
    here = make(tmp_path / "a-0", {0: [*batches[:3], broken, *batches[4:]]})
    fill(here, make(tmp_path / "b" / "a-0", {0: batches}))
    assert read(here) == {0: batches}


def test_a_damaged_replica_gives_what_is_intact(partition: Path, tmp_path: Path) -> None:
    replica = copy_of(PLAIN, tmp_path / "other")
    good = read(replica)
    change(replica, 46, bytes(len(good[46][0])), *good[46][1:])
    log(partition, 46).write_bytes(b"")
    found = fill(partition, replica)
    assert read(partition)[46] == good[46][1:]
    assert found.plan.from_replica == [ReplicaOffsets(*found.plan.from_replica[0][:2], str(log(replica, 46)))]
    assert found.plan.gaps == [(46, found.plan.from_replica[0].first_offset - 1)]


def test_where_a_replica_is(partition: Path, tmp_path: Path) -> None:
    assert replica_of(str(partition), str(PLAIN)) == str(PLAIN)
    assert replica_of(str(partition), str(PLAIN.parent)) == str(PLAIN)
    assert replica_of("other-0", str(PLAIN.parent)) is None
    with pytest.raises(PathError):
        replica_of(str(partition), str(tmp_path / "none"))


def test_replicas_that_were_cleaned_apart(tmp_path: Path) -> None:
    """Real ones: segments, batches and records are not the same, but what both have is."""
    here, there = (TESTDATA / f"kafka-1.1.1/replicas/broker{i}/ep-compact-0" for i in range(2))
    partition = copy_of(here, tmp_path)
    assert all(taken.why for taken in fill(partition, there).plan.from_replica)
    good = read(partition)
    whole = log(partition, 2230).read_bytes()
    log(partition, 2230).write_bytes(b"")
    found = fill(partition, there)
    assert [taken for taken in found.plan.from_replica if taken.first_offset >= 2230 and not taken.why]
    assert log(partition, 2230).read_bytes() == whole
    assert read(partition)[2011] == good[2011]


# The comparison of two replicas, against sets of offsets.

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
    return with_epoch(keyed_batch(span[0], bytes(range(span[0], span[1] + 1))), epoch)


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
        patch.setattr(windows, "WINDOW_BYTES", 4 * chunk)
        found, holes = compared(list(map(batch_of, here)), list(map(batch_of, there)))
    mine, other = offsets(here), offsets(there)
    offered = [offer.part for hole in holes for offer in hole.offers]
    assert joined(offered) == offsets([span for span in there if not offsets([span]) & mine])
    unmatched = joined([one.part for one in found.unmatched])
    assert unmatched >= offsets([span for span in here if not offsets([span]) & other])
    assert unmatched <= offsets([span for span in here if offsets([span]) - other])
    assert all(part.last < behind.first for part, behind in pairwise(offered))
    assert found.heads == {}
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
    text = f"diverge at offset {offset}: another record; nothing was changed"
    with pytest.raises(ReplicasDivergeError, match=text) as error:
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


def test_a_batch_that_the_replica_has_in_part_is_common() -> None:
    """The cleaner has taken other records of it on each side."""
    here, there = up_to(batch_of((0, 2)), 9), [batch_of((0, 2)), batch_of((5, 9)), batch_of((10, 12))]
    (hole,) = compared([here], there)[1]
    assert [(offer.part.first, offer.part.last) for offer in hole.offers] == [(10, 12)]
    assert hole.before is not None
    assert hole.before.is_common


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
def test_an_impossible_epoch_is_the_other_replicas(epochs: tuple[int, ...], expected: dict[int, int] | None) -> None:
    """Elsewhere the epochs are the same."""
    spans = [(0, 3), (4, 7), (8, 11)]
    here = [batch_of(span, epoch) for span, epoch in zip(spans, epochs, strict=True)]
    there = [here[0], batch_of(spans[1], 2), here[2]]
    if expected is None:
        with pytest.raises(ReplicasDivergeError, match="diverge at offset 4: leader epochs"):
            compared(here, there)
    else:
        found, holes = compared(here, there)
        assert {first: int.from_bytes(head[12:16], "big") for first, head in found.heads.items()} == expected
        assert holes == []


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
