"""A twin has the shape and the findings of its original, and none of its payloads: of every case of damage, of every
codec and release."""

import json
import shutil
import struct
import tarfile
from pathlib import Path
from zlib import crc32

import pytest

import kseg
from kernel.rendering import batch, message, record
from kseg.errors import KsegError, UnsupportedError
from kseg.formats.record_batch import HEADER_BYTES, build_batch
from kseg.kernel.layout.headers import ENTRY_OVERHEAD, ENTRY_SIZE
from recovery.partitions import PLAIN
from redaction.twins import bytes_of, counts_of, findings_of, logs_at, payloads_of, shape_of, twin_of
from segment.segments import entries
from verification.log_directories import NOW_MS
from verification.partitions import TESTDATA
from verification.test_cases import FINDINGS, as_it_was_meant

ELSEWHERE = {"against", "manifest", "privateKeys", "condition", "logs"}
"""Cases with more than a path."""
OTHERWISE = {
    "archive-member-skipped", "damaged-archive",  # archives, which are refused
    "packed-segment", "redpanda-segment",  # of no kind that a twin has
    "pending-change",  # kseg's own files
    "decompression-limit",
}  # fmt: skip
TOLD = {path.name: json.loads((path / "case.json").read_text("utf-8")) for path in sorted(FINDINGS.glob("*-*"))}
CASES = [
    code
    for code, case in TOLD.items()
    if code not in OTHERWISE and not ELSEWHERE & {*case} and "remote" not in case["judged"]  # no log directory
]
PARTITIONS = sorted(
    {path.parent for path in TESTDATA.glob("kafka-*/*/*/*.log") if "truth" not in str(path)}
    | {path.parent for path in TESTDATA.glob("kafka-0.7.2/*/*/*.kafka")}
    | {path.parent for path in TESTDATA.glob("damaged/*/*/*.log") if "findings" not in str(path)}
    | {path.parent for path in TESTDATA.glob("damaged/0.7*/*/*.kafka")}
)


def check_twin(original: Path, twin: Path, now_ms: int) -> None:
    assert findings_of(twin, now_ms) == findings_of(original, now_ms)
    if original.name != "nested-0":  # its sets of snappy inside snappy change their size, and with it 0.7's offsets
        assert shape_of(twin) == shape_of(original)
    assert {path.name for path in twin.rglob("*")} == {
        path.name for path in original.rglob("*") if ".kseg-" not in str(path) and path.name != ".lock"
    }


@pytest.mark.parametrize("code", CASES)
@pytest.mark.sampled(20)
def test_each_finding_comes_up_in_the_twin(code: str, tmp_path: Path) -> None:
    case = TOLD[code]
    folder = as_it_was_meant(FINDINGS / code, tmp_path) if "packed" in case else FINDINGS / code
    judged = (folder / case["judged"]).resolve()
    twin = twin_of(judged, tmp_path / "twin")
    now_ms = case.get("nowMs", NOW_MS)
    assert findings_of(twin, now_ms) == findings_of(judged, now_ms)
    assert shape_of(twin) == shape_of(judged)


@pytest.mark.parametrize("path", PARTITIONS, ids=lambda path: "/".join(path.parts[-3:]))
@pytest.mark.sampled(20)
def test_a_partition_keeps_its_shape_and_no_payload(path: Path, tmp_path: Path) -> None:
    twin = twin_of(path, tmp_path / "twin")
    check_twin(path, twin, NOW_MS)
    if not path.name.startswith("__"):
        whole = bytes_of(twin)
        assert [payload for payload in payloads_of(path) if payload in whole] == []
    if all("none" in str(item) or len(item) < 4 for item in shape_of(path)):
        sizes = {file.name: file.stat().st_size for file in path.iterdir() if file.is_file()}
        assert {file.name: file.stat().st_size for file in twin.iterdir() if file.is_file()} == sizes


@pytest.mark.parametrize("more", [4, 5])
def test_a_wrong_length_stays_as_wrong(more: int, tmp_path: Path) -> None:
    batch = build_batch(0, 1, NOW_MS, [(b"key", b"value")])
    length = struct.pack(">i", len(batch) - ENTRY_OVERHEAD + more)
    (tmp_path / "made-0").mkdir()
    (tmp_path / "made-0" / f"{0:020}.log").write_bytes(batch[:ENTRY_SIZE] + length + batch[ENTRY_OVERHEAD:])
    assert bytes_of(twin_of(tmp_path / "made-0", tmp_path / "twin"))[ENTRY_SIZE:ENTRY_OVERHEAD] == length


def test_equal_keys_stay_equal_and_others_different(tmp_path: Path) -> None:
    path = TESTDATA / "compaction/4.3.1/before/c-tomb-short-0"
    twin = twin_of(path, tmp_path / "twin")
    pairs = set()
    for old, new in zip(logs_at(path), logs_at(twin), strict=True):
        records = zip(kseg.open(old.path).records(), kseg.open(new.path).records(), strict=True)
        pairs |= {(a.key, b.key) for a, b in records}
    assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs}) > 10
    plans = [
        kseg.compact(place, now=1795252258000, min_cleanable_ratio=0, delete_retention_ms=0) for place in (path, twin)
    ]
    rows = [[json.loads(line) for line in plan.to_json().splitlines()] for plan in plans]
    kept, again = (
        [(row["records"], row["kept"], row["gone"]) for row in each if row["type"] == "compaction"] for each in rows
    )
    assert kept == again != []


def test_names_of_topics_and_headers_are_replaced_on_demand(tmp_path: Path) -> None:
    path = TESTDATA / "log-directories/4.3.1/logs"
    twin = twin_of(path, tmp_path / "twin", names=True)
    topics = {part.name.rpartition("-")[0] for part in path.iterdir() if part.is_dir()}
    found = {part.name.rpartition("-")[0] for part in twin.iterdir() if part.is_dir()}
    assert len(topics) == len(found)
    assert topics & found == {topic for topic in topics if topic.startswith("__")}
    whole = bytes_of(twin)
    assert [topic for topic in topics - found if topic.encode() in whole and len(topic) > 5] == []
    count = [sum(findings_of(place, NOW_MS).values()) for place in (path, twin)]
    assert count[0] == count[1]


def test_a_partition_takes_its_checkpoints_along(tmp_path: Path) -> None:
    path = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
    twin = twin_of(path, tmp_path / "twin")
    assert twin == tmp_path / "twin" / "dplain-0"
    lines = (tmp_path / "twin" / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["dplain", "0"]]


def test_a_file_alone_gets_the_folder_of_its_partition(tmp_path: Path) -> None:
    log = next((TESTDATA / "kafka-4.3.1/codecs").glob("*/*.log"))
    twin = twin_of(log, tmp_path / "twin")
    assert twin == tmp_path / "twin" / log.parent.name / log.name
    assert shape_of(twin) == shape_of(log)


@pytest.mark.parametrize("inside", ["", "dplain-0/twin"])
def test_nothing_is_written_into_what_is_read(inside: str, tmp_path: Path) -> None:
    path = TESTDATA / "damaged/4.3.1-last-flip-body"
    with pytest.raises(KsegError):
        twin_of(path, path / inside)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(path)
    for file, advice in ((tmp_path / "a.tar", "unpack it"), (path / "case.json", "name a partition")):
        with pytest.raises(UnsupportedError, match=advice):
            twin_of(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_holes_and_random_bytes(tmp_path: Path) -> None:
    """Long damage is neither read into memory nor written where it is zero."""
    part = tmp_path / "holes-0"
    part.mkdir()
    good = next((TESTDATA / "kafka-4.3.1/codecs").glob("*/*.log")).read_bytes()
    log = part / f"{0:020}.log"
    log.write_bytes(good)
    with log.open("r+b") as file:
        file.seek(1 << 32)
        file.write(b"what nobody may read " * 2000)
    twin = twin_of(part, tmp_path / "twin")
    new = twin / log.name
    assert new.stat().st_size - new.stat().st_size % 4096 >= 1 << 32
    assert new.stat().st_blocks * 512 < 1 << 24
    with new.open("rb") as file:
        file.seek(1 << 32)
        assert b"nobody" not in file.read()


FRAMES = entries((PLAIN / f"{0:020d}.log").read_bytes())


@pytest.mark.parametrize(
    ("end", "values", "random_bytes"),
    [
        (FRAMES[2][:500], 1, 90),  # the last record is cut
        (bytes(500), 0, 0),
        (b"\xff" * 500, 0, 500),
    ],
    ids=["truncated", "zeros", "nonsense"],
)
def test_bytes_that_become_random_are_counted_once(end: bytes, values: int, random_bytes: int, tmp_path: Path) -> None:
    counts = []
    for name, data in (("a-0", FRAMES[:2]), ("b-0", [*FRAMES[:2], end])):
        part = tmp_path / name
        part.mkdir()
        (part / f"{0:020d}.log").write_bytes(b"".join(data))
        counts.append(counts_of(part, tmp_path / f"twin-of-{name}"))
    intact, broken = counts
    assert (broken["values"] - intact["values"], broken["randomBytes"]) == (values, random_bytes)


def test_random_bytes_of_several_attempts_are_counted_once(tmp_path: Path) -> None:
    """No random bytes have the problem of a batch that would decompress to more than the limit."""
    path = FINDINGS / "decompression-limit/lat-gzip-0"
    (log,) = path.glob("*.log")
    packed = [len(batch) - HEADER_BYTES for batch in entries(log.read_bytes()) if batch[22] & 7]
    assert counts_of(path, tmp_path / "twin", max_batch_bytes=10)["randomBytes"] == sum(packed)


@pytest.mark.parametrize("name", ["magic0-magic1-mixed-0", "codecs-0", "nested-0"])
def test_records_of_0_7_that_are_packed_again_are_counted_once(name: str, tmp_path: Path) -> None:
    path = TESTDATA / "kafka-0.7.2/direct" / name
    records = 0
    for file in path.glob("*.kafka"):
        with kseg.open(file) as log:
            records += sum(1 for _ in log.records())
    counts = counts_of(path, tmp_path / "twin")
    assert (counts["records"], counts["values"]) == (records, records)


ANN = b"Ann Smith, born 1970-01-01"
V0 = [message(offset, 0, ANN, ANN) for offset in range(3)]
V1 = [message(offset, 1, ANN, ANN) for offset in range(3)]
V2 = [batch([record(0, key=ANN, value=ANN, headers=[(b"h", ANN)])], offset) for offset in range(3)]
OLD_07 = struct.pack(">ibI", 5 + len(ANN), 0, crc32(ANN)) + ANN


@pytest.mark.parametrize(
    ("frames", "at", "new"),
    [
        (V0, 22 + 20, None),  # cut inside of the key
        (V0, 22 + 30, None),
        (V1, 30 + 40, None),
        (V0, 16, b"\3"),
        (V1, 16, b"\2"),
        (V0, 22 + len(ANN), bytes(4)),  # the value ends before the message does
        (V1, 30 + len(ANN), b"\0\0\0\4"),
        (V0, 8, b"\x7f"),
        (V2, 22, b"\x20"),  # a control batch, by its attributes
        (V2, 17, 2 * ANN[:22]),  # a block of another file over the header
        ([OLD_07] * 3, 30, None),
        ([OLD_07] * 3, 0, b"\x7f"),
    ],
)
def test_no_text_of_a_damaged_batch_is_left(frames: list[bytes], at: int, new: bytes | None, tmp_path: Path) -> None:
    part = tmp_path / "made-0"
    part.mkdir()
    for number in range(3):
        broken = frames[number][:at] + (b"" if new is None else new + frames[number][at + len(new) :])
        data = b"".join((*frames[:number], broken, *frames[number + 1 :]))
        (part / f"{number:020}.{'kafka' if OLD_07 in frames else 'log'}").write_bytes(data)
    twin = twin_of(part, tmp_path / "twin")
    check_twin(part, twin, NOW_MS)
    assert [ANN[place : place + 8] for place in range(len(ANN) - 8) if ANN[place : place + 8] in bytes_of(twin)] == []


def test_foreign_text_in_side_files_goes(tmp_path: Path) -> None:
    part = Path(shutil.copytree(TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path / "logs/dplain-0"))
    text = b"name=Ann Smith, born 1970-01-01, account 12345678 "
    for path in (*part.glob("*index"), *part.glob("*.snapshot")):
        path.write_bytes(path.read_bytes() + 3 * text)
    (part / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n" + text)
    for name in ("partition.metadata", "quorum-state", "../meta.properties", "../recovery-point-offset-checkpoint"):
        (part / name).write_bytes(text)
    (part / "Ann Smith").mkdir()
    (part / "Ann Smith/notes").touch()
    for judged, output in ((part, tmp_path / "one"), (part.parent, tmp_path / "twin")):
        twin = twin_of(judged, output)
        assert findings_of(twin, NOW_MS) == findings_of(judged, NOW_MS)
        whole = bytes_of(output) + b"".join(str(path).encode() for path in output.rglob("*"))
        assert [word for word in (b"Ann Smith", b"1970-01-01", b"12345678") if word in whole] == []


def test_an_index_that_is_too_large_is_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
    monkeypatch.setattr("kseg.redaction.directories.MAX_INDEX_BYTES", 8)
    twin = twin_of(part, tmp_path / "twin")
    indexes = [path for path in part.glob("*.index") if path.stat().st_size > 8]
    assert indexes
    assert [path.name for path in indexes if (twin / path.name).read_bytes() != path.read_bytes()] == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_windows_follow_each_other(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of all codecs, a few a task: the index of a deleted segment moves with them, too."""
    monkeypatch.setattr("kseg.redaction.segments.WINDOW_BYTES", 500)
    part = tmp_path / "mixed-0"
    part.mkdir()
    for number, log in enumerate(sorted((TESTDATA / "kafka-4.3.1/codecs").glob("*/*.log"))):
        for suffix in (".log", ".index"):
            shutil.copy(log.with_suffix(suffix), part / f"{number:020}{suffix}.deleted")
    twin = twin_of(part, tmp_path / "twin", jobs=jobs)
    assert shape_of(twin) == shape_of(part)
    for index in sorted(twin.glob("*.index.deleted")):
        starts = {batch.position for batch in kseg.open(index.with_name(index.name.replace(".index", ".log")))}
        entries = index.read_bytes()
        assert {int.from_bytes(entries[at + 4 : at + 8], "big") for at in range(0, len(entries), 8)} <= starts
