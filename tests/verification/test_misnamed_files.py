"""Nothing that looks like Kafka's is not read: files under other names, packed ones, directories above and below."""

import gzip
import os
import shutil
from pathlib import Path

import pytest

from cli.command import flip
from kernel.rendering import varint
from kseg.limits import MAX_HEADERS
from kseg.segment.paths import is_packed_segment, named_like_segment, packing_of
from kseg.segment.survey import DEEP
from kseg.verification.repairs import Repairs
from verification.log_directories import REAL, TESTDATA, check, copied
from verification.partitions import PLAIN, of_records

SEGMENT = PLAIN / "00000000000000000116.log"
ODD = [
    "00000000000000000116-AbCdEfGhIjKlMnOpQrStUv.log", "00000000000000000116.log.bak", "segment-old.log",
    "00000000000000000116.log.zst", "116.log", "evidence", "00000000000000000116.log.1",
]  # fmt: skip


def flipped(path: Path) -> None:
    flip(path, path.stat().st_size // 2 + 200, 4)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return copied(tmp_path)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("place", ["plain-0", "loose"])
def test_a_segment_under_another_name_is_judged(name: str, place: str, tmp_path: Path) -> None:
    folder = tmp_path / place
    folder.mkdir()
    shutil.copy(SEGMENT, folder / name)
    sound = check(folder, DEEP)
    assert sound.report.totals.batches > 0
    assert "crc-mismatch" not in sound.codes
    flipped(folder / name)
    found = check(folder, DEEP)
    assert found.one("crc-mismatch").file == str(folder / name)
    assert found.report.totals.not_judged == 0


@pytest.mark.parametrize("name", ODD[:4])
def test_a_copy_beside_sound_segments_is_no_part_of_their_log(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(PLAIN, tmp_path / "dplain-0"))
    before = check(folder, DEEP)
    shutil.copy(SEGMENT, folder / name)
    after = check(folder, DEEP)
    assert after.report.totals.batches > before.report.totals.batches
    assert set(after.serious) - set(before.serious) <= {"broker-would-not-start"}


def test_a_copy_has_no_transaction_index(tmp_path: Path) -> None:
    """No reindex writes one for it."""
    folder = Path(shutil.copytree(TESTDATA / "log-directories/4.3.1-rounds/kill/txn-0", tmp_path / "txn-0"))
    log = folder / f"{147:020}.log"
    shutil.copy(log, f"{log}.bak")
    assert "transaction-index-missing" not in check(folder).codes
    log.with_suffix(".txnindex").unlink()
    assert "transaction-index-missing" in check(folder).codes


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "00000000000000000116.snapshot", "partition.metadata"])
def test_a_directory_in_the_place_of_a_file_is_found(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(PLAIN, tmp_path / "dplain-0"))
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    finding = check(folder, DEEP).one("unreadable-file")
    assert finding.file == str(folder / name)
    assert finding.details["reason"] == "a directory, not a file"


def test_its_repair_would_change_another_log(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(PLAIN, tmp_path / "dplain-0"))
    shutil.copy(SEGMENT, folder / "evidence.log")
    flipped(folder / "evidence.log")
    for path in (folder, folder / "evidence.log"):
        finding = Repairs().with_repair(check(path).one("crc-mismatch"))
        assert (finding.repair, finding.needs) == (None, "decision")
    flipped(folder / SEGMENT.name)
    found = [Repairs().with_repair(finding) for finding in check(folder).findings if finding.code == "crc-mismatch"]
    assert [(finding.repair or [])[-1:] for finding in found] == [[str(folder)], []]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_packed_segment_is_judged(is_cut: bool, tmp_path: Path) -> None:
    folder = tmp_path / "it's-0"
    folder.mkdir()
    path = folder / "00000000000000000116.log.gz"
    data = gzip.compress(SEGMENT.read_bytes())
    path.write_bytes(data[: len(data) // 2] if is_cut else data)
    for place in (folder, path):
        found = check(place)
        assert found.report.totals.not_judged == is_cut
        assert (found.codes.count("damaged-archive"), found.codes.count("truncated-batch")) == (is_cut, is_cut)
        assert found.report.totals.batches == (1 if is_cut else check(SEGMENT).report.totals.batches)
        told = [finding.file for finding in found.findings if finding.code in ("damaged-archive", "truncated-batch")]
        assert told == [str(path)] * 2 * is_cut


def test_what_is_packed_is_told_by_its_first_bytes() -> None:
    data = SEGMENT.read_bytes()
    assert is_packed_segment("evidence", gzip.compress(data))
    for name in ("notes.txt.gz", "server.1.log.gz"):
        assert not is_packed_segment(name, gzip.compress(b"no segment " * 100))
    assert is_packed_segment("a.log.gz", gzip.compress(b"\xff" * 100))
    assert not is_packed_segment("broken.gz", b"\x1f\x8b" + b"x" * 100)
    assert packing_of(data) is None
    assert [named_like_segment(name) for name in ("a.log.gz", "0.kafka~", "a.log.dump.txt", "b.logs", "x.txt")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_files_of_programs_are_no_segments(logs: Path) -> None:
    for place in (logs, logs / "dplain-0"):
        (place / "notes.txt").write_text("not Kafka's\n")
        shutil.copy(SEGMENT, place / ".kseg-kept")
    (logs / "server.log").write_text("[2026-11-23 10:00:00] INFO [BrokerServer id=1] Ж started\n" * 40)
    found = check(logs, DEEP)
    assert (found.serious, found.report.totals.not_judged) == ([], 0)
    assert found.report.totals.files == check(REAL, DEEP).report.totals.files


@pytest.mark.parametrize("folder", ["", "dplain-0/old", "dplain-0"])
def test_a_copy_at_another_place_is_judged(folder: str, logs: Path) -> None:
    """In the log directory itself, in a directory within a partition, and about to be put in place there."""
    copy = logs / folder / (SEGMENT.name + (".swap" if folder == "dplain-0" else ""))
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(SEGMENT, copy)
    flipped(copy)
    found = check(logs)
    assert found.one("crc-mismatch").file == str(copy)
    assert check(REAL).report.totals.files + 1 == found.report.totals.files


@pytest.mark.parametrize("name", ["disk1", "data-1"])
def test_directories_above_are_walked_into(name: str, tmp_path: Path) -> None:
    above = tmp_path / "outer" / "inner"
    above.mkdir(parents=True)
    logs = copied(tmp_path)
    flipped(logs / "dplain-0" / SEGMENT.name)
    logs.rename(above / name)
    for place in (above, tmp_path / "outer"):
        found = check(place)
        assert found.one("crc-mismatch").file == str(above / name / "dplain-0" / SEGMENT.name)
        assert "segments-missing" not in found.codes
        assert "partition-missing" in found.codes  # which the log directory's own checkpoint tells


def test_links_are_not_followed_on_the_way(logs: Path, tmp_path: Path) -> None:
    flipped(logs / "dplain-0" / SEGMENT.name)
    above = tmp_path / "above"
    (above / "sub").mkdir(parents=True)
    shutil.copytree(REAL, above / "sub" / "logs")
    (above / "link").symlink_to(tmp_path / "logs")
    (above / "sub" / "up").symlink_to(above)
    assert check(above).serious == []


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [loop, os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_keeps_nothing_else_from_being_judged(make: object, logs: Path) -> None:
    path = logs / "dplain-0" / "00000000000000000046.log"
    path.unlink()
    make(path)  # type: ignore[operator]
    flipped(logs / "dplain-0" / SEGMENT.name)
    found = check(logs)
    assert found.one("unreadable-file").file == str(path)
    assert found.one("crc-mismatch").file == str(logs / "dplain-0" / SEGMENT.name)
    assert found.report.totals.not_judged == 1
    assert not {"gap-unexplained", "orphan-index", "leader-epochs-mismatch"} & set(found.codes)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_a_lone_swap_of_an_index(suffix: str, logs: Path) -> None:
    swap = logs / "dplain-0" / f"00000000000000000116{suffix}.swap"
    source = logs / "dplain-0" / f"00000000000000000116{suffix}"
    swap.write_bytes(source.read_bytes() if source.exists() else b"")
    assert check(logs).one("unfinished-swap").file == str(swap)
    swap.write_bytes(b"\xff" * 68)
    assert {finding.severity for finding in check(logs).findings if finding.file == str(swap)} >= {"error", "warning"}


def test_more_headers_than_are_read(tmp_path: Path) -> None:
    """Each is two bytes: an empty key, and null."""
    folder = tmp_path / "plain-0"
    folder.mkdir()
    for count in (1000, MAX_HEADERS + 1):
        body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(-1) + varint(count) + b"\0\1" * count
        (folder / "00000000000000000000.log").write_bytes(of_records([varint(len(body)) + body], 0))
        codes = check(folder, DEEP).codes
        assert codes == (["undecodable-records"] if count > MAX_HEADERS else [])


def test_a_directory_that_only_happens_to_be_called_as_a_partition(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "x.json").write_text("{}")
    shutil.copytree(PLAIN, tmp_path / "dplain-0")
    assert "segments-missing" not in check(tmp_path).codes
    (tmp_path / "version-2" / "x.json").unlink()
    assert check(tmp_path).one("segments-missing").file == str(tmp_path / "version-2")
