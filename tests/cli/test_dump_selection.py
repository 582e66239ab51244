"""What ``kseg dump`` shows of a segment: offsets, limit, isolation, max-bytes, live, stop-on-damage, era."""

import shutil
from pathlib import Path

import pytest

from cli.command import CONSUMED, TESTDATA, Kseg, consumed_record, ids, json_lines, our_record

TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
SECOND = TXN / "00000000000000000005.log"
GZIP_V0 = TESTDATA / "kafka-0.8.2.2/codecs/one-gzip-0"
COMPACTED = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
ZERO_LENGTH = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0/00000000000000000116.log"
HALF_BATCH = TESTDATA / "damaged/4.3.1-last-trunc-half-batch/dplain-0/00000000000000000116.log"


def offsets(kseg: Kseg, *arguments: object) -> list[int]:
    """Offsets of the records that are shown."""
    done = kseg("dump", "--format", "json", "--deep-iteration", *arguments)
    return [record["offset"] for record in done.of_type("record")]


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


@pytest.mark.parametrize("value", ["3..1", "..", "", "a..b", "-5..7", "1..2..3", "²", "99999999999999999999.."])
def test_ranges_without_an_offset_are_wrong_usage(value: str, kseg: Kseg) -> None:
    done = kseg("dump", f"--offsets={value}", TXN)
    assert (done.status, done.out) == (2, b"")
    assert "--offsets" in done.err


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, 20, 10_000])
def test_limit_counts_records(count: int, kseg: Kseg) -> None:
    everything = offsets(kseg, TXN)
    assert offsets(kseg, "--limit", count, TXN) == everything[:count]
    text = kseg("dump", "--print-data-log", "--limit", count, TXN).lines
    assert sum(line.startswith("| offset: ") for line in text) == min(count, len(everything))


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_limit_counts_batches_when_shallow(count: int, kseg: Kseg) -> None:
    assert len(kseg("dump", "--format", "json", "--limit", count, TXN).objects) == count


def test_nothing_is_opened_once_the_limit_is_reached(kseg: Kseg) -> None:
    done = kseg("dump", "--limit", "1", TXN, "no-such-file")
    assert (done.status, done.err) == (0, "")
    assert sum(line.startswith("Dumping") for line in done.lines) == 1


@pytest.mark.parametrize("consumed", CONSUMED, ids=ids(CONSUMED))
def test_read_committed_is_what_such_a_consumer_got(consumed: Path, kseg: Kseg) -> None:
    partition = consumed.parent.parent.parent / consumed.parent.name
    committed = consumed.with_name("read_committed.jsonl.gz")
    expected = [consumed_record(record) for record in json_lines(committed if committed.exists() else consumed)]
    begin = json_lines(consumed)[0]["offset"]
    done = kseg("dump", "--format", "json", "--print-data-log", "--isolation", "read_committed", partition)
    found = [our_record(record) for record in done.of_type("record") if "control" not in record]
    assert [record for record in found if record[0] >= begin] == expected


def test_read_committed_of_one_segment_knows_its_neighbours(kseg: Kseg) -> None:
    whole = offsets(kseg, "--isolation", "read_committed", COMPACTED)
    parts: list[int] = []
    for segment in sorted(COMPACTED.glob("*.log")):
        parts += offsets(kseg, "--isolation", "read_committed", segment)
    assert parts == whole


def test_read_committed_of_a_segment_behind_the_last_stable_offset_is_empty(tmp_path: Path, kseg: Kseg) -> None:
    """The open transaction began in an earlier segment."""
    source = TESTDATA / "kafka-1.1.1/txn/txn-open-0/00000000000000000000.log"
    data = source.read_bytes()
    batches = kseg("dump", "--format", "json", source).objects
    shown = offsets(kseg, "--isolation", "read_committed", source)
    last = next(batch for batch in batches if batch["baseOffset"] > shown[-1])
    cut = last["position"] + last["size"]
    later = next(batch for batch in batches if batch["position"] == cut)
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / source.name).write_bytes(data[:cut])
    second = folder / f"{later['baseOffset']:020}.log"
    second.write_bytes(data[cut:])
    assert offsets(kseg, second) != []
    assert offsets(kseg, "--isolation", "read_committed", second) == []


def test_max_bytes_shows_whole_batches_only(kseg: Kseg) -> None:
    first = kseg("dump", "--format", "json", SECOND).objects[0]["size"]
    for most, count in ((0, 0), (first - 1, 0), (first, 1), (first + 1, 1)):
        done = kseg("dump", "--format", "json", "--max-bytes", most, SECOND)
        assert (done.status, len(done.objects)) == (0, count)
    assert kseg("dump", "--max-bytes", "1K", SECOND).out == kseg("dump", "--max-bytes", 1024, SECOND).out


@pytest.mark.parametrize("value", ["-1", "1X", "K", "", "²", "1.5", "0x10"])
def test_what_is_no_number_of_bytes_is_wrong_usage(value: str, kseg: Kseg) -> None:
    for option in ("--max-bytes", "--max-batch-bytes"):
        assert kseg("dump", f"{option}={value}", SECOND).status == 2


def test_a_batch_above_max_batch_bytes_is_told_and_passed_over(kseg: Kseg) -> None:
    done = kseg("dump", "--format", "json", "--print-data-log", "--max-batch-bytes", "10", GZIP_V0)
    assert done.status == 1
    assert {tuple(batch["problems"]) for batch in done.of_type("batch")} == {("decompression-limit",)}
    assert done.of_type("record") == []


def test_live_takes_a_partial_batch_at_the_end_for_one_being_written(kseg: Kseg) -> None:
    assert kseg("dump", HALF_BATCH).status == 1
    done = kseg("dump", "--live", HALF_BATCH)
    assert (done.status, done.err) == (0, "")
    assert b"invalid bytes" not in done.out


def test_live_is_about_the_last_segment_of_a_directory(tmp_path: Path, kseg: Kseg) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    shutil.copy(HALF_BATCH, folder)
    last = folder / "00000000000000000150.log"
    shutil.copy(HALF_BATCH, last)
    done = kseg("dump", "--live", "--format", "json", folder)
    assert done.status == 1
    assert [damage["file"] for damage in done.of_type("damage")] == [str(folder / HALF_BATCH.name)]


def test_live_hides_no_damage_in_the_middle(kseg: Kseg) -> None:
    assert kseg("dump", "--live", ZERO_LENGTH).status == 1


@pytest.mark.parametrize("flags", [[], ["--print-data-log"], ["--format", "json"]], ids=lambda flags: " ".join(flags))
def test_stop_on_damage_ends_with_it(flags: list[str], kseg: Kseg) -> None:
    whole, stopped = (kseg("dump", *flags, *more, ZERO_LENGTH, TXN) for more in ([], ["--stop-on-damage"]))
    assert stopped.status == whole.status == 1
    assert whole.out.startswith(stopped.out)
    assert "bad-length" in stopped.lines[-1]


def test_stop_on_damage_ends_behind_a_batch_with_a_wrong_checksum(kseg: Kseg) -> None:
    done = kseg("dump", "--stop-on-damage", TESTDATA / "damaged/4.3.1-last-flip-crc/dplain-0")
    assert done.status == 1
    assert [line.endswith("isvalid: false") for line in done.lines[2:]] == [False, False, False, True]


def test_era_reads_a_file_of_any_name(tmp_path: Path, kseg: Kseg) -> None:
    source = next((TESTDATA / "kafka-0.7.2/direct/nested-0").glob("*.kafka"))
    odd = tmp_path / "saved"
    shutil.copy(source, odd)
    assert kseg("dump", "--era", "0.7", "--print-data-log", odd).lines[1:] == (
        [line for line in kseg("dump", "--print-data-log", source).lines[1:] if not line.startswith("Log starting")]
    )
    assert kseg("dump", "--era", "0.8", odd).status == 2


def test_offsets_of_a_log_of_several_0_7_segments(kseg: Kseg) -> None:
    """Their names are byte positions, which tell nothing of the offsets that records have here: all are looked at."""
    partition = TESTDATA / "recovery/0.7.2-flip-payload/after/rec-0"
    assert len(list(partition.glob("*.kafka"))) > 1
    everything = offsets(kseg, partition)
    low, high = everything[len(everything) // 3], everything[len(everything) // 2]
    assert offsets(kseg, "--offsets", f"{low}..{high}", partition) == [n for n in everything if low <= n <= high]
