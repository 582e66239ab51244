"""``kseg convert`` from the command line: segments to segments, in place and elsewhere."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from changes.failing import CountingDisk, KillingDisk
from cli.command import FLIPPED, LOGS, PLAIN, TESTDATA, Kseg, files, json_lines, our_record, spawned, unchanged
from cli.dying import on
from conversion.conversions import files as files_of_kind
from conversion.conversions import records_of
from kseg.formats.record_batch import build_batch
from kseg.segment.files import LAST_OFFSET

TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"

# ``kseg convert`` to JSON Lines, CSV, Parquet and Arrow, and from JSON Lines.

OLD = TESTDATA / "kafka-0.8.2.2/codecs/one-none-0"
SOURCES = [
    PLAIN, TXN, OLD, TESTDATA / "kafka-0.10.2.2/codecs/rec-uncompressed-0", TESTDATA / "kafka-4.3.1/codecs/codec-mix-0",
    TESTDATA / "kafka-4.3.1/compacted/e-txn-0", TESTDATA / "kafka-1.1.1/format-switch/sw-lz4-0",
    TESTDATA / "kafka-0.11.0.3/txn/lat-gzip-0", TESTDATA / "verify/4.3.1-transactions/dtxn-0",
    TESTDATA / "compaction/4.3.1/after/e-idem-0", TESTDATA / "compaction/4.3.1/after/e-lz4-0",
]  # fmt: skip
SAME_BYTES = [PLAIN, TXN, OLD, SOURCES[3], SOURCES[5], SOURCES[8], SOURCES[9]]
"""Those of codec none; of LogAppendTime, what the producer said is not in a dump."""


def imported(kseg: Kseg, tmp_path: Path, lines: list[Any], *options: str) -> Path:
    tmp_path.mkdir(exist_ok=True)
    source = tmp_path / "lines.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    kseg("convert", "--from", "jsonl", *options, "--output", tmp_path / "new", source).expect(0)
    (made,) = (path for path in (tmp_path / "new").iterdir() if path.is_dir())
    return made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_out_and_in_again_are_the_same_records(kseg: Kseg, tmp_path: Path, source: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    assert kseg("convert", "--to", "jsonl", "--output", lines, source).status == 0
    assert lines.read_bytes() == kseg("dump", "--print-data-log", "--format", "json", source).out
    asked = ("--from", "jsonl", "--index-interval-bytes", "1024", "--output", tmp_path / "new")
    assert kseg("convert", *asked, lines).status == 0
    made = tmp_path / "new" / source.name
    assert [path.name for path in (tmp_path / "new").iterdir() if path.is_dir()] == [source.name]
    assert dumped(kseg, made) == dumped(kseg, source)
    assert kseg("verify", "--level", "deep", made).status == kseg("verify", "--level", "deep", source).status
    if source in SAME_BYTES:
        assert files_of_kind(made, ".log") == {
            name: data for name, data in files_of_kind(source, ".log").items() if data
        }
    if source == PLAIN:
        kinds = (".index", ".timeindex", ".snapshot")
        assert files_of_kind(made, *kinds) == files_of_kind(source, *kinds)


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("name", ["rec-gzip-0", "rec-uncompressed-0"])
def test_messages_come_in_with_another_codec(kseg: Kseg, tmp_path: Path, name: str, codec: str) -> None:
    """Those of a compressed message of v1 have relative offsets, others do not."""
    source, lines = TESTDATA / "kafka-0.10.2.2/codecs" / name, tmp_path / "lines"
    kseg("convert", "--to", "jsonl", "--output", lines, source).expect(0)
    kseg("convert", "--from", "jsonl", "--codec", codec, "--output", tmp_path / "new", lines).expect(0)
    made = tmp_path / "new" / name
    assert records_of(made) == records_of(source)
    kseg("verify", "--level", "deep", made).expect(0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "source", ["kafka-4.3.1/internal", "kafka-4.4.0/internal", "log-directories/4.4.0/logs", "kafka-1.1.1/txn"]
)
def test_a_log_directory_out_and_in_again(kseg: Kseg, tmp_path: Path, source: str) -> None:
    """Snapshots of the cluster metadata are no part of its log. A directory that a broker has moved has to be named."""
    moved = f"moved-0.{'0' * 32}-stray"
    logs = Path(shutil.copytree(TESTDATA / source, tmp_path / "logs"))
    for name in ("moved-0", moved):
        shutil.copytree(PLAIN, logs / name)
    out = kseg("convert", "--to", "jsonl", "--output", tmp_path / "lines", logs, logs / moved).expect(0)
    assert "not read" not in out.err
    kseg("convert", "--from", "jsonl", "--output", tmp_path / "new", tmp_path / "lines").expect(0)
    kseg("convert", "--from", "jsonl", "--dry-run", "--output", tmp_path / "none", tmp_path / "lines").expect(1)
    assert not (tmp_path / "none").exists()
    assert files_of_kind(tmp_path / "new" / moved, ".log") == files_of_kind(PLAIN, ".log")
    for path in filter(Path.is_dir, logs.iterdir()):
        made = tmp_path / "new" / path.name
        if path.name != "truth":
            assert files_of_kind(made, ".checkpoint") == files_of_kind(path, ".checkpoint")
            assert dumped(kseg, made) == dumped(kseg, path)


def test_records_of_a_metadata_snapshot_keep_their_headers(kseg: Kseg, tmp_path: Path) -> None:
    source = TESTDATA / "metadata/4.4.0-all-types/__cluster_metadata-0"
    rows = kseg("dump", "--print-data-log", "--format", "json", source).objects
    changed = [row for row in rows if row["type"] == "record" and row["file"].endswith(".checkpoint")]
    changed = [row for row in changed if not row.get("isControl")][:2]
    for row in changed:
        row["headers"] = [{"key": "a", "value": "1"}, {"key": "b", "value": None}]
    made = imported(kseg, tmp_path, rows)
    again = kseg("dump", "--print-data-log", "--format", "json", made).of_type("record")
    found = [row for row in again if row["headers"]]
    assert [(Path(row["file"]).name, row["offset"], row["value"], row["headers"]) for row in found] == [
        (Path(row["file"]).name, row["offset"], row["value"], row["headers"]) for row in changed
    ]
    assert len(found) == 2


def test_bare_objects_become_a_partition(kseg: Kseg, tmp_path: Path) -> None:
    lines = [
        {"key": "a", "value": "é", "timestamp": 1700000000000},
        {"value": {"base64": "/w=="}, "headers": [{"key": "h", "value": None}, {"key": "h", "value": "2"}]},
        {"key": None, "value": {"count": 1, "names": ["x"]}, "headers": {"source": "test"}},
        {},
        {"offset": 10, "value": 5},
    ]
    made = imported(kseg, tmp_path, lines)
    assert made.name == "records-0"
    rows = kseg("dump", "--print-data-log", "--format", "json", made).of_type("record")
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 10]
    assert [row["timestamp"] for row in rows] == [1700000000000, -1, -1, -1, -1]
    assert [row["key"] for row in rows] == ["a", None, None, None, None]
    assert [row["value"] for row in rows] == ["é", {"base64": "/w=="}, '{"count":1,"names":["x"]}', None, "5"]
    assert rows[1]["headers"] == lines[1]["headers"]
    assert rows[2]["headers"] == [{"key": "source", "value": "test"}]
    assert (made / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


@pytest.mark.parametrize("options", [("--codec", "zstd"), ("--to", "v1", "--codec", "gzip"), ("--to", "v0",),
                                     ("--batch-bytes", "300", "--segment-bytes", "2000")])  # fmt: skip
def test_bare_objects_in_any_format(kseg: Kseg, tmp_path: Path, options: tuple[str, ...]) -> None:
    lines = [{"key": f"k{n}", "value": "v" * n, "topic": "made", "partition": 7} for n in range(100)]
    made = imported(kseg, tmp_path, lines, "--base-offset", "1000", *options)
    assert made.name == "made-7"
    rows = kseg("dump", "--print-data-log", "--format", "json", made).of_type("record")
    assert [row["offset"] for row in rows] == list(range(1000, 1100))
    assert [row["value"] for row in rows] == [line["value"] for line in lines]
    assert kseg("verify", "--level", "deep", made).status == 0
    if "--segment-bytes" in options:
        assert all(path.stat().st_size <= 2000 for path in made.glob("*.log"))
        assert len(list(made.glob("*.log"))) > 1


def test_records_of_several_partitions_from_standard_input(kseg: Kseg, tmp_path: Path) -> None:
    lines = [{"topic": "t", "partition": n % 3, "value": str(n)} for n in range(30)]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    spawned("convert", "-q", "--from", "jsonl", "-o", tmp_path / "new", "-", input=text, check=True)
    for partition in range(3):
        rows = kseg("dump", "--print-data-log", "--format", "json", tmp_path / "new" / f"t-{partition}")
        assert [row["value"] for row in rows.of_type("record")] == [str(n) for n in range(partition, 30, 3)]


@pytest.mark.parametrize(
    "line, told",
    [
        ("nonsense", "is no JSON"),
        ("[1]", "is no JSON object"),
        ('{"offset": -1}', "has -1 for offset"),
        ('{"timestamp": 1.5}', "has 1.5 for timestamp"),
        ('{"value": {"base64": "%"}}', "stands for no bytes"),
        ('{"headers": 3}', "headers that are no list"),
        ('{"headers": [1]}', 'is not {"key"'),
        ('{"type": "record", "offset": 3, "position": 0}', "--print-data-log"),
        ('{"type": "record", "offset": 3, "position": 0, "value": {"a": 1}}', "it was decoded"),
        ('{"type": "leaderEpoch"}', "only batches and records"),
        ('{"type": "batch", "magic": 9}', "names no format"),
        ('{"type": "batch", "magic": 2, "compression": "none", "baseOffset": 9, "lastOffset": 3}', "in reach"),
        ('{"topic": "a/../../b", "partition": 1}', "no directory"),
        ('{"topic": "", "partition": 1}', "no directory"),
        ('{"topic": "a\\nb", "partition": 1}', "no directory"),
        ('{"topic": "a"}', "has no partition"),
        ('{"ky": "k"}', "the field 'ky', which no record has: is 'key' meant?"),
        ('{"keySiz": 3}', "is 'keySize' meant?"),
        ('{"headers": [{"key": "a", "vale": "b"}]}', "the field 'vale', which no header has"),
        ('{"timestampType": "logAppendTime"}', "CreateTime or LogAppendTime"),
        ('{"type": "batch", "magic": 2, "compresion": "none"}', "is 'compression' meant?"),
        ('{"offset": 0}', "offset 0 comes behind offset 0"),
        ('{"value": "\\ud800"}', "stands for no bytes"),
        ("[" * 100000, "is no JSON"),
    ],
)
def test_an_unreadable_line_is_named_and_nothing_written(kseg: Kseg, tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "lines").write_text('{"value": "good"}\n' + line + "\n", "utf-8")
    done = kseg("convert", "--from", "jsonl", "-o", tmp_path / "new", tmp_path / "lines")
    assert (done.status, (tmp_path / "new").exists()) == (3, False)
    assert "line 2" in done.err
    assert told in done.err


def test_after_the_last_offset_there_is_none(kseg: Kseg, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("{}\n")
    options = ("--from", "jsonl", "--base-offset", str(LAST_OFFSET))
    kseg("convert", *options, "-o", tmp_path / "last", tmp_path / "lines").expect(0)
    kseg("verify", tmp_path / "last").expect(0)
    done = kseg("convert", *options, "-o", tmp_path / "new", *[tmp_path / "lines"] * 2)
    done.expect(3, f"line 1: records-0: there is no offset after {LAST_OFFSET}; nothing was written")


def test_empty_batches_are_of_the_partition_of_their_folder(kseg: Kseg, tmp_path: Path) -> None:
    """Their lines say nothing of topic and partition, and may come before all others of their file."""
    source = TESTDATA / "compaction/4.3.1/after/e-idem-0"
    rows = kseg("dump", "--print-data-log", "--format", "json", source).objects
    assert rows[0]["count"] == 0
    renamed = [row | {"topic": "copy", "partition": 7} if row["type"] == "record" else row for row in rows]
    made = imported(kseg, tmp_path, renamed)
    assert made.name == "copy-7"
    assert dumped(kseg, made) == dumped(kseg, source)
    empty = [row for row in rows if row.get("count") == 0]
    assert imported(kseg, tmp_path / "again", empty).name == "e-idem-0"


@pytest.mark.parametrize("content", [b"", b"nonsense" * 9])
def test_a_file_without_a_number_and_records_is_left_out(kseg: Kseg, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "segment.log").write_bytes(content)
    words = ("--codec", "zstd", "--skip-damage", "--output", tmp_path / "new", tmp_path / "segment.log")
    kseg("convert", *words).expect(0, "segment.log: no record is in the file: left out")
    assert not list((tmp_path / "new").glob("*-0"))


def test_a_batch_of_no_known_format_is_skipped(kseg: Kseg, tmp_path: Path) -> None:
    lines, damaged = tmp_path / "lines", TESTDATA / "damaged/4.3.1-last-magic-1/dplain-0"
    kseg("convert", "--to", "jsonl", "--skip-damage", "--output", lines, damaged).expect(0)
    kseg("convert", "--from", "jsonl", "--output", tmp_path / "new", lines).expect(3)
    kseg("convert", "--from", "jsonl", "--skip-damage", "--output", tmp_path / "new", lines).expect(0)
    assert dumped(kseg, tmp_path / "new" / "dplain-0") == dumped(kseg, damaged)


@pytest.mark.parametrize("words", [("--to", "v1"), ("--batch-bytes", 1000)])
def test_batches_that_are_read_stay_as_they_are(kseg: Kseg, tmp_path: Path, words: tuple[object, ...]) -> None:
    kseg("convert", "--to", "jsonl", "-o", tmp_path / "lines", TXN).expect(0)
    done = kseg("convert", "--from", "jsonl", *words, "-o", tmp_path / "new", tmp_path / "lines")
    done.expect(3, "batches keep their format and size when they are read: convert the result; nothing was written")


def test_headers_that_an_old_format_lacks_are_refused(kseg: Kseg, tmp_path: Path) -> None:
    rows = kseg("dump", "--print-data-log", "--format", "json", SOURCES[3]).objects
    next(row for row in rows if row["type"] == "record")["headers"] = [{"key": "h", "value": "1"}]
    (tmp_path / "lines").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    asked = ("convert", "--from", "jsonl", "-o", tmp_path / "new", tmp_path / "lines")
    kseg(*asked).expect(3, "v1 has no headers; --lossy")
    kseg(*asked, "--lossy").expect(0)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_damage_is_refused_or_skipped(kseg: Kseg, tmp_path: Path, form: str) -> None:
    refused = kseg("convert", "--to", form, "-o", tmp_path / "out", FLIPPED)
    assert (refused.status, (tmp_path / "out").exists()) == (3, False)
    assert kseg("convert", "--to", form, "--skip-damage", "-o", tmp_path / "out", FLIPPED).status == 0
    if form == "jsonl":
        again = ("convert", "--from", "jsonl", "-o", tmp_path / "new")
        assert kseg(*again, tmp_path / "out").status == 3
        assert not (tmp_path / "new").exists()
        assert kseg(*again, "--skip-damage", tmp_path / "out").status == 0
        assert kseg("verify", tmp_path / "new" / "dplain-0").status in (0, 1)


@pytest.mark.parametrize("codec", ["none", "zstd:5", "gzip", "lz4", "snappy"])
def test_tables_with_a_codec(kseg: Kseg, tmp_path: Path, codec: str) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    assert kseg("convert", "--to", "parquet", "--codec", codec, "-o", tmp_path / "out", TXN).status == 0
    wanted = {"none": "UNCOMPRESSED", "zstd:5": "ZSTD"}.get(codec, codec.upper())
    assert pq.ParquetFile(tmp_path / "out").metadata.row_group(0).column(0).compression == wanted
    refused = kseg("convert", "--to", "arrow", "--codec", "gzip", "-o", tmp_path / "out2", TXN)
    assert (refused.status, (tmp_path / "out2").exists()) == (3, False)


def test_only_what_was_committed_goes_out(kseg: Kseg) -> None:
    rows = kseg("convert", "--to", "jsonl", "--isolation", "read_committed", TXN).of_type("record")
    want = json_lines(TXN.parent / "truth" / TXN.name / "read_committed.jsonl.gz")
    assert [row["offset"] for row in rows if "control" not in row] == [record["offset"] for record in want]


REGROUPED = [TESTDATA / "compaction/4.3.1/before/e-idem-0", TESTDATA / "verify/4.3.1-transactions/dtxn-0"]
V07 = TESTDATA / "kafka-0.7.2/direct/codecs-0"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A log directory with one partition."""
    return Path(shutil.copytree(LOGS, tmp_path / "logs")) / "dplain-0"


def dumped(kseg: Kseg, path: Path) -> list[tuple[object, ...]]:
    rows = kseg("dump", "--print-data-log", "--format", "json", path).of_type("record")
    return [(*our_record(row), row.get("control")) for row in rows]


def test_in_place_and_back(kseg: Kseg, partition: Path) -> None:
    before, records = files(partition.parent), dumped(kseg, partition)
    planned = kseg("convert", "--codec", "zstd", "--in-place", "--dry-run", "--format", "json", partition)
    assert (planned.status, files(partition.parent)) == (1, before)
    done = kseg("convert", "--codec", "zstd", "--in-place", "--format", "json", "--quiet", partition).expect(0)
    logs = [(row["file"], row["newSize"]) for row in done.of_type("action") if row["file"].endswith(".log")]
    assert len(logs) == 4
    assert [(r["file"], r["newSize"]) for r in planned.of_type("action") if r["file"].endswith(".log")] == logs
    assert dumped(kseg, partition) == records
    assert kseg("verify", "--level", "deep", partition).status == 0
    kseg("convert", "--codec", "zstd", "--in-place", partition).expect(0, "nothing to change")
    assert kseg("undo", partition).status == 0
    kept = {name: data for name, data in files(partition.parent).items() if ".kseg-quarantine" not in name}
    assert kept == before


@pytest.mark.parametrize("where", ["--in-place", "--output"])
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_without_the_space_nothing_is_begun(
    kseg: Kseg, partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, codec: str
) -> None:
    place = [where] if where == "--in-place" else [where, tmp_path / "out"]
    planned = kseg("convert", "--codec", codec, *place, "--dry-run", "--format", "json", partition)
    needed = planned.of_type("summary")[0]["peakBytes"] + (64 << 10)
    assert needed > 64 << 10
    with unchanged(partition):
        for module in ("kseg.conversion.planner", "kseg.changes.apply"):
            monkeypatch.setattr(f"{module}.free_bytes", lambda _place: needed - 1)
        done = kseg("convert", "--codec", codec, *place, partition)
        assert (done.status, f"{needed} bytes of disk space are needed, {needed - 1} bytes are free" in done.err) == (
            3,
            True,
        )
    assert not (tmp_path / "out" / partition.name).exists()
    for module in ("kseg.conversion.planner", "kseg.changes.apply"):
        monkeypatch.setattr(f"{module}.free_bytes", lambda _place: needed)
    assert kseg("convert", "--codec", codec, *place, partition).status == 0


def test_a_log_directory_in_place_and_elsewhere(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    assert kseg("convert", "--codec", "lz4", "--output", tmp_path / "new", partition.parent).status == 0
    assert kseg("verify", "--level", "deep", tmp_path / "new").status == 0
    assert (tmp_path / "new" / "meta.properties").read_bytes() == (partition.parent / "meta.properties").read_bytes()
    assert kseg("convert", "--codec", "lz4", "--in-place", partition.parent).status == 0
    made = files(tmp_path / "new" / "dplain-0")
    assert made == {name: data for name, data in files(partition).items() if ".kseg-quarantine" not in name}
    assert kseg("undo", partition.parent).status == 0


def test_other_options_change_all_anew(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption."""
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    shutil.copytree(PLAIN, logs / "dplain-1")
    gzip, lz4 = (("convert", "-q", "--in-place", "--codec", codec, logs) for codec in ("gzip", "lz4"))
    counting = CountingDisk()
    on(counting, monkeypatch, *gzip)
    kseg("undo", "-q", logs).expect(0)
    on(KillingDisk(counting.count * 2 // 3), monkeypatch, *gzip)
    kseg(*lz4).expect(0)
    assert {row["compression"] for row in kseg("dump", "--format", "json", logs).of_type("batch")} == {"lz4"}


def test_what_does_not_fit_is_refused_and_nothing_written(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    with unchanged(tmp_path):
        refused = kseg("convert", "--to", "v1", "--output", tmp_path / "new", TXN)
        assert (refused.status, (tmp_path / "new").exists()) == (3, False)
        assert "headers" in refused.err
        assert "--lossy" in refused.err
        assert kseg("convert", "--to", "v1", "--output", tmp_path / "new", partition, TXN).status == 3
        assert kseg("convert", "--to", "v1", "--in-place", partition).status == 3
        assert kseg("convert", "--to", "v0", "--in-place", partition.parent).status == 3
    assert not (tmp_path / "new").exists()


def test_lossy_says_what_is_lost_and_why_offsets_are_missing(kseg: Kseg, tmp_path: Path) -> None:
    done = kseg("convert", "--to", "v1", "--lossy", "--output", tmp_path / "new", TXN)
    done.expect(0, "lost: headers (8 records), producer ids")
    checked = kseg("verify", "--level", "deep", "--format", "json", tmp_path / "new" / TXN.name).expect(0)
    assert "gap-salvaged" in [row.get("code") for row in checked.objects]


def test_accepted_gaps_stay_accepted_in_converted_copies(kseg: Kseg, tmp_path: Path) -> None:
    partition = Path(shutil.copytree(FLIPPED, tmp_path / "dplain-0"))
    assert kseg("recover", "--mode", "salvage", partition).status == 0
    for number, path in enumerate((partition, max(partition.glob("*.log")))):
        new = tmp_path / f"new-{number}"
        assert kseg("convert", "--codec", "gzip", "--output", new, path).status == 0
        found = kseg("verify", "--format", "json", new / "dplain-0").of_type("finding")
        assert [row["severity"] for row in found if row["code"].startswith("gap-")] == ["info"]


def test_damage_is_refused_or_skipped_and_told(kseg: Kseg, tmp_path: Path) -> None:
    refused = kseg("convert", "--codec", "zstd", "--output", tmp_path / "new", FLIPPED)
    assert (refused.status, (tmp_path / "new").exists()) == (3, False)
    done = kseg("convert", "--codec", "zstd", "--skip-damage", "--output", tmp_path / "new", FLIPPED)
    done.expect(0, "crc-mismatch at position 7129, 305 bytes left out")
    assert kseg("verify", "--level", "deep", tmp_path / "new" / "dplain-0").status == 0


@pytest.mark.parametrize("form", [("--to", "v1", "--lossy"), ("--to", "v2")], ids=str)
def test_only_what_was_committed(kseg: Kseg, tmp_path: Path, form: tuple[str, ...]) -> None:
    done = kseg("convert", *form, "--isolation", "read_committed", "--output", tmp_path / "new", TXN)
    assert "read_committed consumer does not see" in done.err
    committed = kseg("dump", "--print-data-log", "--format", "json", "--isolation", "read_committed", TXN)
    want = [our_record(row)[0] for row in committed.of_type("record") if "control" not in row]
    assert [record[0] for record in dumped(kseg, tmp_path / "new" / TXN.name) if record[-1] is None] == want


def test_a_log_of_0_7(kseg: Kseg, tmp_path: Path) -> None:
    asked = ("--base-offset", "500", "--position-header", "old-offset", "--codec", "gzip")
    assert kseg("convert", *asked, "--output", tmp_path / "new", V07).status == 0
    rows = kseg("dump", "--print-data-log", "--format", "json", tmp_path / "new" / V07.name).of_type("record")
    old = kseg("dump", "--print-data-log", "--format", "json", V07).of_type("record")
    assert [row["offset"] for row in rows] == list(range(500, 500 + len(old)))
    assert [row["headers"] for row in rows] == [[{"key": "old-offset", "value": str(row["offset"])}] for row in old]
    assert [row["value"] for row in rows] == [row["value"] for row in old]


def test_one_segment_and_standard_input(kseg: Kseg, tmp_path: Path) -> None:
    log = TXN / "00000000000000000005.log"
    assert kseg("convert", "--codec", "zstd", "-o", tmp_path / "one", log).status == 0
    made = tmp_path / "one" / TXN.name
    spawned("convert", "-q", "--codec", "zstd", "-o", tmp_path / "two", "-", input=log.read_bytes(), check=True)
    other = tmp_path / "two" / "segment-0"
    assert files(made).keys() == files(other).keys()
    assert (made / log.name).read_bytes() == (other / log.name).read_bytes()
    assert dumped(kseg, made) == dumped(kseg, log)


def test_a_batch_that_is_too_large_to_open(kseg: Kseg, tmp_path: Path) -> None:
    source = TESTDATA / "kafka-4.3.1/clients/librdkafka-lz4-0"
    done = kseg("convert", "--codec", "zstd", "--max-batch-bytes", "100", "--output", tmp_path / "new", source)
    assert (done.status, "decompression-limit" in done.err) == (3, True)


@pytest.mark.parametrize("options", [(), ("-n",)])
def test_two_inputs_with_the_same_output_are_refused(kseg: Kseg, tmp_path: Path, options: tuple[str, ...]) -> None:
    first, second = (shutil.copy(next(TXN.glob("*.log")), tmp_path / name) for name in ("a.log", "b.log"))
    done = kseg("convert", "--to", "v2", "--output", tmp_path / "new", *options, first, second)
    assert (done.status, (tmp_path / "new").exists()) == (3, False)
    assert f"{first} and {second} would both become {tmp_path}/new/segment-0" in done.err


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_a_moved_partition_is_converted_if_named(kseg: Kseg, tmp_path: Path, partition: Path, suffix: str) -> None:
    moved = Path(shutil.copytree(partition, f"{partition}.{'0' * 32}-{suffix}"))
    done = kseg("convert", "--codec", "zstd", "--output", tmp_path / "all", partition.parent)
    assert f"{moved}: left alone: a broker has moved or deleted it" in done.err
    assert not list((tmp_path / "all").glob(f"*-{suffix}"))
    for path in (moved, next(moved.glob("*.log"))):
        assert kseg("convert", "--codec", "zstd", "--output", tmp_path / path.name, path).status == 0
        assert [found.name for found in (tmp_path / path.name).iterdir() if found.is_dir()] == [partition.name]
    assert kseg("recover", "--output", tmp_path / "recovered", moved).status == 0
    assert (tmp_path / "recovered" / partition.name).is_dir()


@pytest.mark.parametrize("batch_bytes", ["300", "64K"])
@pytest.mark.parametrize("source", REGROUPED, ids=lambda path: path.name)
def test_snapshots_are_those_of_the_new_batches(kseg: Kseg, tmp_path: Path, source: Path, batch_bytes: str) -> None:
    partition = Path(shutil.copytree(source, tmp_path / source.name))
    sizes = ("--to", "v2", "--batch-bytes", batch_bytes)
    assert kseg("convert", *sizes, "--output", tmp_path / "new", partition).status == 0
    shown = kseg("convert", "-n", *sizes, "--in-place", "--format", "json", partition).of_type("action")
    assert kseg("convert", *sizes, "--in-place", partition).status == 0
    assert not any(Path(row["file"]).exists() for row in shown if row["action"] == "delete")
    found = {path.name: path.read_bytes() for path in partition.glob("*.snapshot")}
    for made in (partition, tmp_path / "new" / source.name):
        assert {path.name: path.read_bytes() for path in made.glob("*.snapshot")} == found
        codes = [row["code"] for row in kseg("verify", "--format", "json", made).of_type("finding")]
        assert [code for code in codes if "snapshot" in code] == []
    before = {path.name: path.read_bytes() for path in source.glob("*.snapshot")}
    assert any(found[name] != content for name, content in before.items() if name in found)
    assert kseg("undo", partition).status == 0
    assert {path.name: path.read_bytes() for path in partition.glob("*.snapshot")} == before


def test_csv_for_spreadsheets(kseg: Kseg, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(build_batch(0, 0, 1, [(b"=1+1", b"plain"), (b"\0=1+1", b" ")]))
    done = kseg("convert", "--to", "csv", "--csv-safe", "--output", "-", path)
    rows = [line.split(",")[5:7] for line in done.lines[1:]]
    assert rows == [['"\'=1+1"', '"plain"'], ['"\'\0=1+1"', '" "']]
    assert kseg("convert", "--to", "jsonl", "--csv-safe", "--output", "-", path).status == 2
