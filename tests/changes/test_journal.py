"""The journal of a log directory after a power cut, and after half a line."""

import random
from pathlib import Path

import pytest

from changes.failing import QUICK
from changes.power import PowerDisk
from kseg.changes.journal import Journal, journals

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


@pytest.mark.parametrize("seed", range(12))
def test_each_line_is_durable_once_it_is_written(seed: int, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    disk = PowerDisk(logs)
    journal = Journal(str(logs), 1, "recover", 1_790_000_000_000, True, {})
    journal.create(disk)
    names = ["orders-0", "orders-1", "orders-2"]
    for name in names:
        journal.append({"partition": name}, disk)
    disk.cut(random.Random(seed))
    (found,) = journals(str(logs))
    assert (found.command, found.partitions, found.size) == ("recover", names, journal.size)


def test_half_a_line_is_replaced_by_the_next_one(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 1, "recover", 1_790_000_000_000, True, {})
    journal.create(QUICK)
    with open(journal.path, "ab") as file:
        file.write(b'{"partition":"ord')
    (found,) = journals(str(tmp_path))
    found.append({"partition": "orders-7"}, QUICK)
    assert journals(str(tmp_path))[0].partitions == ["orders-7"]
