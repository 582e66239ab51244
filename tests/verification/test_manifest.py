"""Manifests: whatever happens to bytes that were written down is told, with its place; nothing else is."""

import hashlib
import json
import random
import shutil
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.errors import PathError
from kseg.segment.survey import FULL, HeaderRows
from kseg.verification import manifest as manifest_check
from kseg.verification.manifest import Block, check_manifest, write_manifest
from kseg.verification.partition import CheckSettings
from segment.header_rows import header_row
from segment.segments import spans
from verification.partitions import PLAIN, TESTDATA, Found, changed, copied

# The blocks of a manifest: a block ends at the first batch that fills it, in bytes or in batches.


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(0, 5), st.integers(1, 100), st.integers(1, 12))
def test_a_block_ends_where_it_is_full(sizes: list[int], start: int, max_bytes: int, max_batches: int) -> None:
    ends = list(accumulate(sizes, initial=start))
    headers = HeaderRows.of([header_row(position=ends[at], size=size) for at, size in enumerate(sizes)])
    full = [count for count, end in enumerate(ends) if count and (end - start >= max_bytes or count == max_batches)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_check, "BLOCK_BYTES", max_bytes)
        patch.setattr(manifest_check, "BLOCK_BATCHES", max_batches)
        assert manifest_check._full_block(headers) == (full[0] if full else 0)


LAST = "00000000000000000116.log"


def written(place: Path, manifest: Path, **mode: bool) -> list[dict[str, object]]:
    with manifest.open("wb") as stream:
        write_manifest([str(place)], CheckSettings(FULL, 0, **mode), stream.write)
    return [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]


def checked(place: Path, manifest: Path) -> Found:
    found = Found()
    check_manifest(str(manifest), [str(place)], CheckSettings(FULL, 0, jobs=2), found.report)
    return found


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copied(PLAIN, tmp_path)


@pytest.fixture
def manifest(partition: Path, tmp_path: Path) -> Path:
    path = tmp_path / "manifest"
    written(partition, path)
    return path


def test_a_manifest_is_what_hashlib_says(partition: Path, tmp_path: Path) -> None:
    rows = written(partition, tmp_path / "manifest")
    segments = [row for row in rows if row["type"] == "segment"]
    assert [row["file"] for row in segments] == sorted(path.name for path in partition.glob("*.log"))
    by_name = {}
    for row in rows:
        if row["type"] == "segment":
            name = str(row["file"])
        if row["type"] == "block":
            by_name.setdefault(name, []).append(row)
    for name, blocks in by_name.items():
        data = (partition / name).read_bytes()
        assert b"".join(data[row["position"] :][: row["size"]] for row in blocks) == data
        for row in blocks:
            piece = data[row["position"] : row["position"] + row["size"]]
            assert row["sha256"] == hashlib.sha256(piece).hexdigest()
            assert row["count"] == len(spans(piece))
    lines = (tmp_path / "manifest").read_bytes().splitlines(keepends=True)
    assert rows[-1]["sha256"] == hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert rows[-1]["batches"] == sum(len(spans(path.read_bytes())) for path in partition.glob("*.log"))


@pytest.mark.parametrize(
    "scenario", ["kafka-0.8.2.2/codecs", "kafka-0.7.2/direct", "kafka-2.8.2/upgraded-from-0.8.2.2"]
)
def test_every_era_is_as_it_was(scenario: str, tmp_path: Path) -> None:
    """A folder of partitions may move: what was written of one place is checked at another."""
    folder = copied(TESTDATA / scenario, tmp_path)
    rows = written(folder, tmp_path / "manifest")
    assert rows[-1]["batches"] > 10
    moved = folder.rename(tmp_path / "elsewhere")
    assert checked(moved, tmp_path / "manifest").findings == []


def test_every_header_byte_counts(partition: Path, manifest: Path) -> None:
    """The 21 bytes in front of what a checksum covers, and some behind them."""
    path = partition / LAST
    data = path.read_bytes()
    position, size = spans(data)[2]
    for at in [*range(21), 22, 60, size - 1]:
        path.write_bytes(data)
        changed(path, position + at, bytes([data[position + at] ^ 0x40]))
        assert checked(partition, manifest).places() == [("manifest-changed", LAST, position, size)], at


@pytest.mark.parametrize("cut", [1, 100, "a batch", "all"])
def test_what_is_cut_off_is_missing(cut: int | str, partition: Path, manifest: Path) -> None:
    path = partition / LAST
    data = path.read_bytes()
    batches = spans(data)
    size = {"a batch": batches[-1][0], "all": 0}.get(str(cut), len(data) - cut if isinstance(cut, int) else 0)
    path.write_bytes(data[:size])
    expected = [("manifest-missing", LAST, at, length) for at, length in batches if at + length > size]
    assert checked(partition, manifest).places() == expected


def test_what_moved_and_was_changed_is_told_apart(partition: Path, manifest: Path) -> None:
    path = partition / LAST
    data = bytearray(path.read_bytes())
    batches = spans(bytes(data))
    data[batches[3][0] + 65] ^= 1
    path.write_bytes(data[: batches[1][0]] + data[batches[2][0] :])
    shift = batches[1][1]
    assert checked(partition, manifest).places() == [
        ("manifest-missing", LAST, *batches[1]), ("manifest-changed", LAST, batches[3][0] - shift, batches[3][1]),
    ]  # fmt: skip


def test_a_log_may_grow(partition: Path, manifest: Path) -> None:
    path = partition / LAST
    data = path.read_bytes()
    path.write_bytes(data + data[:500])
    (partition / "00000000000000000150.log").write_bytes(b"")
    found = checked(partition, manifest)
    assert found.places() == [("manifest-grown", LAST, len(data), 500), ("manifest-grown", "dplain-0", None, None)]
    assert found.report.totals.errors == found.report.totals.warnings == 0


def test_what_grew_is_still_checked(partition: Path, manifest: Path) -> None:
    path = partition / LAST
    data = path.read_bytes()
    at, _ = spans(data)[-1]
    path.write_bytes(data + data[: spans(data)[0][1]])
    changed(path, at + 64, b"\xee")
    assert [place[:3] for place in checked(partition, manifest).places()] == [
        ("manifest-changed", LAST, at), ("manifest-grown", LAST, len(data)),
    ]  # fmt: skip


@pytest.fixture
def segments(tmp_path: Path) -> list[Path]:
    """Those of a partition of four, whose manifest is written."""
    partition = copied(TESTDATA / "kafka-0.8.2.2/codecs/compact-0", tmp_path)
    written(partition, tmp_path / "manifest")
    return sorted(partition.glob("*.log"))


@pytest.mark.parametrize("gone, code", [(0, "manifest-expired"), (1, "manifest-missing"), (3, "manifest-missing")])
def test_segments_go_from_the_front(gone: int, code: str, segments: list[Path], tmp_path: Path) -> None:
    segments[gone].unlink()
    found = checked(segments[0].parent, tmp_path / "manifest")
    assert found.places() == [(code, segments[gone].name, 0, found.findings[0].length)]


def test_a_segment_put_in_between_is_added(segments: list[Path], tmp_path: Path) -> None:
    number = int(segments[1].stem) + 1
    shutil.copy(segments[0], segments[0].parent / f"{number:020}.log")
    assert checked(segments[0].parent, tmp_path / "manifest").codes == ["manifest-added"]


def test_side_files_are_covered(tmp_path: Path) -> None:
    """What a broker changes along with the log is an info; a change of side files alone is none of a broker at rest."""
    logs = copied(TESTDATA / "log-directories/4.3.1/logs", tmp_path)
    rows = written(logs, tmp_path / "manifest")
    sides = {str(row["file"]): row for row in rows if row["type"] == "file"}
    expected = {str(path.relative_to(logs)) for path in logs.rglob("*") if path.is_file() and path.suffix != ".log"}
    assert sides.keys() == expected >= {"meta.properties", "dplain-0/leader-epoch-checkpoint"}
    for name, row in sides.items():
        data = (logs / name).read_bytes()
        assert (row["size"], row["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert checked(logs, tmp_path / "manifest").findings == []
    changed(logs / "meta.properties", 3, b"\xee")
    (logs / "dplain-0/leader-epoch-checkpoint").unlink()
    (logs / "dplain-0/00000000000000000003.snapshot").write_bytes(b"")
    found = checked(logs, tmp_path / "manifest")
    names = ["00000000000000000003.snapshot", "leader-epoch-checkpoint", "meta.properties"]
    assert sorted(found.places()) == [("manifest-side-file", name, None, None) for name in names]
    assert found.report.totals.warnings == 3
    path = max((logs / "dplain-0").glob("*.log"))
    path.write_bytes(path.read_bytes() + path.read_bytes()[:200])
    found = checked(logs, tmp_path / "manifest")
    assert (found.report.totals.infos, found.report.totals.warnings) == (4, 0)


def test_a_partition_that_is_gone_is_missing(tmp_path: Path) -> None:
    folder = copied(TESTDATA / "kafka-0.8.2.2/codecs", tmp_path)
    written(folder, tmp_path / "manifest")
    shutil.rmtree(folder / "one-lz4-0")
    found = checked(folder, tmp_path / "manifest")
    assert set(found.codes) <= {"manifest-missing", "manifest-side-file"}
    assert {Path(finding.file).parent.name for finding in found.findings} == {"one-lz4-0"}


def test_damage_is_written_down_too(tmp_path: Path) -> None:
    partition = copied(TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0", tmp_path)
    rows = written(partition, tmp_path / "manifest")
    assert [(row["code"], row["position"], row["size"]) for row in rows if row["type"] == "damage"] == [
        ("bad-length", 7129, 305)
    ]
    assert checked(partition, tmp_path / "manifest").findings == []
    changed(partition / LAST, 7300, b"!")
    assert checked(partition, tmp_path / "manifest").places() == [("manifest-changed", LAST, 7129, 305)]


def test_the_unfinished_end_of_a_live_segment_is_left_out(partition: Path, tmp_path: Path) -> None:
    path = partition / LAST
    data = path.read_bytes()
    path.write_bytes(data[:-7])
    closed = partition / f"{0:020}.log"
    closed.write_bytes(data[:-7])
    rows = written(partition, tmp_path / "manifest", is_live=True)
    assert [row["code"] for row in rows if row["type"] == "damage"] == ["truncated-batch"], "nobody writes to that one"
    path.write_bytes(data)
    assert set(checked(partition, tmp_path / "manifest").codes) <= {"manifest-grown"}


def test_more_than_can_be_aligned_is_one(partition: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_check, "MAX_KEPT_BATCHES", 2)
    path = partition / LAST
    path.write_bytes(path.read_bytes()[spans(path.read_bytes())[0][1] :])
    assert [place[:3] for place in checked(partition, manifest).places()] == [("manifest-changed", LAST, 0)]


def test_blocks_are_the_same_on_any_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_check, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(manifest_check, "BLOCK_BATCHES", 5)
    folder = str(TESTDATA / "kafka-0.11.0.3/txn")
    lines = []
    for jobs in (1, 3):
        made: list[bytes] = []
        write_manifest([folder], CheckSettings(FULL, 0, jobs=jobs), made.append)
        lines.append(made)
    assert lines[0] == lines[1]
    counts = [row["count"] for line in lines[0] if (row := json.loads(line))["type"] == "block"]
    assert max(counts) == 5
    (tmp_path / "manifest").write_bytes(b"".join(lines[0]))
    assert checked(Path(folder), tmp_path / "manifest").findings == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: lines[:-1],
        lambda lines: lines[:3],
        lambda lines: [],
        lambda lines: [b"{}\n", *lines[1:]],
        lambda lines: [lines[0].replace(b"2", b"9"), *lines[1:]],
        lambda lines: [lines[0], b"nonsense\n", *lines[1:]],
        lambda lines: [lines[0], b"[1]\n", *lines[1:]],
        lambda lines: [lines[0], b"[" * 100_000 + b"\n", *lines[1:]],
        lambda lines: [*lines, b"{}\n"],
        lambda lines: [line.replace(b'"position":0', b'"position":1') for line in lines],
        lambda lines: [line.replace(b"0", b"1", 1) if b"sha256" in line else line for line in lines],
        lambda lines: [line.replace(b'"size":', b'"size":-') for line in lines],
    ],
)
def test_what_is_no_manifest_is_refused(edit, partition: Path, manifest: Path) -> None:
    manifest.write_bytes(b"".join(edit(manifest.read_bytes().splitlines(keepends=True))))
    with pytest.raises(PathError, match="manifest: line"):
        checked(partition, manifest)


def test_a_manifest_of_a_later_version_is_refused(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = manifest_check.VERSION
    monkeypatch.setattr(manifest_check, "VERSION", known + 1)
    written(partition, tmp_path / "manifest")
    monkeypatch.setattr(manifest_check, "VERSION", known)
    with pytest.raises(PathError, match=f"version {known + 1}, known are 1 to {known}"):
        checked(partition, tmp_path / "manifest")


def test_a_manifest_of_something_else_is_told(manifest: Path) -> None:
    with pytest.raises(PathError, match="names no segment of these paths"):
        checked(TESTDATA / "kafka-0.8.2.2/codecs", manifest)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    folder = tmp_path.joinpath("logs")
    folder.mkdir()
    copied(PLAIN, folder).rename(str(folder) + "/caf\udce9-0")
    written(folder, tmp_path / "manifest")
    assert checked(folder, tmp_path / "manifest").findings == []


@given(st.integers(0, 1 << 32))
def test_no_change_goes_unnoticed(seed: int) -> None:
    """Random edits of a real segment, in a folder that is made anew each time."""
    import tempfile

    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        partition = copied(PLAIN, Path(made))
        manifest = Path(made) / "manifest"
        written(partition, manifest)
        path = partition / LAST
        before = path.read_bytes()
        data = bytearray(before)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del data[at : at + rng.randrange(1, 400)]
            elif kind == 2:
                data[at:at] = rng.randbytes(rng.randrange(1, 400))
            else:
                data[at : at + 50] = bytes(len(data[at : at + 50]))
        path.write_bytes(data)
        found = checked(partition, manifest)
        is_appended = bytes(data).startswith(before) and len(data) > len(before)
        assert (found.report.totals.errors + found.report.totals.warnings > 0) == (
            not is_appended and bytes(data) != before
        )


@given(st.binary(max_size=60), st.integers(0, 1 << 40), st.integers(0, 9))
def test_fingerprints_of_any_bytes_are_sound_or_not(packed: bytes, size: int, count: int) -> None:
    block = Block(0, size, bytes(32), count, 0, 0, packed)
    if block.is_sound():
        assert sum(batch.size for batch in block.batches()) == size
