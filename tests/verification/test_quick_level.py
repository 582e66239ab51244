"""Level quick believes checksums, and must not find what the other levels do not."""

from pathlib import Path

import pytest

from kseg.segment.survey import FULL, QUICK
from verification.log_directories import TESTDATA, check

HEALTHY = sorted(
    {path.parent for suffix in (".log", ".kafka") for path in TESTDATA.glob(f"kafka-*/*/*-*/*{suffix}")},
)


@pytest.mark.parametrize("folder", HEALTHY, ids=[f"{path.parent.parent.name}/{path.name}" for path in HEALTHY])
def test_what_is_healthy_is_so_at_level_quick(folder: Path) -> None:
    assert set(check(folder, QUICK).serious) <= set(check(folder, FULL).serious)
