"""``kseg dump`` against what Kafka says about the same segments: its dump tool, its consumers, 0.7's own iterators."""

import gc
import gzip
import re
import weakref
import zlib
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cli.command import CONSUMED, TESTDATA, Kseg, Truth, consumed_record, ids, json_lines, our_record, raw, truths
from dump.asked import MIX, MIX_LOG, TXN
from kseg.dump.options import DumpOptions, Rendered
from kseg.dump.run import Dump
from kseg.output.sink import MemorySink, open_sink
from kseg.quantities import shown_bytes
from kseg.segment.files import SegmentFile

TRUTHS = truths()
END_FIELDS = ["crc", "isValid", "problems"]


def test_the_truth_is_there() -> None:
    assert len(TRUTHS) > 140
    assert {truth.variant for truth in TRUTHS} == {"", "shallow", "skip", "decoded"}
    assert sum(truth.died for truth in TRUTHS) > 20
    assert len(CONSUMED) > 30


def test_a_run_is_freed_without_the_garbage_collector() -> None:
    """Its buffers take megabytes, and tasks of Spark make a run for each part of a segment."""
    gc.disable()
    try:
        for form in ("text", "json"):
            run = Dump(MemorySink(), DumpOptions(paths=(), form=form, jobs=1, quiet=True))
            alive = weakref.ref(run)
            del run
            assert alive() is None
    finally:
        gc.enable()


def as_we_judge(text: bytes) -> bytes:
    """Kafka's text with what the manual names as a departure: a batch of an unknown magic is not valid."""
    return re.sub(rb"(magic: (?![012] )-?[0-9]+ .*isvalid: )true$", rb"\1false", text, flags=re.MULTILINE)


@pytest.mark.parametrize("truth", TRUTHS, ids=[str(truth.path.relative_to(TESTDATA)) for truth in TRUTHS])
def test_text_is_that_of_kafkas_tool(truth: Truth, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the first damage that it stops or stumbles at; a segment that is whole has none."""
    monkeypatch.chdir(truth.folder)
    done = kseg("dump", *truth.flags, truth.segment)
    expected = as_we_judge(truth.text)
    before, damage, _ = done.out.partition(b"| damage: ")
    if damage or truth.died:
        assert truth.folder.parent.name == "damaged"
        assert done.status == 1
        common = min(len(before), len(expected))
        assert before[:common] == expected[:common]
        assert before[:common].count(b"\n") >= 3
    else:
        assert done.out == expected


@pytest.mark.sampled(5)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("consumed", CONSUMED, ids=ids(CONSUMED))
def test_json_records_are_those_a_consumer_got(consumed: Path, isolation: str, kseg: Kseg) -> None:
    partition = consumed.parent.parent.parent / consumed.parent.name
    done = kseg("dump", "--format", "json", "--print-data-log", "--isolation", isolation, partition)
    truth = consumed.with_name(f"{isolation}.jsonl.gz")
    expected = [consumed_record(record) for record in json_lines(truth if truth.exists() else consumed)]
    found = [our_record(record) for record in done.of_type("record") if "control" not in record]
    first = json_lines(consumed)[0]["offset"]
    assert [record for record in found if record[0] >= first] == expected


def shallow_07(entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in ("offset", "next_offset", "position", "magic", "crc", "valid"))


ENTRIES_07 = sorted(TESTDATA.glob("kafka-0.*/**/*.kafka.shallow.jsonl.gz"))


@pytest.mark.parametrize("entries", ENTRIES_07, ids=ids(ENTRIES_07))
def test_json_of_07_is_what_its_own_iterators_saw(entries: Path, kseg: Kseg) -> None:
    segment = entries.parent.parent.parent / entries.parent.name / entries.name.removesuffix(".shallow.jsonl.gz")
    batches = kseg("dump", "--format", "json", segment).of_type("batch")
    assert [
        tuple(batch[name] for name in ("baseOffset", "nextOffset", "position", "magic", "crc", "isValid"))
        for batch in batches
    ] == [shallow_07(entry) for entry in json_lines(entries) if "offset" in entry]
    assert {tuple(batch) for batch in batches} == {
        ("type", "file", "position", "size", "magic", "baseOffset", "nextOffset", "compression", *END_FIELDS)
    }
    records = kseg("dump", "--format", "json", "--print-data-log", segment).of_type("record")
    messages = json_lines(entries.with_name(entries.name.replace("shallow", "deep")))
    assert [(record["nextOffset"], record["isValid"], raw(record["value"])) for record in records] == [
        (message["next_offset"], message["valid"], b64decode(message["payload_b64"]))
        for message in messages
        if "payload_b64" in message
    ]


GZIP = TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0/00000000000000000000.log"


def test_several_codecs_side_by_side(kseg: Kseg) -> None:
    (found,) = kseg("stats", "--what-if", "zstd:19", "--sample", 1, "--format", "json", MIX).objects
    assert (found["whatIf"]["level"], found["whatIf"]["sampledBatches"], found["whatIf"]["isExact"]) == (19, 1, False)
    (found,) = kseg("stats", "--what-if", "zstd", "--what-if", "lz4", "--format", "json", GZIP).objects
    alone = [
        kseg("stats", "--what-if", codec, "--format", "json", GZIP).objects[0]["whatIf"] for codec in ("zstd", "lz4")
    ]
    assert found["whatIf"] == found["whatIfs"][0]
    assert [each["bytesAfter"] for each in found["whatIfs"]] == [each["bytesAfter"] for each in alone]
    text = kseg("stats", "--what-if", "zstd", "--what-if", "lz4", GZIP).lines
    assert [line.split()[0] for line in text[-2:]] == ["zstd:3", "lz4:9"]
    assert all(line.endswith(" MB/s") for line in text[-2:])


def test_several_partitions_have_a_total(kseg: Kseg) -> None:
    found = [each["whatIf"] for each in kseg("stats", "--what-if", "zstd", "--format", "json", GZIP, MIX).objects]
    saved, before = (sum(each[name] for each in found) for name in ("bytesSaved", "bytesBefore"))
    assert len(found) == 2
    assert saved > 0
    line = kseg("stats", "--what-if", "zstd", GZIP, MIX).lines[-1]
    assert line == f"In all 2: zstd:3 would save {shown_bytes(saved)} ({saved / before:.1%})"


SANITY = sorted(TESTDATA.glob("kafka-*/*/truth/*/side-files.sanity.txt.gz"))


@pytest.mark.parametrize("truth", SANITY, ids=[path.parent.name for path in SANITY])
def test_a_sanity_check_says_what_kafkas_says(truth: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(truth.parent.parent.parent)
    want = gzip.decompress(truth.read_bytes())
    names = [line.removeprefix("Dumping ") for line in want.decode().splitlines() if line.startswith("Dumping ")]
    assert names
    done = kseg("dump", "--index-sanity-check", *names)
    assert (done.status, done.out, done.err) == (0, want, "")


LOGS = sorted(TXN.glob("*.log"))


class Elsewhere:
    """Renders the first segment of ``files`` as two parts, and leaves the others to the caller."""

    def __init__(self, files: Iterable[tuple[SegmentFile, bool]], parts: list[Rendered]) -> None:
        self.files, self._parts = list(files), parts

    def __call__(self, file: SegmentFile) -> list[Rendered] | None:
        return self._parts if file == self.files[0][0] else None


def dumped(target: Path, parts: list[Rendered]) -> tuple[str, int, list[Elsewhere]]:
    """The text of a dump of a partition, its exit status, and the renderers that it made."""
    made: list[Elsewhere] = []

    def make(files: Iterable[tuple[SegmentFile, bool]]) -> Elsewhere:
        made.append(Elsewhere(files, parts))
        return made[-1]

    with open_sink(str(target)) as sink:
        status = Dump(sink, DumpOptions([str(TXN)], live=True), make).run()
    return target.read_text(), status, made


def part(text: str, **counts: int | str) -> Rendered:
    return Rendered(zlib.compress(text.encode()), **counts)  # type: ignore[arg-type]


def test_parts_take_the_place_of_a_segment_in_order(tmp_path: Path) -> None:
    text, status, made = dumped(tmp_path / "out", [part("one\n", batches=1), part("two\n", batches=2, end=9)])
    lines = text.splitlines()
    assert lines[0] == f"Dumping {LOGS[0]}"
    assert lines[2:4] == ["one", "two"]
    assert lines.index(f"Dumping {LOGS[1]}") > lines.index("two")
    assert status == 0
    assert [file.path for file, _ in made[0].files] == [str(path) for path in LOGS]
    assert [is_live for _, is_live in made[0].files] == [path == LOGS[-1] for path in LOGS]


def test_damage_in_a_part_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [part("one\n", errors=3, damaged_ranges=2, damaged_bytes=30), part("two\n", shrank="x: the file shrank")]
    _, status, _ = dumped(tmp_path / "out", parts)
    assert status == 1
    told = capsys.readouterr().err
    assert "x: the file shrank" in told
    assert "damaged ranges: 2, bytes in them: 30, problems with batches: 1" in told


def test_the_hex_view_of_damage_at_the_start_of_a_file(kseg: Kseg, tmp_path: Path) -> None:
    """The bytes are those of the file itself, not of the one before it."""
    path = tmp_path / f"{240:020}.log"
    path.write_bytes(b"\x11" * 40)
    before, behind = kseg("dump", "--hex", MIX_LOG, path).out.decode().split(path.name, 1)
    assert ("11111111 11111111" in before, "11111111 11111111" in behind) == (False, True)
