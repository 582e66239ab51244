"""Whatever was done to a partition, what is dug out of it are records in broken batches, and lines of JSON."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from kseg.dump.unproven_records import UnprovenRecords
from kseg.formats.rows import Scratch
from kseg.output.sink import open_sink
from kseg.recovery.salvage.segment_sources import broken_batches, files_of
from recovery.damages import Damage, read, write
from recovery.salvage.test_salvage import DAMAGES, PARTITIONS, copied


def dig(directory: Path, target: Path) -> int:
    """The records of all broken batches, counted as they are written."""
    scratch, batches = Scratch(), 0
    with open_sink(str(target)) as sink:
        records = UnprovenRecords(sink, scratch)
        for file in files_of(str(directory)):
            records.begin(file)
            for batch in broken_batches(file, scratch):
                assert not batch.is_valid
                batches += 1
                records.batch(batch)
            records.finish()
    rows = [json.loads(line) for line in target.read_bytes().splitlines()]
    assert records.count == len(rows)
    assert all(row["type"] == "record" and row["proven"] is False for row in rows)
    return batches


@pytest.mark.parametrize("name", PARTITIONS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damages=DAMAGES)
def test_any_damage(name: str, damages: list[Damage]) -> None:
    with copied(PARTITIONS[name]) as directory:
        segments = read(directory)
        for damage in damages:
            damage.do(segments)
        write(directory, segments)
        dig(directory, directory.parent / "records.jsonl")


@pytest.mark.parametrize("name", PARTITIONS)
def test_an_intact_partition_has_none(name: str, tmp_path: Path) -> None:
    assert dig(PARTITIONS[name], tmp_path / "records.jsonl") == 0
