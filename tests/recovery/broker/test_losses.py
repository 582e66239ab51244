"""Intact records in bytes that a recovery removes, counted as Kafka's own dump lists them."""

import gzip
import re
from itertools import pairwise
from pathlib import Path

import pytest

from kseg.recovery.broker.losses import lost_behind
from recovery.partitions import TESTDATA

DAMAGED = TESTDATA / "damaged"


def intact_behind(case: Path, log: str, position: int) -> list[int]:
    """Returns the offsets of records in intact message sets behind a position, from truth and real lengths."""
    shallow = gzip.decompress((case / "truth" / f"{log}.dump-4.3.1.shallow.txt.gz").read_bytes()).decode()
    sets = re.findall(r"^offset: (\d+) position: (\d+) .* isvalid: (true|false)", shallow, re.MULTILINE)
    found: list[int] = []
    for (before, _, _), (last, start, state) in pairwise(sets):
        if int(start) >= position and state == "true":
            found += range(int(before) + 1, int(last) + 1)
    return found


@pytest.mark.parametrize(("name", "position"), [("0.8.2.2-flip-body-dz", 8114), ("0.8.2.2-flip-body-dz", 9597)])
def test_records_of_compressed_sets_are_counted_one_by_one(name: str, position: int) -> None:
    log = next((DAMAGED / name / "dz-0").glob("*.log"))
    offsets = intact_behind(DAMAGED / name, log.name, position)
    loss = lost_behind(str(log), position)
    assert (loss.records, loss.first_offset, loss.last_offset) == (len(offsets), offsets[0], offsets[-1])
    assert loss.records > loss.batches > 0
