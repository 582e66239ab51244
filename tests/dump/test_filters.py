"""The filters of a dump: offsets, times, keys and producers; messages where nothing matches."""

import json
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg
from dump.asked import COMPACTED, GZIP_V0, MIX, MIX_LOG, SECOND, TXN, V0, V07, offsets, records


def test_times_are_those_in_the_range(kseg: Kseg) -> None:
    everything = records(kseg, MIX)
    stamps = sorted(record["timestamp"] for record in everything)
    low, high = stamps[50], stamps[250]
    expected = [record for record in everything if low <= record["timestamp"] <= high]
    assert records(kseg, "--time", f"{low}..{high}", MIX) == expected
    assert records(kseg, "--time", f"{low}..", MIX) == [r for r in everything if r["timestamp"] >= low]
    assert records(kseg, "--time", f"..{high}", MIX) == [r for r in everything if r["timestamp"] <= high]


def test_questions_add_up(kseg: Kseg) -> None:
    everything = records(kseg, MIX)
    key = next(record["key"] for record in everything if record["key"])
    own = [record for record in everything if record["key"] == key]
    assert 0 < len(own) < len(everything)
    assert records(kseg, "--key", key, MIX) == own
    assert records(kseg, "--key", f"hex:{key.encode().hex()}", "--offsets", f"{own[-1]['offset']}..", MIX) == own[-1:]
    assert records(kseg, "--key", key, "--limit", "1", MIX) == own[:1]
    assert records(kseg, "--key", "no such key", MIX) == []


def test_batches_that_hold_nothing_are_left_out(kseg: Kseg) -> None:
    done = kseg("dump", "--key", "no such key", MIX)
    assert (done.status, [line for line in done.lines if line.startswith("base")]) == (0, [])
    assert done.err == f"kseg: nothing found in {MIX}: no record in it matches\n"
    done = kseg("dump", "--format", "json", "--key", "no such key", MIX, TXN).expect(0, out=b"")
    assert done.err == f"kseg: nothing found in 2 partitions and files, such as {MIX}: no record in it matches\n"
    key = records(kseg, MIX)[0]["key"]
    assert kseg("dump", "--key", key, TXN, MIX).err == ""


def test_a_producer_with_its_markers(kseg: Kseg) -> None:
    batches = kseg("dump", "--format", "json", TXN).of_type("batch")
    (producer_id,) = {batch["producerId"] for batch in batches[:1]}
    own = [batch for batch in batches if batch["producerId"] == producer_id]
    assert any(batch["isControl"] for batch in own)
    assert kseg("dump", "--format", "json", "--producer-id", producer_id, TXN).of_type("batch") == own


@pytest.mark.parametrize("what", [["--offsets", "100000.."], ["--offsets", "100000..100001", "--deep-iteration"]])
def test_offsets_outside_are_answered_with_those_inside(what: list[str], kseg: Kseg) -> None:
    done = kseg("dump", *what, MIX).expect(0)
    assert done.err == f"kseg: nothing found in {MIX}: its offsets are 0..399\n"


def test_times_outside_are_answered_with_those_inside(kseg: Kseg) -> None:
    for what in ("2020-01-01", "2030-01-01.."):
        kseg("dump", "--time", what, MIX).expect(0, "2026-09-21T14:13:20.000Z..2026-09-21T14:19:14.830Z")


def test_what_has_no_timestamps_has_none_to_be_found(kseg: Kseg) -> None:
    for path in (V0, V07):
        done = kseg("dump", "--time", "2020-01-01..", path).expect(0, "has no times", "batches without timestamps")
        assert not any("position" in line for line in done.lines)


def test_a_gap_is_no_error(kseg: Kseg) -> None:
    found = offsets(kseg, COMPACTED)
    gap = min(set(range(found[0], found[-1])) - set(found))
    assert offsets(kseg, "--offsets", gap, COMPACTED) == []
    done = kseg("dump", "--offsets", gap, COMPACTED)
    assert (done.status, done.err) == (0, f"kseg: nothing found in {COMPACTED}: no record in it matches\n")


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


def test_offsets_leave_out_batches_and_segments_without_them(kseg: Kseg) -> None:
    done = kseg("dump", "--offsets", "5..6", TXN)
    assert done.lines[0] == f"Dumping {SECOND}"
    assert [line.split()[1] for line in done.lines if line.startswith("baseOffset")] == ["5", "6"]


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
