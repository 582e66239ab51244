"""Filters of ``kseg dump``: the last records, those next to an offset, patterns; topics of a log directory."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

METADATA = TESTDATA / "kafka-4.3.1/internal/__cluster_metadata-0"


def records(kseg: Kseg, path: Path, *options: object) -> list[dict[str, object]]:
    done = kseg("dump", "--print-data-log", "--format", "json", *options, path).expect(0)
    return done.of_type("record")


@pytest.mark.parametrize("options", [("--last", 5), ("--around", 230), ("--offsets", "225..")])
def test_offsets_are_not_those_of_a_metadata_snapshot(kseg: Kseg, tmp_path: Path, options: tuple[object, ...]) -> None:
    logs = Path(shutil.copytree(METADATA, tmp_path / METADATA.name))
    found = records(kseg, logs, *options)
    for snapshot in logs.glob("*.checkpoint"):
        snapshot.unlink()
    assert found
    assert found == records(kseg, logs, *options)


def test_a_snapshot_itself_has_last_records(kseg: Kseg) -> None:
    snapshot = sorted(METADATA.glob("*.checkpoint"))[-1]
    assert records(kseg, snapshot, "--last", 2) == records(kseg, snapshot)[-2:]
