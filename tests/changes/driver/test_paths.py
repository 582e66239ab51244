"""Changes that an earlier command left unfinished, in a log directory and in one of its partitions."""

from pathlib import Path

import pytest

from changes.failing import QUICK
from changes.trees import make
from kseg.changes import manifest
from kseg.changes.apply import apply
from kseg.changes.driver.command import interrupted_changes
from kseg.changes.journal import DONE, UNDOING, Journal
from kseg.changes.manifest import COMMITTED
from kseg.changes.plan import Plan


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two partitions, of which each has a finished change."""
    for name in ("orders-0", "orders-1"):
        make(tmp_path / name, {"a.log": b"0123456789"})
        for size in (8, 5):
            plan = Plan(str(tmp_path / name))
            plan.truncate("a.log", size, "is cut")
            apply(plan, f"recover to {size}")
    return tmp_path


def interrupt(partition: Path, number: int) -> None:
    (path,) = partition.rglob(f"{number}/manifest.json")
    path.write_text(path.read_text().replace(f'"{manifest.DONE}"', f'"{COMMITTED}"'))


def test_interrupted_changes_of_partitions(logs: Path) -> None:
    assert interrupted_changes(str(logs), False) == []
    interrupt(logs / "orders-1", 1)
    interrupt(logs / "orders-1", 2)
    text = f"{logs / 'orders-1'}: 'recover to {{}}' was interrupted, and would be completed first"
    both = [text.format(5), text.format(8)]
    assert interrupted_changes(str(logs), False) == both
    assert interrupted_changes(str(logs / "orders-1"), True) == both
    assert interrupted_changes(str(logs / "orders-0"), True) == []


@pytest.mark.parametrize(("state", "is_interrupted"), [("", True), (UNDOING, True), (DONE, False)])
def test_an_interrupted_change_of_a_log_directory(state: str, is_interrupted: bool, logs: Path) -> None:
    journal = Journal(str(logs), 1, "retain", 1_790_000_000_000, True, {})
    journal.note(QUICK, **({"state": state} if state else {}))
    assert interrupted_changes(str(logs), False) == [f"{logs}: 'retain' was interrupted here"] * is_interrupted
    assert interrupted_changes(str(logs / "orders-0"), True) == []
