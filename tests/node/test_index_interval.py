"""index.interval.bytes as the indexes of a partition show it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.errors import PathError
from kseg.node import index_interval
from kseg.node.index_interval import FilesOnDisk, Interval, interval_of
from kseg.recovery.workspace import Workspace
from recovery.partitions import TESTDATA, TRANSACTIONS, make, real_batches, recover

SMALL = min(real_batches(0), key=len)


def interval(directory: Path) -> Interval:
    return interval_of(Workspace(str(directory)))


def test_what_a_broker_wrote() -> None:
    assert interval(TRANSACTIONS).size == 1024
    assert interval(TESTDATA / "log-directories/4.3.1/logs/dplain-0").size == 1024


def test_the_default_where_nothing_shows_it(tmp_path: Path) -> None:
    assert interval(make(tmp_path / "orders-0", {0: [SMALL]})) == Interval(4096, 0)


def test_a_directory_that_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="orders-0: No such file or directory"):
        FilesOnDisk(str(tmp_path / "orders-0"))


def test_what_is_given_is_taken(tmp_path: Path) -> None:
    workspace = Workspace(str(make(tmp_path / "orders-0", {0: [SMALL]})))
    assert interval_of(workspace, 77) == Interval(77, None)


@pytest.mark.parametrize("size", [256, 512, 1024])
def test_a_recovery_uses_and_tells_it(size: int, tmp_path: Path) -> None:
    batches = [k.to_bytes(8, "big") + SMALL[8:] for k in range(0, 30000, 100)]
    directory = make(tmp_path / "orders-0", {0: batches})
    recover(directory, interval_bytes=size)
    before = (directory / f"{0:020d}.index").read_bytes()
    found = recover(directory, interval_bytes=None)
    assert found.interval == Interval(size, 1)
    assert (directory / f"{0:020d}.index").read_bytes() == before


class Files(FilesOnDisk):
    """A log of batches of these sizes, and the indexes that a broker writes for it."""

    def __init__(self, sizes: list[int], interval_bytes: int, segments: int = 1) -> None:
        self.sizes = sizes
        self.log = b"".join(bytes(8) + (size - 12).to_bytes(4, "big") + bytes(size - 12) for size in sizes)
        self.files: dict[str, bytes] = {}
        for base in range(segments):
            self.files |= {f"{base:020d}.log": self.log, f"{base:020d}.index": self.index(interval_bytes)}

    def index(self, interval_bytes: int) -> bytes:
        """LogSegment.append: an entry for a batch that begins more than the interval after the last entry's."""
        found, position, since = b"", 0, 0
        for number, size in enumerate(self.sizes):
            if since > interval_bytes:
                found += (number + 1).to_bytes(4, "big") + position.to_bytes(4, "big")
                since = 0
            position, since = position + size, since + size
        return found

    @property
    def _sizes(self) -> dict[str, int]:  # type: ignore[override]
        return {name: len(content) for name, content in self.files.items()}

    def read_range(self, name: str, position: int, length: int) -> bytes:
        return self.files[name][position : position + length]


SIZES = st.lists(st.integers(26, 900), min_size=1, max_size=120)


@given(sizes=SIZES, interval_bytes=st.sampled_from([100, 300, 512, 1000, 1023, 1024, 1025, 2048, 4000, 4095, 4096]))
def test_the_interval_makes_the_same_entries(sizes: list[int], interval_bytes: int) -> None:
    files = Files(sizes, interval_bytes)
    found = interval_of(files)
    whole = files.index(interval_bytes)
    assert files.index(found.size).startswith(whole) or found.size == 4096
    assert found.indexes == bool(whole)
    files.files[f"{0:020d}.index"] += bytes(80)  # preallocated
    assert interval_of(files) == found
    if whole:
        files.files[f"{0:020d}.log"] = files.log[:-1]
        assert interval_of(files) == found


@pytest.mark.parametrize(("entries", "size"), [(7, 4096), (8, 8192), (9, 8192)])
def test_a_larger_interval_than_the_default_needs_several_entries(entries: int, size: int) -> None:
    files = Files([100] * 83 * 20, 8192)
    files.files[f"{0:020d}.index"] = files.index(8192)[: 8 * entries]
    assert interval_of(files) == Interval(size, 1)


@pytest.mark.parametrize(("segments", "count"), [(1, 1), (7, 7), (8, 8), (9, 8)])
def test_only_the_first_indexes_are_read(segments: int, count: int) -> None:
    assert interval_of(Files([100] * 100, 1024, segments)) == Interval(1024, count)


@pytest.mark.parametrize("entries", [127, 128])
def test_only_the_first_entries_are_read(entries: int) -> None:
    """The entry after them does not fit the log."""
    files = Files([30] * 1000, 100)
    whole = files.index(100)[: 8 * entries]
    files.files[f"{0:020d}.index"] = whole + b"\0\0\0\1" * 2
    assert interval_of(files).indexes == (entries == 128)


@pytest.mark.parametrize(
    "place", ["inside a batch", "not rising", "beyond the log", "too small a batch", "at the start"]
)
def test_indexes_that_do_not_fit(place: str) -> None:
    files = Files([100] * 100, 1024)
    index, name, log = files.index(1024), f"{0:020d}.index", f"{0:020d}.log"
    assert interval_of(files) == Interval(1024, 1)
    if place == "inside a batch":
        index = index[:4] + (1101).to_bytes(4, "big") + index[8:]
    elif place == "not rising":
        index = index[:8] + index[:8]
    elif place == "beyond the log":
        index += (99).to_bytes(4, "big") + len(files.log).to_bytes(4, "big")
    elif place == "at the start":
        index = b"\0\0\0\1\0\0\0\0" + index
    else:
        files.files[log] = files.log[:8] + (13).to_bytes(4, "big") + files.log[12:]
    files.files[name] = index
    assert interval_of(files) == Interval(4096, 0)


@pytest.mark.parametrize(
    ("gaps", "size"),
    [
        ([(4097, 4000)], 4096), ([(4096, 4000)], 4000), ([(1025, 1000)], 1024), ([(1024, 1000)], 1000),
        ([(2000, 1024)], 1024), ([(2000, 1025)], 1025), ([(3000, 1025)], 2048), ([(300, 200)], 256),
        ([(200, 150)], 150), ([(1500, 1100), (1300, 900)], 1100), ([(120, 90)], 100), ([(500, 0)], 256),
        ([(500, 600)], 256),
    ],
)  # fmt: skip
def test_the_roundest_size_that_fits(gaps: list[tuple[int, int]], size: int) -> None:
    """Distances to the next entry, which are above the interval, and to the batch before it, which are not."""
    assert index_interval._roundest(gaps) == size
