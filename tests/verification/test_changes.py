"""What `kseg.changes` leaves in a partition, judged: interrupted changes, and gaps that a salvage accounts for."""

import shutil
import tarfile
from pathlib import Path

import pytest

from kseg.changes.accepted_gaps import record
from kseg.changes.apply import apply
from kseg.changes.copies import write_copy
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan
from kseg.changes.undo import last_change, purge
from kseg.recovery.options import BrokerStart
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.segment.survey import DEEP
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.verification.partition import CheckSettings
from kseg.verification.report import SHOWN_PER_FILE
from kseg.verification.run import judge_path
from verification.made import batch_of
from verification.partitions import PLAIN, Found, copied

SETTINGS = CheckSettings(DEEP, 1_800_000_000_000)
DAMAGED = Path(__file__).resolve().parents[2] / "testdata" / "damaged"


class Killed(BaseException):
    """Stands for the end of the process."""


class KilledAtUnlink(Disk):
    """The process ends where a file is to be removed."""

    def unlink(self, path: str) -> None:
        raise Killed


def judged(path: Path) -> Found:
    found = Found()
    judge_path(str(path), SETTINGS, found.report, lambda _: None)
    return found


def test_a_change_that_was_interrupted(tmp_path: Path) -> None:
    partition = copied(PLAIN, tmp_path)
    plan = Plan(str(partition))
    (partition / "superfluous.txt").write_text("x")
    plan.delete("superfluous.txt", "for a test")
    with pytest.raises(Killed):
        apply(plan, "recover", disk=KilledAtUnlink())
    assert "pending-change" in judged(partition).codes


def test_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    partition = copied(PLAIN, tmp_path)
    folder = partition / ".kseg-quarantine" / "1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(b"{")
    assert "pending-change" in judged(partition).codes


@pytest.mark.parametrize("case", ["4.3.1-last-flip-body/dplain-0", "4.3.1-last-zero-4k/dplain-0"])
def test_gaps_that_a_salvage_accounts_for(case: str, tmp_path: Path) -> None:
    partition = tmp_path / Path(case).name
    shutil.copytree(DAMAGED / case, partition)
    before = judged(partition)
    assert [finding for finding in before.findings if finding.severity == "error"]
    assert apply(plan_salvage(str(partition), BrokerStart()).plan, "recover --mode salvage")
    after = judged(partition)
    assert "gap-salvaged" in after.codes
    assert not [finding for finding in after.findings if finding.severity == "error"]


def errors(path: Path) -> list[str]:
    return [finding.message for finding in judged(path).findings if finding.severity == "error"]


def test_accepted_gaps_stay_accepted(tmp_path: Path) -> None:
    """After a purge, in a copy, moved, and in an archive; a record accepts nothing that it does not name."""
    partition = tmp_path / "dplain-0"
    shutil.copytree(DAMAGED / "4.3.1-last-flip-body" / "dplain-0", partition)
    plan = plan_salvage(str(partition), BrokerStart()).plan
    copy = Path(write_copy(plan, str(tmp_path), name="copy-0"))
    assert apply(plan, "recover --mode salvage")
    purge(last_change(str(partition)))
    for path in (partition, copy, partition.rename(tmp_path / "moved-0")):
        assert path.exists() == (path != partition)
        if path.exists():
            assert (errors(path), "gap-salvaged" in judged(path).codes) == ([], True)
    with tarfile.open(tmp_path / "moved.tar", "w") as archive:
        archive.add(tmp_path / "moved-0", "moved-0")
    with archives_at([str(tmp_path / "moved.tar")], Spool()) as (mounted,):
        assert (errors(Path(mounted)), "gap-salvaged" in judged(Path(mounted)).codes) == ([], True)
    record = copy / ".kseg-quarantine" / "accepted-gaps"
    for first, last in ((0, (1 << 63) - 1), (plan.gaps[0][0], plan.gaps[0][1] + 1)):
        record.write_text(f"0\n1\n{first} {last}\n")
        assert len(errors(copy)) == 1
    record.write_text("0\n7\n")
    assert "pending-change" in judged(copy).codes


def test_more_accepted_gaps_than_are_shown(tmp_path: Path) -> None:
    partition = tmp_path / "many-0"
    partition.mkdir()
    kept = [batch_of([offset]) for offset in range(1500) if offset % 10 < 8]
    (partition / f"{0:020}.log").write_bytes(b"".join(kept) + batch_of(range(1500, 1502)))
    gaps = [(offset, offset + 1) for offset in range(8, 1500, 10)]
    record(str(partition), gaps[:-1], Disk())
    assert judged(partition).report.totals.errors == len(gaps) - SHOWN_PER_FILE
    record(str(partition), gaps, Disk())
    assert judged(partition).report.totals.codes == {"gap-salvaged": 1}


def test_nothing_is_missing_where_a_header_could_be_mended(tmp_path: Path) -> None:
    partition = tmp_path / "dz-0"
    shutil.copytree(DAMAGED / "1.1.1-len-small-dz" / "dz-0", partition)
    assert apply(plan_salvage(str(partition), BrokerStart()).plan, "recover --mode salvage")
    assert judged(partition).codes == []
