"""index.interval.bytes as the indexes of a partition show it."""

from pathlib import Path

import pytest

from kseg.logdir.index_interval import Interval, chosen_interval, interval_of
from kseg.recovery.workspace import Workspace
from recovery.partitions import TESTDATA, TRANSACTIONS, make, real_batches, recover

SMALL = min(real_batches(0), key=len)


def interval(directory: Path) -> Interval:
    return interval_of(Workspace(str(directory)))


def test_what_a_broker_wrote() -> None:
    assert interval(TRANSACTIONS).size == 1024
    assert interval(TESTDATA / "log-directories/4.3.1/logs/dplain-0").size == 1024


@pytest.mark.parametrize("size", [256, 512, 1024, 4096, 16384])
def test_what_was_given_is_found(tmp_path: Path, size: int) -> None:
    count = 40 * size // len(SMALL)
    directory = make(tmp_path / "orders-0", {0: [k.to_bytes(8, "big") + SMALL[8:] for k in range(0, 100 * count, 100)]})
    recover(directory, interval_bytes=size)
    assert interval(directory) == Interval(size, 1)


def test_the_default_where_nothing_shows_it(tmp_path: Path) -> None:
    assert interval(make(tmp_path / "orders-0", {0: [SMALL]})) == Interval(4096, 0)


def test_what_is_given_is_taken(tmp_path: Path) -> None:
    workspace = Workspace(str(make(tmp_path / "orders-0", {0: [SMALL]})))
    assert chosen_interval(workspace, 77) == Interval(77, None)


def test_an_index_that_does_not_fit_its_log_tells_nothing(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0", {0: [SMALL] * 20})
    (directory / f"{0:020d}.index").write_bytes(b"\0\0\0\5\0\0\0\7" * 3)
    assert interval(directory) == Interval(4096, 0)


def test_a_recovery_uses_and_tells_it(tmp_path: Path) -> None:
    batches = [k.to_bytes(8, "big") + SMALL[8:] for k in range(0, 30000, 100)]
    directory = make(tmp_path / "orders-0", {0: batches})
    recover(directory, interval_bytes=512)
    before = (directory / f"{0:020d}.index").read_bytes()
    found = recover(directory, interval_bytes=None)
    assert found.interval == Interval(512, 1)
    assert (directory / f"{0:020d}.index").read_bytes() == before
