"""leader-epoch-checkpoint against the batches (real ones are right, see test_transactions.py)."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from kseg.changes.accepted_gaps import record
from kseg.changes.apply import apply
from kseg.changes.copies import write_copy
from kseg.changes.disk import Disk
from kseg.changes.undo import last_change, purge
from kseg.findings.table import ERROR, KINDS
from kseg.recovery.options import BrokerStart
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.segment.survey import DEEP, QUICK
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.verification.report import SHOWN_PER_FILE
from verification import partitions
from verification.log_directories import check
from verification.partitions import batch_of
from verification.producer_cases import TESTDATA, batch, codes, findings, log_of

# What `kseg.changes` leaves in a partition, judged: interrupted changes, and gaps that a salvage accounts for.


def test_accepted_gaps_stay_accepted(tmp_path: Path) -> None:
    """After a purge, in a copy, moved, and in an archive; a record accepts nothing that it does not name."""
    partition = tmp_path / "dplain-0"
    shutil.copytree(TESTDATA / "damaged" / "4.3.1-last-flip-body" / "dplain-0", partition)
    plan = plan_salvage(str(partition), BrokerStart()).plan
    copy = Path(write_copy(plan, str(tmp_path), name="copy-0"))
    assert apply(plan, "recover --mode salvage")
    purge(last_change(str(partition)))
    for path in (partition, copy, partition.rename(tmp_path / "moved-0")):
        assert path.exists() == (path != partition)
        if path.exists():
            found = check(path, DEEP)
            assert (found.errors, "gap-salvaged" in found.codes) == ([], True)
    with tarfile.open(tmp_path / "moved.tar", "w") as archive:
        archive.add(tmp_path / "moved-0", "moved-0")
    with archives_at([str(tmp_path / "moved.tar")], Spool()) as (mounted,):
        found = check(mounted, DEEP)
        assert (found.errors, "gap-salvaged" in found.codes) == ([], True)
    record = copy / ".kseg-quarantine" / "accepted-gaps"
    for first, last in ((0, (1 << 63) - 1), (plan.gaps[0][0], plan.gaps[0][1] + 1)):
        record.write_text(json.dumps([[first, last]]))
        assert len(check(copy, DEEP).errors) == 1
    record.write_text("[[0, 7]")
    assert "pending-change" in check(copy, DEEP).codes


def test_more_accepted_gaps_than_are_shown(tmp_path: Path) -> None:
    kept = [batch_of([offset]) for offset in range(1500) if offset % 10 < 8]
    partition = partitions.log_of(tmp_path, b"".join(kept) + batch_of(range(1500, 1502)))
    gaps = [(offset, offset + 1) for offset in range(8, 1500, 10)]
    record(str(partition), gaps[:-1], Disk())
    assert check(partition, DEEP).report.totals.errors == len(gaps) - SHOWN_PER_FILE
    record(str(partition), gaps, Disk())
    assert check(partition, DEEP).report.totals.codes == {"gap-salvaged": 1}


NAME = "leader-epoch-checkpoint"


def log_with(place: Path, text: str | None, *epochs: int) -> Path:
    """A log of one batch an offset, of the epochs given, and its checkpoint."""
    log = log_of(place, [batch(offset, leader_epoch=epoch) for offset, epoch in enumerate(epochs)])
    (log / NAME).unlink()
    if text is not None:
        (log / NAME).write_text(text)
    return log


@pytest.mark.parametrize(
    ("text", "epochs", "expected"),
    [
        pytest.param("0\n2\n0 0\n3 2\n", (0, 0, 3), [], id="as it should be"),
        pytest.param("0\n3\n0 0\n1 2\n3 2\n", (0, 0, 3), ["leader-epochs-unsorted"], id="not rising"),
        pytest.param("0\n3\n0 0\n3 2\n4 3\n", (0, 0, 3), [], id="a leader that has written nothing"),
        pytest.param("0\n3\n0 0\n3 2\n4 4\n", (0, 0, 3), ["leader-epochs-beyond-end"], id="beyond the end"),
        pytest.param("0\n2\n0 0\n3 1\n", (0, 0, 3), ["leader-epochs-mismatch"], id="too early"),
        pytest.param("0\n2\n0 0\n3 3\n", (0, 0, 3), ["leader-epochs-mismatch"], id="too late"),
        pytest.param("0\n1\n0 0\n", (0, 0, 3), ["leader-epochs-mismatch"], id="the latest is missing"),
        pytest.param("0\n2\n0 0\n3 2\n", (0, 1, 3), ["leader-epochs-mismatch"], id="one in the middle is missing"),
        pytest.param("0\n1\n3 2\n", (0, 0, 3), [], id="the first were deleted"),
        pytest.param("0\n1\n0 1\n", (0, 0, 0), [], id="the log start inside the first"),
        pytest.param("0\n0\n", (0, 0, 3), ["leader-epochs-missing"], id="no entries"),
        pytest.param("", (0, 0), ["leader-epochs-missing"], id="empty"),
        pytest.param(None, (0, 0), ["leader-epochs-missing"], id="no file"),
        pytest.param(None, (-1, -1), [], id="batches without epoch"),
        pytest.param("1\n1\n0 0\n", (0, 0), ["leader-epochs-damaged"], id="version"),
        pytest.param("0\n2\n0 0\n", (0, 0), ["leader-epochs-damaged"], id="count"),
        pytest.param("0\n1\n0 0 0\n", (0, 0), ["leader-epochs-damaged"], id="fields"),
        pytest.param("0\n1\n0 xx\n", (0, 0), ["leader-epochs-damaged"], id="no number"),
        pytest.param("0\n1\n-1 0\n", (0, 0), ["leader-epochs-damaged"], id="negative"),
    ],
)
def test_what_checkpoints_say(tmp_path: Path, text: str | None, epochs: tuple[int, ...], expected: list[str]) -> None:
    log = log_with(tmp_path, text, *epochs)
    found = findings(log)
    assert codes(found) == expected
    assert all(finding.severity == KINDS[finding.code].severity for finding in found)
    assert all(Path(finding.file).name == NAME for finding in found)
    assert findings(log, QUICK) == []


def test_a_directory_that_waits_to_be_deleted_has_no_epochs(tmp_path: Path) -> None:
    log = log_with(tmp_path, "0\n0\n", 0)
    gone = log.rename(tmp_path / f"topic-0.{'0' * 32}-delete")
    assert findings(gone) == []


def test_messages_without_epochs_clear_the_file(tmp_path: Path) -> None:
    """v0 messages behind batches of v2: a broker that appends them forgets the epochs before."""
    old = next((TESTDATA / "kafka-0.8.2.2/codecs/one-none-0").glob("*.log")).read_bytes()
    size = 12 + int.from_bytes(old[8:12], "big")
    message = (3).to_bytes(8, "big") + old[8:size]
    log = log_of(tmp_path, [batch(offset, leader_epoch=offset) for offset in range(3)] + [message])
    for text in ("0\n0\n", "0\n3\n0 0\n1 1\n2 2\n"):
        (log / NAME).write_text(text)
        assert findings(log) == []


def test_an_end_that_is_damaged_is_no_end(tmp_path: Path) -> None:
    log = log_with(tmp_path, "0\n2\n0 0\n3 9\n", 0, 0)
    path = next(log.glob("*.log"))
    path.write_bytes(path.read_bytes() + b"\1" * 100)
    assert findings(log) == []


def test_the_checkpoint_is_no_file(tmp_path: Path) -> None:
    log = log_with(tmp_path, None, 0)
    (log / NAME).mkdir()
    (found,) = findings(log)
    assert (found.code, found.severity) == ("leader-epochs-damaged", ERROR)


def test_more_epochs_than_fit_one_call(tmp_path: Path) -> None:
    epochs = range(1000)
    text = "".join(f"{epoch} {epoch}\n" for epoch in epochs)
    assert findings(log_with(tmp_path, f"0\n1000\n{text}", *epochs)) == []
