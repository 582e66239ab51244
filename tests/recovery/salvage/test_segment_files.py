"""No batch is lost for the name of its file: real partitions whose files are renamed, copied, cut or removed."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kseg.recovery.salvage.salvage import plan_salvage
from recovery.damages import first_offset, last_offset, read
from recovery.partitions import PLAIN, START, TESTDATA, copy_of, make, real_batches, salvage, up_to
from recovery.salvage.test_salvage import errors_of
from segment.segments import entries, sealed
from verification.partitions import changed

_OLD = ("*.log", "*.log.swap", "*.log.cleaned")


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copy_of(PLAIN, tmp_path)


def log_of(partition: Path) -> list[bytes]:
    """All batches, segment by segment; each lies in the bounds of its segment, and no file holds anything else."""
    found: list[bytes] = []
    paths = sorted(partition.glob("*.log"))
    for path, behind in pairwise([*paths, None]):
        assert path is not None
        batches = entries(path.read_bytes())
        assert batches == list(map(sealed, batches))
        assert all(int(path.stem) <= first_offset(batch) for batch in batches)
        assert behind is None or all(last_offset(batch) < int(behind.stem) for batch in batches)
        found += batches
    assert all(last_offset(one) < first_offset(two) for one, two in pairwise(found))
    return found


def assert_ends_with_a_batch(partition: Path) -> None:
    """A consumer that has read the last batch is at the log's end."""
    batches, last = log_of(partition), max(partition.glob("*.log"))
    assert last.stat().st_size or not batches or int(last.stem) == last_offset(batches[-1]) + 1


def assert_salvaged(partition: Path, batches: list[bytes]) -> None:
    """All these batches are there, once, in a log that nothing is wrong with and that a second salvage leaves alone."""
    assert log_of(partition) == batches
    assert_ends_with_a_batch(partition)
    assert errors_of(partition) == []
    assert not plan_salvage(str(partition), START).plan


def logs_in(partition: Path) -> list[str]:
    return sorted(path.name for path in partition.glob("*.log"))


def segment(partition: Path, number: int) -> Path:
    return sorted(partition.glob("*.log"))[number]


def named(partition: Path, offset: int, suffix: str = ".log") -> Path:
    return partition / f"{offset:020d}{suffix}"


def _empty(offset: int, partition: Path) -> None:
    named(partition, offset).touch()


def _rename(number: int, name: str, partition: Path) -> None:
    segment(partition, number).rename(partition / name)


def _copy(number: int, name: str, partition: Path) -> None:
    (partition / name).write_bytes(segment(partition, number).read_bytes())


def _cut_swap(partition: Path) -> None:
    first, data = segment(partition, 0), b"".join(segment(partition, number).read_bytes() for number in (0, 1))
    (partition / f"{first.name}.swap").write_bytes(data[: len(data) - 700])
    (partition / f"{first.name}.cleaned").write_bytes(data[:900])


def _whole_swap(partition: Path) -> None:
    first, second = segment(partition, 0), segment(partition, 1)
    (partition / f"{first.name}.swap").write_bytes(first.read_bytes() + second.read_bytes())
    for path in (first, second):
        path.rename(f"{path}.deleted")


def _damaged_beside_a_copy(partition: Path) -> None:
    path = segment(partition, 0)
    (partition / "copy.log").write_bytes(path.read_bytes())
    changed(path, 500, bytes(300))


NAMES_OF_COPIES = (
    "x.log", "1.log", ".log", "-1.log", "9" * 20 + ".log", "5.log.1", "foo.swap", "x.index", "tmp", f"{0:020d}.kafka",
    f"{3:020d}.index", "abc.snapshot", f"{12:020d}.snapshot", "evidence.bin",
)  # fmt: skip
"""Names that no broker gives to a segment."""
NAMES_OF_NONE = ("tmp", f"{0:020d}.kafka", f"{0:020d}.index", f"{0:020d}.snapshot", "x.swap")
BASES = {0: 0, 1: 46, -1: 116}
HARMLESS: dict[str, Callable[[Path], None]] = {
    **{f"empty inside a batch {offset}": partial(_empty, offset) for offset in (1, 5, 47, 60)},
    **{f"empty behind the end {offset}": partial(_empty, offset) for offset in (151, 5150)},
    **{f"a name that tells of none {name}": partial(_rename, 0, name) for name in NAMES_OF_NONE},
    **{
        f"a wrong name {base + distance}": partial(_rename, number, f"{base + distance:020d}.log")
        for number, base in BASES.items()
        for distance in (1, 3, -1, -3)
        if base + distance >= 0
    },
    **{
        f"a copy named {max(base + distance, 2)}": partial(_copy, number, f"{max(base + distance, 2):020d}.log")
        for number, base in BASES.items()
        for distance in (1, -1, 3, 5000)
        if number != 1
    },
    **{f"a copy named {name}": partial(_copy, 0, name) for name in NAMES_OF_COPIES},
    "the only copy bears another name": partial(_rename, 1, "saved by hand.log"),
    "a swap that is cut beside its originals": _cut_swap,
    "a swap whose originals are gone": _whole_swap,
    "a copy fills what is damaged": _damaged_beside_a_copy,
}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("harm", HARMLESS)
def test_no_batch_is_lost(partition: Path, harm: str) -> None:
    whole, names = log_of(partition), logs_in(partition)
    HARMLESS[harm](partition)
    there = {path.name for path in partition.iterdir()}
    found = salvage(partition)
    assert_salvaged(partition, whole)
    assert found.plan.gaps == [] or harm.startswith("a copy named")  # one of them far behind the end
    assert logs_in(partition) == names or f"{names[0]}.deleted" in there  # both are one segment then
    assert not there & {*NAMES_OF_COPIES} & {path.name for path in partition.iterdir()}


def test_an_empty_segment_at_the_end_stays(partition: Path) -> None:
    whole = log_of(partition)
    path = named(partition, last_offset(whole[-1]) + 1)
    path.write_bytes(b"")
    salvage(partition)
    assert_salvaged(partition, whole)
    assert path.exists()


def test_a_last_segment_of_which_nothing_is_left(partition: Path) -> None:
    """Where the segment before it does not lead up to it either."""
    segment(partition, -1).write_bytes(bytes(5000))
    before = segment(partition, -2)
    before.write_bytes(before.read_bytes()[:-1])
    found = salvage(partition)
    assert_ends_with_a_batch(partition)
    assert errors_of(partition) == []
    assert found.plan.gaps != []


def test_segments_of_0_7_are_none_to_take_batches_from(partition: Path) -> None:
    path = partition / f"{0:020d}.kafka"
    salvage(partition)
    path.write_bytes((TESTDATA / "damaged/0.7.2-09-attr-codec-3/rec-0/00000000000000000950.kafka").read_bytes())
    assert not plan_salvage(str(partition), START).plan


@pytest.mark.parametrize("name", ["0.log.gz", "0.log.md5", "notes.txt"])
def test_a_file_that_is_none_of_a_brokers_stays(partition: Path, name: str) -> None:
    salvage(partition)
    (partition / name).write_bytes(b"d41d8cd98f00b204e9800998ecf8427e" * 9)
    assert not plan_salvage(str(partition), START).plan


def test_the_choice_that_keeps_most_records(tmp_path: Path) -> None:
    """A batch of 1010 offsets and few records lies over many batches of another file."""
    one, two = real_batches(0), real_batches(46)
    liar = up_to(one[-1], first_offset(one[-1]) + 1010)
    partition = make(tmp_path / "a-0", {0: [*one[:-1], liar], 46: two})
    found = salvage(partition)
    assert log_of(partition) == [*one[:-1], *two]
    assert len(found.cuts) == 1
    kept = b"".join(path.read_bytes() for path in (partition / ".kseg-quarantine").rglob("*") if path.is_file())
    assert liar in kept


def test_the_last_batch_of_a_segment_claims_an_offset_of_the_next(partition: Path) -> None:
    """Whichever has more records: the name of the next segment is the offset of its first batch."""
    whole, paths = log_of(partition), sorted(partition.glob("*.log"))
    for path, behind in pairwise(paths):
        data, batches = path.read_bytes(), entries(path.read_bytes())
        batch = batches[-1]
        path.write_bytes(b"".join([*batches[:-1], up_to(batch, int(behind.stem))]))
        found = salvage(partition)
        assert log_of(partition) == [one for one in whole if one != batch]
        assert len(found.cuts) == 1
        path.write_bytes(data)
        salvage(partition)
        assert log_of(partition) == whole


@pytest.mark.parametrize("keeps_side_files", [True, False])
def test_no_log_at_all(partition: Path, keeps_side_files: bool) -> None:
    for path in partition.glob("*.log" if keeps_side_files else "0*"):
        path.unlink()
    salvage(partition)
    assert [path.stat().st_size for path in partition.glob("*.log")] == [0]
    assert errors_of(partition) == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n2\n0 0\n"])
def test_leader_epochs_that_cannot_be_read_are_made_anew(partition: Path, content: bytes) -> None:
    path = partition / "leader-epoch-checkpoint"
    whole = log_of(partition)
    path.write_bytes(content)
    salvage(partition)
    assert path.read_text() == "0\n1\n0 0\n"  # an epoch in which nothing was written is not known any more
    assert_salvaged(partition, whole)


_PLACES = st.integers(0, 1 << 16)


def _renamed(partition: Path, a: int, b: int) -> None:
    path = _file(partition, a)
    target = named(partition, max(int(path.stem) + b % 9 - 4, 0))
    if path.stem.isdigit() and not target.exists():
        path.rename(target)


def _copied(partition: Path, a: int, b: int) -> None:
    path = _file(partition, a)
    names = [*(f"{offset:020d}.log" for offset in (1, 45, 47, 9999)), "x.log", f"{path.name}.swap", "7.log"]
    if not (partition / names[b % len(names)]).exists():
        (partition / names[b % len(names)]).write_bytes(path.read_bytes())


def _cut(partition: Path, a: int, b: int) -> None:
    path = _file(partition, a)
    path.write_bytes(path.read_bytes()[: b % (path.stat().st_size + 1)])


def _overlapped(partition: Path, a: int, b: int) -> None:
    """The first batches of one file stand behind those of another one, too."""
    path, other = _file(partition, a), _file(partition, b).read_bytes()
    batches = [batch for chunks in read(PLAIN).values() for batch in chunks if batch in other]
    path.write_bytes(path.read_bytes() + b"".join(batches[: b % 7]))


def _emptied(partition: Path, a: int, b: int) -> None:
    named(partition, b % 200).touch()


def _file(partition: Path, number: int) -> Path:
    paths = sorted(path for path in partition.glob("*.log") if path.stem.isdigit())
    return paths[number % len(paths)]


_CHANGES = {change.__name__: change for change in (_renamed, _copied, _cut, _overlapped, _emptied)}


@given(st.lists(st.tuples(st.sampled_from(sorted(_CHANGES)), _PLACES, _PLACES), min_size=1, max_size=5))
@example([("_overlapped", 0, 71), ("_renamed", 3, 167)])  # a loose copy of a batch that crosses the name of its file
@example([("_cut", 0, 4634), ("_overlapped", 0, 7582)])  # whole batches behind the rest of a cut one
@example([("_emptied", 0, 130), ("_cut", 3, 6036), ("_renamed", 3, 8296)])  # the batch would fit at a wrong name, too
def test_every_intact_batch_is_in_the_log_or_in_quarantine(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        partition = copy_of(PLAIN, Path(folder))
        batches = log_of(partition)
        for kind, a, b in steps:
            _CHANGES[kind](partition, a, b)
        files = [path.read_bytes() for pattern in _OLD for path in partition.glob(pattern)]
        there = {batch for batch in batches if any(batch in data for data in files)}  # behind a cut batch, too
        salvage(partition)
        kept = set(log_of(partition))
        assert kept == there  # no two of them claim the same offsets
        assert_ends_with_a_batch(partition)
        assert errors_of(partition) == []
        assert not plan_salvage(str(partition), START).plan


def test_a_preallocated_time_index_is_no_segment(partition: Path) -> None:
    """Its one entry and the zeros behind it, of a running broker 4.3.1, resemble the header of a batch of 26 bytes."""
    path = segment(partition, -1).with_suffix(".timeindex")
    path.write_bytes(bytes.fromhex("000001a2062e550e0000000e").ljust(65532, b"\0"))
    whole = log_of(partition)
    found = salvage(partition)
    assert [step.removed for step in found.plan.steps if step.removed] == []
    assert_salvaged(partition, whole)


def test_a_batch_yields_to_more_records_in_another_file(partition: Path) -> None:
    """It has one record, and the offsets of three batches."""
    whole, path = log_of(partition), segment(partition, 0)
    batches = entries(path.read_bytes())
    wide = sealed(up_to(batches[2], last_offset(batches[4])), 57, b"\0\0\0\1")
    (partition / "copy.log").write_bytes(path.read_bytes())
    path.write_bytes(b"".join([*batches[:2], wide, *batches[5:]]))
    salvage(partition)
    assert_salvaged(partition, whole)
    kept = b"".join(path.read_bytes() for path in (partition / ".kseg-quarantine").rglob("*") if path.is_file())
    assert wide in kept


@pytest.mark.parametrize("offset", [-(1 << 63), -1, (1 << 63) - 1])
@pytest.mark.parametrize("name", ["kafka-0.10.2.2/codecs/compact-lz4-0", "kafka-0.8.2.2/codecs/one-gzip-0"])
def test_offsets_at_the_bounds_of_what_there_is(tmp_path: Path, name: str, offset: int) -> None:
    """Of sets of v0 and v1, whose first offsets are told by what is inside."""
    partition = copy_of(TESTDATA / name, tmp_path)
    path = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    data = path.read_bytes()
    path.write_bytes(offset.to_bytes(8, "big", signed=True) + data[8:])
    salvage(partition)
    assert not plan_salvage(str(partition), START).plan


def test_aborted_transactions_below_a_raised_log_start(tmp_path: Path) -> None:
    """One began in the first segment and ended in the second."""
    partition = copy_of(TESTDATA / "log-directories/4.3.1-rounds/kill/txn-0", tmp_path)
    indexes = {path.name: path.read_bytes() for path in partition.glob("*.txnindex")}
    start = replace(START, log_start_offset=int(max(partition.glob("*.log")).stem))
    salvage(partition, start=start)
    assert {path.name: path.read_bytes() for path in partition.glob("*.txnindex")} == indexes
