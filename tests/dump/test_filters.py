"""The filters of a dump: offsets, times, keys and producers; messages where nothing matches."""

import json
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg
from dump.asked import COMPACTED, GZIP_V0, MIX_LOG, TXN, V07, offsets, records

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


@pytest.mark.parametrize("partition", [TXN, GZIP_V0, COMPACTED], ids=lambda path: path.name)
def test_offsets_are_those_in_the_range(partition: Path, kseg: Kseg) -> None:
    everything = offsets(kseg, partition)
    assert len(everything) > 30
    low, high = everything[3], everything[30]
    for wanted, first, last in (
        (f"{low}..{high}", low, high),
        (f"{low}..", low, everything[-1]),
        (f"..{high}", 0, high),
        (f"{high}", high, high),
        (f"{everything[-1] + 1}..", 1, 0),
    ):
        assert offsets(kseg, "--offsets", wanted, partition) == [o for o in everything if first <= o <= last]


def test_offsets_of_a_log_of_several_0_7_segments(kseg: Kseg) -> None:
    """Their names are byte positions, which tell nothing of the offsets that records have here: all are looked at."""
    partition = TESTDATA / "recovery/0.7.2-flip-payload/after/rec-0"
    assert len(list(partition.glob("*.kafka"))) > 1
    everything = offsets(kseg, partition)
    low, high = everything[len(everything) // 3], everything[len(everything) // 2]
    assert offsets(kseg, "--offsets", f"{low}..{high}", partition) == [n for n in everything if low <= n <= high]


@pytest.mark.parametrize("suffix", [".kafka", ".log"])
def test_the_last_batches_of_a_log_of_0_7(suffix: str, kseg: Kseg, tmp_path: Path) -> None:
    path = shutil.copy(V07 / "00000000000000000000.kafka", tmp_path / f"00000000000000000000{suffix}")
    dump = ("dump", "--format", "json", "--era", "0.7", path)
    found = [kseg(*dump, *more).of_type("batch") for more in ((), ("--last", "2"), ("--around", "60"))]
    assert found[1] == found[0][-2:]
    assert found[2] == found[0]


@pytest.mark.parametrize("options", [("--last", 5), ("--around", 230), ("--offsets", "225..")])
def test_offsets_are_not_those_of_a_metadata_snapshot(kseg: Kseg, tmp_path: Path, options: tuple[object, ...]) -> None:
    logs = Path(shutil.copytree(METADATA, tmp_path / METADATA.name))
    found = records(kseg, *options, logs)
    for snapshot in logs.glob("*.checkpoint"):
        snapshot.unlink()
    assert found
    assert found == records(kseg, *options, logs)


def test_a_snapshot_itself_has_last_records(kseg: Kseg) -> None:
    snapshot = sorted(METADATA.glob("*.checkpoint"))[-1]
    assert records(kseg, "--last", 2, snapshot) == records(kseg, snapshot)[-2:]
