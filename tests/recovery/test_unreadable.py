"""Bytes that the disk cannot give: salvage reads around them, and keeps the file they lie in."""

import shutil
from pathlib import Path

import pytest

from failing_disk import PAGE, FailDisk
from kseg.changes.apply import Keeping, apply
from kseg.recovery.salvage.salvage import plan_salvage
from recovery.partitions import START, TESTDATA, copy_of
from recovery.salvage.test_segment_files import batches_in, log_of

PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"


@pytest.mark.parametrize("page", [0, 1, 3])
def test_batches_around_unreadable_bytes_are_kept(tmp_path: Path, page: int, fail_disk: FailDisk) -> None:
    """At the begin of a file, within it, and at its end."""
    partition = copy_of(PLAIN, tmp_path)
    whole, path = log_of(partition), min(partition.glob("*.log"))
    data = path.read_bytes()
    assert len(data) > 3 * PAGE
    lost, at = list[bytes](), 0
    for batch in batches_in(data):
        if at < (page + 1) * PAGE and at + len(batch) > page * PAGE:
            lost.append(batch)
        at += len(batch)
    inode = path.stat().st_ino
    fail_disk(path, page * PAGE, (page + 1) * PAGE)
    found = plan_salvage(str(partition), START)
    apply(found.plan, "recover --mode salvage", Keeping())
    assert log_of(partition) == [batch for batch in whole if batch not in lost]
    assert [cut.code for _, cut in found.cuts] == ["unreadable-bytes"]
    kept = [one for one in (partition / ".kseg-quarantine").rglob("*") if one.is_file() and one.stat().st_ino == inode]
    assert len(kept) == 1  # whole: what the disk cannot give now it may give to other means
    shutil.rmtree(partition)
