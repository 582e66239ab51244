"""Filters of ``kseg dump``: the last records, those next to an offset, patterns; topics of a log directory."""

import re
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

COMPACTED = TESTDATA / "log-directories/4.3.1-rounds/kill"
PARTITIONS = sorted(path for path in COMPACTED.glob("*-0") if path.is_dir())
CODECS = next(path for path in sorted((TESTDATA / "kafka-4.3.1/codecs").glob("*-0")) if any(path.glob("*.log")))
METADATA = TESTDATA / "kafka-4.3.1/internal/__cluster_metadata-0"


def records(kseg: Kseg, path: Path, *options: object) -> list[dict[str, object]]:
    done = kseg("dump", "--print-data-log", "--format", "json", *options, path).expect(0)
    return done.of_type("record")


def test_the_last_that_match(kseg: Kseg) -> None:
    everything = records(kseg, CODECS)
    keys = [row["key"] for row in everything if isinstance(row["key"], str) and row["key"]]
    found = [row for row in everything if row["key"] == keys[0]]
    assert records(kseg, CODECS, "--last", 1, "--key", keys[0]) == found[-1:]


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


def test_patterns_of_keys_and_values(kseg: Kseg) -> None:
    everything = records(kseg, CODECS)
    for option, part in (("--key-pattern", "key"), ("--grep", "value")):
        pattern = "[0-4][0-9]*[13579]"
        expected = [row for row in everything if isinstance(row[part], str) and re.search(pattern, row[part])]
        found = [row for row in records(kseg, CODECS, option, pattern) if isinstance(row[part], str)]
        assert found == expected
        assert expected


@pytest.mark.parametrize("command", [("dump", "--format", "json"), ("verify", "--format", "json"), ("reindex", "-n")])
def test_topics_of_a_log_directory(kseg: Kseg, command: tuple[str, ...]) -> None:
    names = {path.name.rpartition("-")[0] for path in PARTITIONS}
    topic = sorted(name for name in names if not name.startswith("__"))[0]
    done = kseg(*command, "--topic", topic, COMPACTED)
    others = {name for name in names if name != topic and f"/{name}-" in done.out.decode()}
    assert others == set()
    assert f"/{topic}-" in done.out.decode() or command[0] == "verify"
    assert done.status in (0, 1)
