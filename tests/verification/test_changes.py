"""What `kseg.changes` leaves in a partition, judged: interrupted changes, and gaps that a salvage accounts for."""

import shutil
from pathlib import Path

import pytest

from kseg.changes.apply import apply
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan
from kseg.recovery.broker.start import BrokerStart
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.segment.survey import DEEP
from kseg.verification.path_check import judge_path
from kseg.verification.settings import CheckSettings
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


def test_nothing_is_missing_where_a_header_could_be_mended(tmp_path: Path) -> None:
    partition = tmp_path / "dz-0"
    shutil.copytree(DAMAGED / "1.1.1-len-small-dz" / "dz-0", partition)
    assert apply(plan_salvage(str(partition), BrokerStart()).plan, "recover --mode salvage")
    assert judged(partition).codes == []
