"""What one read of a replay does to producers and transactions, by Kafka's own loader and by kseg."""

import shutil
import struct
from pathlib import Path

import pytest

from broker.loading import MARKER, Loader, state
from kseg.changes.apply import Keeping, apply
from kseg.errors import KsegError
from kseg.kernel.scan.checksums import crc32c
from kseg.recovery.broker.loading import plan_partition
from kseg.recovery.options import BrokerStart
from kseg.releases.release import era_of
from verification.producer_cases import ABORT, COMMIT, START_MS, batch, log_of, marker

pytestmark = [pytest.mark.broker, pytest.mark.slow]

NOW_MS = START_MS + 1000
NO_PRODUCERS = b"\0\1" + struct.pack(">I", crc32c(bytes(4), 0)) + bytes(4)
BEGUN = batch(1, 5, transactional=True)
CASES = {
    "ended twice": [[BEGUN, marker(2, COMMIT, 5), BEGUN, marker(2, COMMIT, 5), batch(3, 7)]],
    "aborted twice": [[BEGUN, marker(2, ABORT, 5), BEGUN, marker(2, ABORT, 5), batch(3, 7)]],
    "of two producers": [
        [BEGUN, marker(2, COMMIT, 5), batch(1, 6, transactional=True), marker(3, COMMIT, 6), batch(4, 7)]
    ],
    "open again": [[BEGUN, marker(2, COMMIT, 5), BEGUN, batch(3, 7)]],
    "ended by a later read": [[BEGUN, marker(2, COMMIT, 5), BEGUN], [marker(3, COMMIT, 5), batch(4, 7)]],
    "in two reads": [[BEGUN, marker(2, COMMIT, 5)], [batch(3, 7)]],
    "an epoch between": [
        [batch(1, 5, epoch=1)], [marker(2, COMMIT, 5, epoch=2), marker(3, COMMIT, 5, epoch=1), batch(4, 7)]
    ],
    "an epoch between in one read": [
        [batch(1, 5, epoch=1), marker(2, COMMIT, 5, epoch=2), marker(3, COMMIT, 5, epoch=1), batch(4, 7)]
    ],
}  # fmt: skip


def test_aborts_that_do_not_rise(loader: Loader, tmp_path: Path) -> None:
    """After an unclean stop the segment is scanned, and its transaction index made anew."""
    begun = [batch(0, 5, transactional=True), batch(1, 6, transactional=True)]
    partition = log_of(tmp_path, [*begun, marker(3, ABORT, 5), marker(2, ABORT, 6)])
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: IkYnvhBNSWeHGzcaFR3aYg")
    with pytest.raises(KsegError, match="no transaction index takes that"):
        plan_partition(str(partition), BrokerStart(now_ms=NOW_MS, interval_bytes=4096, era=era_of(loader.release)))
    assert "must increase sequentially" in loader.load(partition, NOW_MS, 4096)


@pytest.mark.parametrize("name", CASES)
def test_kseg_leaves_what_the_loader_leaves(loader: Loader, name: str, tmp_path: Path) -> None:
    """After a clean stop, from the snapshot at offset 1 on."""
    (tmp_path / "theirs").mkdir()
    theirs = log_of(tmp_path / "theirs", [batch(0, 8)], *CASES[name])
    (theirs / f"{1:020d}.snapshot").write_bytes(NO_PRODUCERS)
    (theirs / "partition.metadata").write_text("version: 0\ntopic_id: IkYnvhBNSWeHGzcaFR3aYg")
    for path in theirs.glob("*.index"):
        path.with_suffix(".timeindex").touch()
    (theirs.parent / MARKER).touch()
    ours = Path(shutil.copytree(theirs.parent, tmp_path / "ours")) / theirs.name
    answer = loader.load(theirs, NOW_MS, 4096)
    start = BrokerStart(was_clean=True, now_ms=NOW_MS, interval_bytes=4096, era=era_of(loader.release))
    try:
        apply(plan_partition(str(ours), start).plan, "recover", Keeping(keeps=False))
        is_taken = True
    except KsegError:
        is_taken = False
    assert is_taken == (answer == "taken")
    assert not is_taken or state(ours) == state(theirs)
