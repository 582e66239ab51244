"""How many lines a recovery prints about damage that stays."""

from pathlib import Path

import pytest

from kseg.changes.plan import Plan
from kseg.recovery.broker.losses import Remaining
from kseg.recovery.broker.partition_plans import Recovery
from kseg.recovery.messages import MAX_REMAINS, RecoveryMessages


class Messages:
    def __init__(self) -> None:
        self.warnings = list[str]()

    def warning(self, message: str) -> None:
        self.warnings.append(message)

    def detail(self, message: str) -> None:
        raise AssertionError(message)


@pytest.mark.parametrize("more", [-1, 0, 1, 7])
def test_only_the_first_of_many_are_listed(more: int, tmp_path: Path) -> None:
    count, shown = MAX_REMAINS + more, Messages()
    remains = [Remaining("0.log", 10 * i, i, "count-mismatch", "has fewer records") for i in range(count)]
    found = Recovery(str(tmp_path), Plan(str(tmp_path)), 0, remains=remains, unrepaired="0.log is empty")
    RecoveryMessages(shown, suggests_replica=False).report(found)
    assert [f"position {10 * i}, offset {i}," in line for i, line in enumerate(shown.warnings[:MAX_REMAINS])] == (
        [True] * min(count, MAX_REMAINS) + [False] * (more < 0)
    )
    rest = [f"{tmp_path}: at least {more} more stay as they are"] if more > 0 else []
    assert shown.warnings[min(count, MAX_REMAINS) :] == [*rest, f"{tmp_path}: 0.log is empty"]
