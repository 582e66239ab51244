"""``kseg carve``: batches of real brokers come back out of images of disks."""

import gzip
import json
import os
import random
import shutil
import signal
import struct
from pathlib import Path

import pytest

from carving.images import (
    BLOCK,
    CLEAN,
    FILE_SYSTEMS,
    HAS_EXT4,
    KILLED,
    PATH,
    Truth,
    batch,
    batches_in,
    carve,
    ext4,
    files_one_by_one,
    padded,
    plausible_header,
    segments,
    shuffled,
    truth_of,
)
from carving.images import image as image
from cli.command import TESTDATA, Kseg, findings_of
from kseg.signals import Terminated

TIME = 1_790_000_000_000
LEGACY = TESTDATA / "kafka-0.10.2.2" / "codecs"


def carved_batches(output: Path) -> dict[str, list[bytes]]:
    return {
        directory.name: [batch for log in sorted(directory.glob("*.log")) for batch in batches_in(log.read_bytes())]
        for directory in sorted(output.iterdir())
        if directory.is_dir()
    }


def check(found: dict[str, list[bytes]], truth: Truth, content: bytes, mended: bool = False) -> None:
    """Every whole batch is there once, none is made up, and none is beside a batch of another partition."""
    whole = {batch for batch in truth if batch in content}
    seen = [batch for batches in found.values() for batch in batches]
    assert whole <= set(seen)
    assert all(seen.count(batch) <= len(truth[batch]) for batch in set(seen))
    assert set(seen) <= whole or mended
    assert set(seen) <= set(truth)
    for name, batches in found.items():
        assert set.intersection(*(truth[batch] for batch in batches)), name


def errors(kseg: Kseg, directory: Path) -> set[str]:
    return {row["code"] for row in findings_of(kseg, directory, severity="error") if not row["code"].startswith("gap")}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("logs", [CLEAN, KILLED], ids=["clean", "killed"])
def test_logs_of_a_disk_in_order_come_back_whole_and_named(kseg: Kseg, image: Path, logs: Path) -> None:
    content, truth = files_one_by_one(logs), truth_of(logs)
    done = carve(kseg, image, of=content).expect(0)
    found = carved_batches(image.parent / "out")
    check(found, truth, content)
    partitions = {name for names in truth.values() for name in names} - {""}
    assert len(found) <= 2 * len(partitions)
    assert set(found) >= {name for name in partitions if name.startswith("__")}
    for name in set(found) & partitions:
        assert all(name in truth[batch] for batch in found[name])
    rows = done.of_type("carved")
    assert {os.path.basename(row["directory"]) for row in rows} == set(found)
    for row in rows:
        batches = found[os.path.basename(row["directory"])]
        assert row["batches"] == len(batches)
        assert row["bytes"] == sum(map(len, batches)) == sum(part["length"] for part in row["ranges"])
        assert {part["file"] for part in row["ranges"]} == {str(image)}
    assert image.read_bytes() == content
    assert errors(kseg, image.parent / "out") == set()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("logs", [CLEAN, KILLED], ids=["clean", "killed"])
@pytest.mark.parametrize("seed", range(4))
def test_no_log_mixes_partitions_in_any_order_of_blocks(kseg: Kseg, image: Path, seed: int, logs: Path) -> None:
    content = shuffled(logs, seed)
    assert carve(kseg, image, of=content).status == 0
    check(carved_batches(image.parent / "out"), truth_of(logs), content, mended=True)


def test_a_batch_cut_between_two_extents_is_put_together_by_its_checksum(kseg: Kseg, image: Path) -> None:
    name, file = max(segments(CLEAN), key=lambda part: part[1].stat().st_size)
    data = file.read_bytes()
    cut = 2 * BLOCK
    assert len(data) > cut
    done = carve(kseg, image, of=padded(data[cut:]) + bytes(BLOCK) + data[:cut])
    assert list(carved_batches(image.parent / "out").values()) == [list(batches_in(data))], name
    assert done.objects[-1]["mended"] == 1
    assert done.objects[-1]["torn"] == 0


def test_the_last_batch_of_a_file_is_put_together_where_zeros_fill_its_block(kseg: Kseg, image: Path) -> None:
    data = batch(0, 300, 1000) + batch(300, 1000, 2000)
    assert data.endswith(b"\0")
    cut, other = len(data) - BLOCK - 100, random.Random(3).randbytes(BLOCK - 1) + b"\0"
    cut -= cut % BLOCK
    done = carve(kseg, image, of=other + padded(data[cut:]) + other + data[:cut] + other)
    assert list(carved_batches(image.parent / "out").values()) == [list(batches_in(data))]
    assert (done.objects[-1]["mended"], done.objects[-1]["torn"]) == (1, 0)


@pytest.mark.parametrize(("most", "given_up"), [(2, 1), (100, 0)])
def test_ends_are_bounded(kseg: Kseg, image: Path, monkeypatch: pytest.MonkeyPatch, most: int, given_up: int) -> None:
    data = batch(0, 300, 1000) + batch(300, 1000, 2000)
    other = padded(random.Random(3).randbytes(len(data) % BLOCK))
    image.write_bytes(data[: len(data) // BLOCK * BLOCK] + 3 * other)
    monkeypatch.setattr("kseg.carving.image._MOST_ENDS", most)
    found = carve(kseg, image).objects[-1]
    assert (found["mended"], found["torn"], found["givenUp"]) == (0, 1, given_up)


def test_messages_of_old_formats_come_back_and_cut_ones_too(kseg: Kseg, image: Path) -> None:
    truth = truth_of(LEGACY)
    content = files_one_by_one(LEGACY, with_side_files=False)
    assert carve(kseg, image, of=content).status == 0
    check(carved_batches(image.parent / "out"), truth, content)
    assert errors(kseg, image.parent / "out") == set()


@pytest.mark.parametrize("name", ["rec-uncompressed-0", "rec-snappy-0"])
def test_cut_messages_of_old_formats_are_put_together_too(kseg: Kseg, image: Path, name: str) -> None:
    data = next((LEGACY / name).glob("*.log")).read_bytes()
    starts, at = [], 0
    for message in batches_in(data):
        starts.append(at)
        at += len(message)
    cut = next(cut for cut in range(BLOCK, at, BLOCK) if all(abs(cut - start) > 64 for start in starts))
    assert carve(kseg, image, of=padded(data[cut:]) + data[:cut]).objects[-1]["mended"] == 1
    assert list(carved_batches(image.parent / "out").values()) == [list(batches_in(data))]


def test_a_log_directory_that_holds_a_part_names_the_logs(kseg: Kseg, image: Path) -> None:
    like, names = image.parent / "like", set()
    for name, file in segments(CLEAN):
        if name not in names and file.suffix == ".log" and file.stat().st_size:
            names.add(name)
            (like / name).mkdir(parents=True)
            shutil.copy(file, like / name)
            shutil.copy(CLEAN / name / "partition.metadata", like / name)
    done = carve(kseg, image, "--like", like, of=files_one_by_one(CLEAN))
    truth, found = truth_of(CLEAN), carved_batches(image.parent / "out")
    check(found, truth, image.read_bytes())
    for name in names:
        first = {
            batch for batch in batches_in(next((like / name).glob("*.log")).read_bytes()) if truth[batch] == {name}
        }
        assert {directory for directory, batches in found.items() if first & set(batches)} <= {name}
        metadata = (image.parent / "out" / name / "partition.metadata").read_bytes()
        assert metadata == (CLEAN / name / "partition.metadata").read_bytes()
    named = {row["topic"] for row in done.of_type("carved") if row["evidence"]["name"] == "like"}
    assert named >= {name.rpartition("-")[0] for name in names}


def test_copies_are_left_out_and_versions_before_a_compaction_kept_apart(kseg: Kseg, image: Path) -> None:
    before, after = (TESTDATA / "compaction" / "4.3.1" / name for name in ("before", "after"))
    one = next(path for path in sorted(after.iterdir()) if path.is_dir() and (before / path.name).is_dir())
    old = [file for file in sorted((before / one.name).glob("*.log")) if file.stat().st_size]
    new = [file for file in sorted(one.glob("*.log")) if file.stat().st_size]
    done = carve(kseg, image, of=b"".join(padded(file.read_bytes()) for file in [*old, *new, *new]))
    kept = [batch for file in new for batch in batches_in(file.read_bytes())]
    found = carved_batches(image.parent / "out")
    assert done.objects[-1]["duplicates"] >= len(kept)
    whole = {batch for file in [*old, *new] for batch in batches_in(file.read_bytes())}
    assert {batch for batches in found.values() for batch in batches} == whole
    assert sum(map(len, found.values())) == len(whole)


def test_a_dry_run_says_what_was_found_and_writes_nothing(kseg: Kseg, image: Path) -> None:
    done = carve(kseg, image, "--dry-run", of=files_one_by_one(CLEAN)).expect(1)
    assert not (image.parent / "out").exists()
    assert done.objects[-1]["dryRun"] is True
    names = {line.split()[0] for line in kseg("carve", "--dry-run", "--output", image.parent / "out", image).lines[1:]}
    assert names == {os.path.basename(row["directory"]) for row in done.of_type("carved")}
    assert carve(kseg, image).of_type("carved") == done.of_type("carved")


def test_an_image_may_be_a_link(kseg: Kseg, image: Path) -> None:
    image.write_bytes(files_one_by_one(CLEAN))
    (image.parent / "link").symlink_to(image)
    found = [
        kseg("carve", "-n", "--output", image.parent / "out", image.parent / name) for name in (image.name, "link")
    ]
    assert found[0].lines == found[1].expect(1).lines


@pytest.mark.parametrize("offset", [-5, -(1 << 63) + 1, (1 << 63) - 4, 1 << 60])
def test_batches_with_offsets_of_no_log_are_left_out_and_hide_none(kseg: Kseg, image: Path, offset: int) -> None:
    good = [batch(at, 10, TIME) for at in (100, 110)]
    assert carve(kseg, image, of=batch(offset, 10, TIME) + b"".join(good) + batch(offset, 10, TIME)).status == 0
    assert list(carved_batches(image.parent / "out").values()) == [good]


def test_several_images_of_one_disk_are_carved_together(kseg: Kseg, image: Path) -> None:
    content = files_one_by_one(CLEAN)
    half = len(content) // 2 // BLOCK * BLOCK
    other = image.parent / "other.img"
    other.write_bytes(content[half:])
    assert carve(kseg, image, other, of=content[:half]).status == 0
    truth = truth_of(CLEAN)
    parts = {batch for batch in truth if batch in content[:half] or batch in content[half:]}
    assert parts <= {batch for batches in carved_batches(image.parent / "out").values() for batch in batches}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("before", [0, 512, 63 * 512, 4095])
@pytest.mark.parametrize("cut", [1, 700])
def test_images_begin_and_end_at_any_byte(kseg: Kseg, image: Path, before: int, cut: int) -> None:
    truth = truth_of(CLEAN)
    content = b"\1" * before + files_one_by_one(CLEAN).rstrip(b"\0")[:-cut]
    assert carve(kseg, image, of=content).status == 0
    check(carved_batches(image.parent / "out"), truth, content)


@pytest.mark.parametrize("content", [b"", b"\0", b"\0" * 60, b"lorem ipsum " * 20000 + bytes(BLOCK)])
def test_images_without_batches_end_with_status_1(kseg: Kseg, image: Path, content: bytes) -> None:
    carve(kseg, image, of=content).expect(1, "found no batches")
    assert not (image.parent / "out").exists()


def test_a_packed_image_is_to_be_unpacked(kseg: Kseg, image: Path) -> None:
    content = gzip.compress(files_one_by_one(CLEAN))
    carve(kseg, image, of=content).expect(1, "found no batches", f"{image}: is packed with gzip: unpack it first")


def test_pieces_that_nothing_decides_stay_apart_and_are_named(kseg: Kseg, image: Path) -> None:
    pieces = [
        b"".join(batch(at, n, TIME) for at in range(start, start + 10, n)) for start in (500, 510) for n in (10, 5)
    ]
    done = carve(kseg, image, of=b"".join(padded(piece) + bytes(BLOCK) for piece in pieces))
    found = carved_batches(image.parent / "out")
    pairs = [tuple(map(os.path.basename, (pair["one"], pair["two"]))) for pair in done.objects[-1]["undecided"]]
    assert pairs
    assert {name for pair in pairs for name in pair} <= set(found)
    assert "may be parts of one log" in done.err


def test_many_logs_of_one_batch_are_counted(kseg: Kseg, image: Path) -> None:
    done = carve(kseg, image, of=b"".join(padded(batch(0, 1 + i, TIME + i)) for i in range(120)))
    assert done.objects[-1]["singleBatchLogs"] == len(carved_batches(image.parent / "out")) == 120
    assert "120 of the logs hold one batch each" in done.err


def test_the_result_is_whole_for_other_commands(kseg: Kseg, image: Path) -> None:
    image.write_bytes(files_one_by_one(CLEAN))
    output = image.parent / "out"
    carve(kseg, image)
    kseg("reindex", "--check", output).expect(0)
    for name in (path for path in output.iterdir() if path.is_dir()):
        files = {path.suffix or path.name for path in name.iterdir()}
        assert files >= {".log", ".index", ".timeindex", "leader-epoch-checkpoint"}
    kseg("recover", "--mode", "salvage", output).expect(1, "nothing to change")  # some topic ids are unknown


def test_plausible_headers_hide_nothing_and_cost_little(kseg: Kseg, image: Path) -> None:
    import random

    rng = random.Random(5)
    headers = b"".join(plausible_header(rng) for _ in range(20000))
    claims = b"".join(struct.pack(">qiib", 5, 1 << 26, 0, 2) + bytes(44) for _ in range(20000))
    _, file = next(part for part in segments(CLEAN) if part[1].stat().st_size)
    assert carve(kseg, image, of=headers + claims + b"x" + file.read_bytes() + claims).status == 0
    (found,) = carved_batches(image.parent / "out").values()
    assert found == list(batches_in(file.read_bytes()))


@pytest.mark.parametrize("topic", ["../../../tmp/evil", "/etc", "a/b", "..", "honest"])
def test_hostile_side_files_in_an_image_are_no_danger(kseg: Kseg, image: Path, topic: str) -> None:
    snapshot = struct.pack(">hIi", 1, 0, (1 << 31) - 1)
    claims = b"0\n2147483647\n../../etc 0 5\n/etc/passwd 1 7\n"
    _, file = max(segments(CLEAN), key=lambda part: part[1].stat().st_size)
    last = list(batches_in(file.read_bytes()))[-1]
    ending = struct.unpack_from(">q", last)[0] + struct.unpack_from(">i", last, 23)[0] + 1
    named = f"0\n1\n{topic} 0 {ending}\n".encode()
    done = carve(kseg, image, of=b"".join(map(padded, [snapshot, claims, named, file.read_bytes()]))).expect(0)
    (row,) = done.of_type("carved")
    assert row["topic"] == (topic if topic == "honest" else "carved-0001")
    assert sorted(path.name for path in image.parent.iterdir()) == ["disk.img", "out"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_EXT4, reason="no mke2fs and debugfs (e2fsprogs)")
def test_deleted_files_of_a_real_file_system_come_back(kseg: Kseg, image: Path) -> None:
    ext4(image.parent, CLEAN, image)
    assert carve(kseg, image).status == 0
    truth = truth_of(CLEAN)
    found = carved_batches(image.parent / "out")
    check(found, truth, image.read_bytes())
    assert len(found) <= 2 * len({name for names in truth.values() for name in names})
    assert json.dumps(sorted(found))
    assert errors(kseg, image.parent / "out") == set()


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
def test_batches_of_other_file_systems_come_back_too(kseg: Kseg, image: Path, kind: str) -> None:
    if not shutil.which(f"mkfs.{kind}", path=PATH):
        pytest.skip(f"no mkfs.{kind}")
    FILE_SYSTEMS[kind](image.parent, CLEAN, image)
    assert carve(kseg, image).status == 0
    truth, found = truth_of(CLEAN), carved_batches(image.parent / "out")
    check(found, truth, image.read_bytes().replace(bytes(16 * BLOCK), b""))
    assert {name for batches in found.values() for each in batches for name in truth[each]} >= {
        path.name for path in CLEAN.iterdir() if path.is_dir()
    }
    assert errors(kseg, image.parent / "out") == set()


def test_no_way_of_reading_finds_anything_else(kseg: Kseg, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block device, whose size its status does not tell; slices of several threads; batches moved to the spool."""
    expected = carve(kseg, image, "--dry-run", "--jobs", "1", of=files_one_by_one(CLEAN)).of_type("carved")
    with monkeypatch.context() as patch:
        patch.setattr("kseg.carving.directories.stat.S_ISBLK", lambda _: True)
        assert carve(kseg, image, "--dry-run").of_type("carved") == expected
    with monkeypatch.context() as patch:
        for name in ("LEAST_SLICE_BYTES", "SLICE_BYTES"):
            patch.setattr(f"kseg.carving.image.{name}", 3 * BLOCK)
        assert carve(kseg, image, "--dry-run", "--jobs", "3").of_type("carved") == expected
    monkeypatch.setattr("kseg.carving.image.HELD_BYTES", 4096)
    assert carve(kseg, image, "--dry-run", "--spool-dir", image.parent).of_type("carved") == expected
    carve(kseg, image, "--dry-run", "--spool-bytes", "8K").expect(3, "--spool-bytes")


@pytest.mark.parametrize(
    ("at", "error", "status"),
    [
        ("kseg.carving.image.frames.scan", KeyboardInterrupt(), 130),
        ("kseg.conversion.rows_writer.make_side_files", KeyboardInterrupt(), 130),
        ("kseg.conversion.rows_writer.make_side_files", Terminated(signal.SIGTERM), 143),
        ("kseg.conversion.rows_writer.make_side_files", OSError(28, "No space left on device"), 3),
    ],
)
def test_an_output_that_fails_or_is_cancelled_leaves_nothing(
    kseg: Kseg, image: Path, monkeypatch: pytest.MonkeyPatch, at: str, error: BaseException, status: int
) -> None:
    def fail(*_: object) -> bytes:
        raise error

    image.write_bytes(files_one_by_one(CLEAN))
    monkeypatch.setattr(at, fail)
    assert carve(kseg, image).status == status
    assert os.listdir(image.parent) == ["disk.img"]


def test_a_page_shows_the_logs_of_a_dry_run(kseg: Kseg, image: Path) -> None:
    image.write_bytes(files_one_by_one(CLEAN))
    page = image.parent / "page.html"
    words = ["carve", "--dry-run", "--format", "html", "--report", page, "--output", image.parent / "out"]
    assert kseg(*words, image).status == 1
    assert "__cluster_metadata-0" in page.read_text()


def test_a_carved_log_gets_another_name_afterwards(kseg: Kseg, image: Path) -> None:
    name, file = max(segments(CLEAN), key=lambda part: part[1].stat().st_size)
    assert carve(kseg, image, of=file.read_bytes()).status == 0
    named = image.parent / "named"
    kseg("restore", "--as", name, "--output", named, image.parent / "out" / "carved-0001-0").expect(0)
    assert carved_batches(named) == {name: list(batches_in(file.read_bytes()))}
