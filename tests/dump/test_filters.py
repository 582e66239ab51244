"""The filters of a dump: offsets, times, keys and producers; messages where nothing matches."""

import json
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg
from dump.asked import MIX_LOG, V07, offsets, records

METADATA = TESTDATA / "kafka-4.3.1/internal/__cluster_metadata-0"


def test_verbose_tells_of_a_missing_index(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copy(MIX_LOG, tmp_path)
    done = kseg("dump", "-v", "--offsets", "100", tmp_path / MIX_LOG.name)
    assert "read from its start: .index: No such file or directory" in done.err
    assert any(line.startswith("baseOffset: 81 ") for line in done.lines)


def test_a_pipe_can_be_asked_too(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    with MIX_LOG.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        found = kseg("dump", "--format", "json", "--print-data-log", "--offsets", "100..101", "-").of_type("record")
    assert [record["offset"] for record in found] == [100, 101]
    assert json.dumps(found)


@pytest.mark.parametrize("suffix", [".kafka", ".log"])
def test_the_last_batches_of_a_log_of_0_7(suffix: str, kseg: Kseg, tmp_path: Path) -> None:
    path = shutil.copy(V07 / "00000000000000000000.kafka", tmp_path / f"00000000000000000000{suffix}")
    dump = ("dump", "--format", "json", "--era", "0.7", path)
    found = [kseg(*dump, *more).of_type("batch") for more in ((), ("--last", "2"), ("--around", "60"))]
    assert found[1] == found[0][-2:]
    assert found[2] == found[0]


@pytest.mark.parametrize("is_lone", [False, True])
def test_the_last_records_are_those_that_a_consumer_gets(kseg: Kseg, tmp_path: Path, is_lone: bool) -> None:
    """The last ones of all are of an open transaction."""
    partition = TESTDATA / "kafka-1.1.1/txn/txn-open-0"
    path = shutil.copy(partition / "00000000000000000000.log", tmp_path / "some.bin") if is_lone else partition
    shown = offsets(kseg, "--isolation", "read_committed", path)
    assert shown[-3:] != offsets(kseg, path)[-3:]
    assert offsets(kseg, "--isolation", "read_committed", "--last", 3, path) == shown[-3:]
    assert offsets(kseg, "--isolation", "read_committed", "--around", shown[-1], path) == shown[-11:]


def test_the_last_batches_within_the_first_bytes(kseg: Kseg) -> None:
    within = ("dump", "--format", "json", "--max-bytes", "20000", MIX_LOG)
    assert kseg(*within, "--last", 2).objects == kseg(*within).objects[-2:] != []


@pytest.mark.parametrize("options", [("--last", 5), ("--around", 230), ("--offsets", "225..")])
def test_offsets_are_not_those_of_a_metadata_snapshot(kseg: Kseg, tmp_path: Path, options: tuple[object, ...]) -> None:
    logs = Path(shutil.copytree(METADATA, tmp_path / METADATA.name))
    found = records(kseg, *options, logs)
    for snapshot in logs.glob("*.checkpoint"):
        snapshot.unlink()
    assert found
    assert found == records(kseg, *options, logs)
