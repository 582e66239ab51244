"""A real broker and kseg keep each other out of a log directory, and what kseg leaves there stops no broker."""

from pathlib import Path

import pytest

from broker.client import Client
from broker.nodes import KraftNode
from kseg.changes.apply import apply
from kseg.changes.journal import LogDirectoryChange
from kseg.changes.lock import locked
from kseg.changes.plan import Plan
from kseg.cli.main import run

pytestmark = pytest.mark.broker


def status_of(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def leave_traces(logs: Path) -> None:
    """What kseg keeps of changes, of a partition and of the log directory."""
    partition = logs / "__cluster_metadata-0"
    partition.mkdir(exist_ok=True)  # since 4.4 formatting makes it, with the bootstrap snapshot
    (partition / "notes").write_bytes(b"goes")
    change = LogDirectoryChange(str(logs), "test")
    plan = Plan(str(partition))
    plan.delete("notes", "goes")
    change.apply(plan)
    change.finish()
    (partition / "more").write_bytes(b"goes too")
    plan = Plan(str(partition))
    plan.delete("more", "goes")
    apply(plan, "test")


@pytest.mark.slow
def test_broker_and_kseg_keep_each_other_out(client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with KraftNode(tmp_path / "node", client) as node:
        leave_traces(node.logs)
        with locked(str(node.logs)):
            assert "Failed to acquire lock on file .lock" in node.start_in_vain()
        node.start()
        assert " ERROR " not in node.words()
        capfd.readouterr()
        for path in (node.logs, node.logs / "__cluster_metadata-0"):
            for arguments in (["undo"], ["undo", "--purge"]):
                assert status_of(*arguments, path) == 3
                assert "a running broker, or another kseg, holds the log directory" in capfd.readouterr().err
        kept = sorted(path.name for path in (node.logs / "__cluster_metadata-0" / ".kseg-quarantine").iterdir())
    assert kept == ["1", "2"]
    assert status_of("undo", node.logs) == 3  # the partition's own change came later
    assert status_of("undo", node.logs / "__cluster_metadata-0") == 0
    assert (node.logs / "__cluster_metadata-0" / "more").read_bytes() == b"goes too"
    assert status_of("undo", node.logs) == 0
    assert list(node.logs.rglob("*.kseg*")) == []
