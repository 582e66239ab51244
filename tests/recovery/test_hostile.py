"""Whatever lies in a partition: a plan or a refusal, and a result that needs no second one and in which nothing is
wrong."""

import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli.command import flip
from kseg.errors import KsegError, UnsupportedError
from kseg.recovery.broker.loading import plan_partition
from kseg.recovery.broker.segments import AcceptedBatches
from kseg.releases.release import RELEASES, Era
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source
from recovery.partitions import START, TRANSACTIONS, at_offset, copy_of, make, real_batches, recover
from recovery.salvage.test_salvage import copied

SIDE_FILES = [
    "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000010.txnindex",
    "00000000000000000010.snapshot", "leader-epoch-checkpoint", "00000000000000000000.index.swap",
    "00000000000000000010.timeindex.cleaned", "9223372036854775807.snapshot", "00000000000000000003.txnindex.swap",
]  # fmt: skip


def batches_of(path: Path) -> tuple[bool, list[tuple[int, int, int]]]:
    """Whether a .log is batches that a broker takes to its end; base offset, leader epoch and magic of each."""
    found: list[tuple[int, int, int]] = []
    with open_source(str(path)) as source:
        accepted = AcceptedBatches(source, source.size)
        for headers in accepted:
            found += zip(headers.firsts, headers.epochs, headers.magics, strict=True)
        return accepted.position == source.size, found


def is_intact(path: Path) -> bool:
    """Whether a .log is intact batches to its end, but for a magic that no checksum covers and no broker looks at."""
    is_whole, found = batches_of(path)
    with open_source(str(path)) as source:
        is_valid = all(getattr(item, "is_valid", False) for item in SegmentReader(source))
    return is_whole and (is_valid or any(magic > 2 for *_, magic in found))


def epochs_in(directory: Path) -> dict[int, int]:
    """The leader epoch of each batch, by base offset."""
    return {first: epoch for path in directory.glob("*.log") for first, epoch, _ in batches_of(path)[1]}


@pytest.mark.slow
@example(seed=4005655884, kinds=["flip"])  # of a magic
@given(seed=st.integers(0, 1 << 32), kinds=st.lists(st.sampled_from(["flip", "cut", "grow", "zero"]), min_size=1))
def test_a_recovered_log_is_intact_and_needs_no_second_recovery(seed: int, kinds: list[str]) -> None:
    chance = random.Random(seed)
    with copied(TRANSACTIONS) as directory:
        logs = sorted(directory.glob("*.log"))
        for kind in kinds:
            path = chance.choice(logs)
            data = bytearray(path.read_bytes())
            at = chance.randrange(len(data)) if data else 0
            if kind == "flip" and data:
                data[at] ^= 1 << chance.randrange(8)
            elif kind == "cut":
                del data[at:]
            elif kind == "grow":
                data += chance.randbytes(chance.randrange(300))
            elif kind == "zero":
                data[at : at + 200] = bytes(len(data[at : at + 200]))
            path.write_bytes(data)
        try:
            recover(directory)
        except KsegError:
            return  # an offset or a producer that stops a broker: nothing was changed
        assert all(is_intact(path) for path in directory.glob("*.log"))
        again = [step.file for step in plan_partition(str(directory), START).plan.steps]
        # An epoch lies outside the checksum: recovery takes a wrong one up once the file's later entries are gone.
        is_epoch_damaged = not epochs_in(directory).items() <= epochs_in(TRANSACTIONS).items()
        assert again == [] or (is_epoch_damaged and again == ["leader-epoch-checkpoint"])


def test_a_damaged_epoch_is_taken_up_by_the_recovery_after_a_cut(tmp_path: Path) -> None:
    """Only epochs above the latest are taken from batches (LogSegment.recover): the cut makes that a lower one."""
    directory = copy_of(TRANSACTIONS, tmp_path)
    first, second = sorted(directory.glob("*.log"))[:2]
    flip(first, 565, 2)
    second.write_bytes(second.read_bytes()[:1001])
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n2 192\n")
    recover(directory)
    assert (directory / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n0 0\n"
    recover(directory)
    assert (directory / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n2 5\n"


@pytest.mark.slow
@given(
    name=st.sampled_from(SIDE_FILES),
    content=st.binary(max_size=400),
    release=st.sampled_from(RELEASES[1:]),
    was_clean=st.booleans(),
)
def test_side_files_of_any_content(name: str, content: bytes, release: tuple[int, ...], was_clean: bool) -> None:
    with copied(TRANSACTIONS) as directory:
        (directory / name).write_bytes(content)
        try:
            recover(directory, era=Era(release), was_clean=was_clean)
        except KsegError:
            return
        assert list(directory.glob("*.log"))


def hugely_grown(directory: Path, name: str) -> Path:
    with open(directory / name, "r+b") as file:
        file.truncate(1 << 40)
    return directory


def test_a_huge_index_is_replaced(tmp_path: Path) -> None:
    directory = copy_of(TRANSACTIONS, tmp_path)
    before = (directory / SIDE_FILES[0]).read_bytes()
    recover(hugely_grown(directory, SIDE_FILES[0]))
    assert (directory / SIDE_FILES[0]).read_bytes() == before


@pytest.mark.parametrize("name", ["00000000000000000010.snapshot", "00000000000000000010.txnindex"])
def test_other_huge_side_files_are_refused(tmp_path: Path, name: str) -> None:
    directory = copy_of(TRANSACTIONS, tmp_path)
    with pytest.raises(UnsupportedError, match=name.replace(".", "[.]")):
        recover(hugely_grown(directory, name), recovery_point=11)


def test_the_last_offset_there_is(tmp_path: Path) -> None:
    """The log end of a broker is negative then, so below the log's start: it deletes all segments."""
    top = (1 << 63) - 1
    directory = make(tmp_path / "orders-0", {top: [at_offset(real_batches(0)[0], top)]})
    assert recover(directory).next_offset == 0
    assert [path.name for path in directory.glob("*.log")] == [f"{0:020d}.log"]


@pytest.mark.parametrize("delta", [1, 1 << 30])
def test_offsets_below_the_name_of_the_last_segment_there_is(tmp_path: Path, delta: int) -> None:
    top = (1 << 63) - 1
    directory = make(tmp_path / "orders-0", {top: [at_offset(real_batches(0)[0], top - delta)]})
    with pytest.raises(KsegError):
        recover(directory)
