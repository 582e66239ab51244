"""Runs of batches, against a list of them."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.rows import Scratch
from kseg.recovery.salvage import segment_draft
from kseg.recovery.salvage.segment_draft import MisplacedRun, Parts, SalvagedBatches, SegmentDraft, batch_of, batches_of
from kseg.segment.items import Damage
from kseg.stores.source import open_source
from recovery.damages import first_offset, last_offset
from recovery.partitions import TESTDATA, real_batches
from segment.segments import spans

BASE = 1000
LARGEST = 0xFFFFFFFF


@dataclass
class Row:
    part: SalvagedBatches
    weight: int
    records: int


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Rising parts, some of them beyond 4 GiB, with repaired heads or in other files."""
    found, at, offset = list[Row](), draw(st.sampled_from([0, 7, LARGEST - 60])), BASE + draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 7))):
        at, offset = at + draw(st.integers(0, 2)), offset + draw(st.integers(0, 2))
        size, count = draw(st.integers(1, 40)), draw(st.integers(1, 3))
        special = draw(st.sampled_from([(), (b"h",), (b"", "other"), (b"h", "other")]))
        part = SalvagedBatches(at, at + size, offset, offset + count - 1, *special)
        found.append(Row(part, draw(st.sampled_from([0, 2, LARGEST, LARGEST + 1])), draw(st.integers(0, 9))))
        at, offset = at + size, offset + count
    return found


def parts_of(found: list[Row]) -> Parts:
    parts = Parts(BASE)
    for row in found:
        parts.append(row.part, row.weight, row.records)
    return parts


def assert_same(parts: Parts, found: list[Row]) -> None:
    expected = [row.part for row in found]
    assert list(parts) == [parts[i] for i in range(len(parts))] == expected
    assert list(parts.weights) == [min(row.weight, LARGEST) for row in found]
    assert list(parts.records) == [row.records for row in found]
    assert parts.size == sum(part.size for part in expected)
    assert parts.repaired == sum(bool(part.head) for part in expected)


@given(rows(), st.data())
def test_parts_are_those_of_a_list(found: list[Row], data: st.DataObject) -> None:
    parts = parts_of(found)
    assert_same(parts, found)
    assert parts[-1] == found[-1].part
    assert parts.is_rising
    for offset in range(BASE - 1, found[-1].part.last + 2):
        assert parts.last_from(offset) == sum(row.part.first <= offset for row in found) - 1
    for position in {at + i for row in found for at in (row.part.start, row.part.end) for i in (-1, 0, 1)} - {-1}:
        assert parts.at_position(position) == sum(row.part.start <= position for row in found) - 1
    numbers = data.draw(st.sets(st.integers(0, len(found) - 1)))
    assert_same(parts.without(numbers), [row for i, row in enumerate(found) if i not in numbers])
    last, weight = found[-1].part, data.draw(st.sampled_from([0, 1, LARGEST]))
    parts.lengthen(last.end + 100, last.last + 5, weight, 4)
    found[-1] = Row(last._replace(end=last.end + 100, last=last.last + 5), found[-1].weight, found[-1].records + 4)
    found[-1].weight = min(found[-1].weight, LARGEST) + weight
    assert_same(parts, found)
    assert parts.pop() == found.pop().part
    assert_same(parts, found)


@pytest.mark.parametrize(("first", "is_rising"), [(3, False), (4, False), (5, True)])
def test_parts_rise_only_after_the_end_of_the_previous_one(first: int, is_rising: bool) -> None:
    parts = Parts(0)
    parts.append(SalvagedBatches(0, 10, 2, 4))
    parts.append(SalvagedBatches(10, 20, first, 9))
    assert parts.is_rising is is_rising


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("draft") / f"{0:020d}.log"
    path.write_bytes(b"junk" + b"".join(real_batches(0)))
    return path


def expected_parts() -> list[SalvagedBatches]:
    found, at = [], 4
    for batch in real_batches(0):
        found.append(SalvagedBatches(at, at + len(batch), first_offset(batch), last_offset(batch)))
        at += len(batch)
    return found


def whole() -> SalvagedBatches:
    parts = expected_parts()
    return SalvagedBatches(4, parts[-1].end, parts[0].first, parts[-1].last)


def test_the_batches_of_a_part(log: Path) -> None:
    with open_source(str(log)) as source:
        assert list(batches_of(source, whole())) == expected_parts()
        mended = whole()._replace(head=b"x")
        assert list(batches_of(source, mended)) == [mended]


@pytest.mark.parametrize("folder", ["kafka-0.10.2.2/codecs/compact-lz4-0", "kafka-1.1.1/format-switch/sw-lz4-0"])
def test_the_batches_of_a_part_of_old_formats(folder: str) -> None:
    path = min((TESTDATA / folder).glob("*.log"))
    data, found, before = path.read_bytes(), [], -1
    for at, size in spans(data):
        last = last_offset(data[at : at + size])
        found.append(SalvagedBatches(at, at + size, before + 1, last))
        before = last
    with open_source(str(path)) as source:
        assert list(batches_of(source, SalvagedBatches(0, len(data), 0, before))) == found


def test_a_batch_with_a_repaired_head(log: Path) -> None:
    batch, part = real_batches(0)[2], expected_parts()[2]
    head = (77).to_bytes(8, "big") + batch[8:30]
    with open_source(str(log)) as source:
        found = batch_of(source, part._replace(head=head), Scratch())
        assert (found.base_offset, found.last_offset) == (77, 77 + part.last - part.first)
        assert [record.offset for record in found] == list(range(77, 78 + part.last - part.first))


@given(data=st.data())
def test_what_is_left_without_some_batches(data: st.DataObject, log: Path) -> None:
    batches = expected_parts()
    gone = data.draw(st.sets(st.sampled_from([batch.first for batch in batches])))
    expected = list[SalvagedBatches]()
    for batch in batches:
        if batch.first in gone:
            continue
        if expected and expected[-1].end == batch.start:
            expected[-1] = expected[-1]._replace(end=batch.end, last=batch.last)
        else:
            expected.append(batch)
    draft = SegmentDraft(str(log), 0, None)
    draft.parts.append(whole())
    assert draft.leave_out(gone) == [batch for batch in batches if batch.first in gone]
    assert list(draft.parts) == expected


@given(data=st.data())
def test_changed_batches_are_parts_of_their_own(data: st.DataObject, log: Path) -> None:
    changed = data.draw(st.sets(st.sampled_from([batch.first for batch in expected_parts()])))
    draft = SegmentDraft(str(log), 0, None)
    draft.parts.append(whole())
    draft.edit(changed, lambda _, batch: batch._replace(head=b"new"))
    with open_source(str(log)) as source:
        batches = [batch for part in draft for batch in batches_of(source, part)]
    assert batches == [batch._replace(head=b"new") if batch.first in changed else batch for batch in expected_parts()]
    assert draft.repaired == len(changed)


def test_the_listed_cuts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_draft, "MAX_CUTS", 3)
    draft = SegmentDraft("a", 0, None)
    for i in range(5):
        draft.cut_out("a", 10 * i, 2, "text")
    assert (draft.cuts, draft.more_cuts) == ([Damage("a", 10 * i, 2, "text") for i in range(3)], 2)


def test_any_damage_makes_a_changed_segment() -> None:
    def draft(**changes: object) -> SegmentDraft:
        found = SegmentDraft("a", 0, 10)
        for name, value in changes.items():
            setattr(found, name, value)
        return found

    assert not draft().is_changed
    assert not draft(ambiguous=1, epochs_fall=True).is_changed
    assert draft(is_rearranged=True).is_changed
    with_cut, misplaced, filled = draft(), draft(), draft()
    with_cut.cut_out("a", 0, 1, "text")
    misplaced.misplaced.append(MisplacedRun(misplaced, whole(), 1))
    filled.put(whole())
    assert all(each.is_changed for each in (with_cut, misplaced, filled))
