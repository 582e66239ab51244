"""Packed segments and archives give what the plain files give, and what is wrong with them is told."""

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard

from cli.command import LOGS, TESTDATA, Kseg, Outcome, files, findings_of, flip, spawned
from kseg.stores.archives import opening
from segment.long_log import BASE_OFFSET, template, write_long_log
from stores.archives.packed_logs import DAMAGES, PACK, SIZE, cut, flipped, partition, zeros_behind, zeros_inside

# Segments that are judged while they are unpacked have the findings of the plain files, and take no space.
#
# The plain files are the oracle: they are read by other code.


def findings(kseg: Kseg, path: Path, root: Path, *options: str) -> list[dict[str, Any]]:
    done = kseg("verify", "--format", "json", *options, path)
    told = [{**row, "file": str(row.get("file", "")).replace(str(root), "")} for row in done.objects]
    for row in told:
        row.get("details", {}).pop("otherRepair", None)
    left_out = ("repair", "next", "needs")
    return [{key: row[key] for key in row if key not in left_out} for row in told] + [{"exit": done.status}]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("packing", PACK)
def test_packed_files_are_judged(packing: str, damage: Callable[[bytes], bytes], tmp_path: Path, kseg: Kseg) -> None:
    """An archive, and a segment."""
    segment = partition(tmp_path, damage) / f"{BASE_OFFSET:020}.log"
    with tarfile.open(tmp_path / "logs.tar", "w") as tar:
        tar.add(tmp_path / "logs", "logs")
    for plain in (tmp_path / "logs.tar", Path(shutil.copy(segment, tmp_path))):
        packed = tmp_path / f"{plain.name}.{packing}"
        packed.write_bytes(PACK[packing](plain.read_bytes()))
        for level in ("full", "quick", "deep"):
            expected = findings(kseg, plain, plain, "--level", level)
            assert findings(kseg, packed, packed, "--level", level) == expected
            assert level == "quick" or len(expected) > (2 if damage is not bytes else 1)


@pytest.mark.parametrize("damage", [bytes, cut, zeros_behind, flipped, zeros_inside])
def test_one_pass_is_enough_with_and_without_damage(
    damage: Callable[[bytes], bytes], tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path, damage)
    packed = tmp_path / "logs.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(tmp_path / "logs", "logs")
    again: list[object] = []
    monkeypatch.setattr(opening.Omitted, "restore", again.append)
    assert "files: 2 (1.3 MiB)" in kseg("verify", "--jobs", "1", packed).err
    assert not again
    kseg("verify", "--jobs", "1", f"{packed}/logs/orders-0/{BASE_OFFSET:020}.log")
    assert not again


def test_intact_batches_take_no_temporary_space(tmp_path: Path, kseg: Kseg) -> None:
    packed = tmp_path / f"{BASE_OFFSET:020}.log.gz"
    packed.write_bytes(gzip.compress(Path(write_long_log(tmp_path, SIZE, with_indexes=False).path).read_bytes()))
    bound = ("--spool-bytes", str(SIZE // 2), packed)
    kseg("verify", *bound).expect(0, f"batches: {-(-SIZE // len(template()))},")
    for bounded in (("dump", *bound), ("verify", "--level", "deep", *bound)):
        assert kseg(*bounded).status == 3


SEGMENT = LOGS / "dplain-0/00000000000000000116.log"
FLAGS = ("dump", "--deep-iteration", "--print-data-log", "--format", "json")


def two_gzip_members(data: bytes) -> bytes:
    return gzip.compress(data[:1000]) + gzip.compress(data[1000:]) + bytes(512)


def zstd_frames(data: bytes) -> bytes:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    first = zstandard.ZstdCompressor(write_checksum=True).compress(data[:1000])
    pack = zstandard.ZstdCompressor(level=1).compressobj()  # a frame that does not report its size
    return skippable + first + skippable + pack.compress(data[1000:]) + pack.flush() + skippable


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "two-gzip-members": two_gzip_members,
    "bzip2": lambda data: bz2.compress(data[:999]) + bz2.compress(data[999:]),
    "xz": lambda data: lzma.compress(data[:999]) + bytes(8) + lzma.compress(data[999:]),
    "zstd": zstd_frames,
    "lz4": lambda data: lz4.frame.compress(data[:999]) + lz4.frame.compress(data[999:], store_size=False),
}
SUFFIXES = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst", "lz4": ".lz4"}


def members(folder: Path, prefix: str) -> list[tuple[str, Path]]:
    """Files and directories in an order that no reader would like."""
    return [(f"{prefix}{path.relative_to(folder)}", path) for path in sorted(folder.rglob("*"), reverse=True)]


def tar_bytes(found: Iterable[tuple[str, Path]], form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for name, path in found:
            tar.add(path, name, recursive=False)
    return made.getvalue()


def zip_with(method: int, pack: Callable[[bytes], bytes]) -> Callable[[list[tuple[str, Path]]], bytes]:
    """Returns the writer of zip files packed by a method that Python's library does not write."""

    def write(found: list[tuple[str, Path]]) -> bytes:
        made, facts = io.BytesIO(), {}
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
            for name, path in found:
                if not path.is_dir():
                    data = path.read_bytes()
                    facts[name] = struct.pack("<II", zlib.crc32(data), len(data))
                    archive.writestr(zipfile.ZipInfo(name), pack(data))
            places = [(info.filename, info.header_offset) for info in archive.infolist()]
        data = bytearray(made.getvalue())
        directory = data.index(b"PK\1\2")
        for name, at in places:  # in the header before the data, and in the directory behind it
            for start, skipped in ((at, 0), (directory, 2)):
                struct.pack_into("<H", data, start + 8 + skipped, method)
                data[start + 14 + skipped : start + 18 + skipped] = facts[name][:4]
                data[start + 22 + skipped : start + 26 + skipped] = facts[name][4:]
            directory += 46 + len(name.encode())
        return bytes(data)

    return write


def zip_bytes(found: Iterable[tuple[str, Path]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, path in found:
            archive.write(path, name)
    return made.getvalue()


ARCHIVES: dict[str, Callable[[list[tuple[str, Path]]], bytes]] = {
    "tar": tar_bytes,
    "gnu-tar": lambda found: tar_bytes(found, tarfile.GNU_FORMAT),
    "tar-gz": lambda found: gzip.compress(tar_bytes(found)),
    "tar-zst": lambda found: zstandard.ZstdCompressor().compress(tar_bytes(found)),
    "tar-lz4": lambda found: lz4.frame.compress(tar_bytes(found)),
    "zip": zip_bytes,
    "stored-zip": lambda found: zip_bytes(found, zipfile.ZIP_STORED),
    "bzip2-zip": lambda found: zip_bytes(found, zipfile.ZIP_BZIP2),
    "lzma-zip": lambda found: zip_bytes(found, zipfile.ZIP_LZMA),
    "zstd-zip": zip_with(93, lambda data: zstandard.ZstdCompressor().compress(data)),
    "xz-zip": zip_with(95, lzma.compress),
}


def rows(done: Outcome, *left_out: str) -> list[dict[str, Any]]:
    return [{key: row[key] for key in row if key not in ("file", *left_out)} for row in done.objects]


PLACES = ("repair", "next", "message", "nodes")
"""What names the place of the files."""


def nodes(done: Outcome) -> list[dict[str, Any]]:
    return done.objects[-1]["nodes"]


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("name", ["usual", "odd"])
def test_a_packed_segment_is_read_as_if_it_were_not(packing: str, name: str, tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / (SEGMENT.name + SUFFIXES.get(packing, ".gz") if name == "usual" else "backup of monday")
    path.write_bytes(PACKED[packing](SEGMENT.read_bytes()))
    plain, found = kseg(*FLAGS, SEGMENT), kseg(*FLAGS, path)
    assert (found.status, found.err) == (plain.status, plain.err)
    assert rows(found, "topic", "partition") == rows(plain, "topic", "partition")
    assert {row["file"] for row in found.objects} == {str(path)}
    judged = kseg("verify", "--level", "deep", "--format", "json", path)
    assert judged.objects[-1]["batches"] == len(plain.of_type("batch"))
    assert (judged.status, judged.objects[-1]["notJudged"]) == (0, 0)


@pytest.mark.parametrize("packing", PACKED)
def test_what_is_left_of_a_cut_file_is_judged(packing: str, tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / f"{SEGMENT.name}.gz"
    data = PACKED[packing](SEGMENT.read_bytes() * 2)
    path.write_bytes(data[: len(data) - 600])
    done = kseg("verify", "--format", "json", path).expect(1)
    (told,) = [row for row in done.of_type("finding") if row["code"] == "damaged-archive"]
    assert (told["file"], told["severity"]) == (str(path), "error")
    assert done.objects[-1]["notJudged"] == 1
    kseg("dump", path).expect(1, "damaged-archive")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ARCHIVES)
def test_a_log_directory_in_an_archive_gives_the_rows_of_the_files(form: str, tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / "backup"
    path.write_bytes(ARCHIVES[form](members(LOGS, "./backup/of/logs/")))
    plain, found = kseg(*FLAGS, LOGS), kseg(*FLAGS, path)
    assert (rows(found), found.status) == (rows(plain), plain.status)
    assert [row["file"] for row in found.objects] == [
        row["file"].replace(str(LOGS), f"{path}/backup/of/logs") for row in plain.objects
    ]
    before, after = (kseg("verify", "--level", "deep", "--format", "json", place) for place in (LOGS, path))
    assert nodes(after) == json.loads(json.dumps(nodes(before)).replace(str(LOGS), f"{path}/backup/of/logs"))
    assert rows(after, *PLACES) == rows(before, *PLACES)
    assert os.listdir(tmp_path) == ["backup"]


def test_a_path_leads_into_an_archive(tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / "backup.tar"
    path.write_bytes(tar_bytes(members(LOGS, "")))
    inside = f"dplain-0/{SEGMENT.name}"
    assert rows(kseg(*FLAGS, path / inside)) == rows(kseg(*FLAGS, SEGMENT))
    assert kseg("verify", path / "dplain-0").status == 0
    kseg("dump", path / "nowhere-0").expect(3, "no such file", out=b"")


def test_a_dump_of_an_archive_replaces_an_older_one(tmp_path: Path, kseg: Kseg) -> None:
    path, out = tmp_path / "backup.tar", tmp_path / "out.txt"
    path.write_bytes(tar_bytes(members(LOGS, "")))
    for _ in range(2):
        done = kseg("dump", "-o", out, path / f"dplain-0/{SEGMENT.name}")
        assert (done.status, done.err) == (0, "")
        assert out.read_bytes().count(b"baseOffset") > 1
    packed = tmp_path / f"{SEGMENT.name}.gz"
    packed.write_bytes(gzip.compress(SEGMENT.read_bytes()))
    done = kseg("dump", "-o", packed, packed)
    assert (done.status, gzip.decompress(packed.read_bytes())) == (2, SEGMENT.read_bytes())


def test_time_and_offsets_are_sought_by_the_indexes_in_an_archive(tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / "backup.tar.gz"
    path.write_bytes(gzip.compress(tar_bytes(members(LOGS, ""))))
    for flags in (("--offsets", "118..120"), ("--isolation", "read_committed"), ("--all",)):
        plain, found = kseg(*FLAGS, *flags, LOGS / "dplain-0"), kseg(*FLAGS, *flags, path / "dplain-0")
        assert (rows(found, "path"), found.status) == (rows(plain, "path"), plain.status)
        assert found.objects


def test_a_cut_tar_file_is_judged_up_to_the_cut(tmp_path: Path, kseg: Kseg) -> None:
    found = sorted(members(LOGS, "logs/"))
    data = tar_bytes(found)
    path = tmp_path / "cut.tar"
    path.write_bytes(data[: len(data) * 2 // 3])
    done = kseg("verify", "--format", "json", path).expect(1)
    codes = [row["code"] for row in done.of_type("finding")]
    assert codes.count("damaged-archive") == 1
    assert done.objects[-1]["batches"] > 0


def test_a_zip_file_without_its_directory_is_read_member_by_member(tmp_path: Path, kseg: Kseg) -> None:
    data = zip_bytes(sorted(members(LOGS / "dplain-0", "dplain-0/")))
    path = tmp_path / "cut.zip"
    path.write_bytes(data[: data.rindex(b"PK\x01\x02")])
    done = kseg("verify", "--format", "json", path)
    plain = kseg("verify", "--format", "json", LOGS / "dplain-0")
    assert (done.status, done.objects[-1]["batches"]) == (1, plain.objects[-1]["batches"])
    assert "damaged-archive" in [row["code"] for row in done.of_type("finding")]


def test_the_bound_of_the_spool_holds(tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / "bomb.log.gz"
    path.write_bytes(gzip.compress(bytes(50 << 20)))
    done = kseg("verify", "--spool-bytes", "1M", "--spool-dir", tmp_path, path, SEGMENT).expect(3)
    assert "--spool-bytes" in done.err
    assert "batches: 6" in done.err  # the other path is judged
    assert kseg("dump", "--spool-bytes", "1M", path).status == 3
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.slow
def test_standard_input_may_be_packed(tmp_path: Path) -> None:
    words = ("verify", "--format", "json", "-")
    plain = spawned(*words, input=SEGMENT.read_bytes())
    packed = spawned(*words, input=gzip.compress(SEGMENT.read_bytes()))
    assert (packed.returncode, packed.stdout) == (plain.returncode, plain.stdout)
    refused = spawned(*words, input=tar_bytes(members(LOGS, "")))
    assert refused.returncode == 3
    assert b"an archive on standard input" in refused.stderr


@pytest.mark.parametrize("suffix", [".log.gz", ".log.zst", ".log.lz4", ".tar"])
def test_an_empty_file_is_no_packed_one(suffix: str, tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / f"{SEGMENT.stem}{suffix}"
    path.touch()
    assert (kseg("verify", path).status, kseg("dump", path).status) == (3, 3)
    partition = Path(shutil.copytree(SEGMENT.parent, tmp_path / "a" / SEGMENT.parent.name))
    (partition / f"{1 << 40:020}{suffix}").touch()
    if suffix != ".tar":
        assert "is empty, but by its name a packed file" in kseg("verify", partition).out.decode()


def test_packed_segments_inside_an_archive_are_judged(tmp_path: Path, kseg: Kseg) -> None:
    folder = tmp_path / "in"
    (folder / "orders-0").mkdir(parents=True)
    hurt = Path(shutil.copy(SEGMENT, tmp_path))
    flip(hurt, bits=8)
    (folder / "orders-0" / f"{SEGMENT.name}.zst").write_bytes(zstandard.ZstdCompressor().compress(hurt.read_bytes()))
    path = tmp_path / "nested.zip"
    path.write_bytes(zip_bytes(members(folder, "")))
    done = kseg("verify", "--format", "json", path).expect(1)
    assert f"{path}/orders-0/{SEGMENT.name}.zst" in {row["file"] for row in done.of_type("finding")}
    assert done.objects[-1]["batches"] > 0


def test_an_archive_that_is_not_looked_into_is_an_error(tmp_path: Path, kseg: Kseg) -> None:
    (tmp_path / "in").mkdir()
    for form in ("tar", "gztar", "zip"):
        shutil.make_archive(str(tmp_path / "in" / form), form, LOGS)
    shutil.copytree(LOGS, tmp_path / "beside" / "logs")
    shutil.copy(tmp_path / "in/tar.tar", tmp_path / "beside/logs/dplain-0/evidence")
    nested = shutil.make_archive(str(tmp_path / "nested"), "tar", tmp_path, "in")
    for path, count in ((tmp_path / "in", 3), (nested, 3), (tmp_path / "beside", 1), (tmp_path / "beside/logs", 1)):
        kseg("verify", path).expect(1)
        found = findings_of(kseg, path, severity="error")
        assert [row["code"] for row in found] == ["packed-segment"] * count


@pytest.fixture
def hurt(tmp_path: Path) -> Path:
    """A log directory after an unclean stop, with damage."""
    logs = Path(shutil.copytree(LOGS, tmp_path / "hurt"))
    flip(logs / "dplain-0" / SEGMENT.name, bits=8)
    (logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return logs


@pytest.mark.sampled(8)
@pytest.mark.parametrize("form", ARCHIVES)
@pytest.mark.parametrize("mode", ["broker", "salvage"])
def test_what_recover_writes_is_that_of_the_files(form: str, mode: str, hurt: Path, tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / "backup"
    path.write_bytes(ARCHIVES[form](members(hurt, "backup/logs/")))
    flags = ("recover", "--mode", mode, "--now", "1795300000000", "--output")
    plain = kseg(*flags, tmp_path / "one", hurt)
    assert kseg(*flags, tmp_path / "two", "--spool-dir", tmp_path, "--spool-bytes", "100M", path).status == plain.status
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert len(files(tmp_path / "two")) > 20
    assert sorted(os.listdir(tmp_path)) == ["backup", "hurt", "one", "two"]
    assert kseg("verify", tmp_path / "two").status == kseg("verify", tmp_path / "one").status


def test_damage_of_an_archive_shows_in_the_status_of_recover(tmp_path: Path, kseg: Kseg) -> None:
    data = tar_bytes(sorted(members(LOGS / "dplain-0", "dplain-0/")))
    path = tmp_path / "cut.tar"
    path.write_bytes(data[: -tarfile.RECORDSIZE])
    kseg("recover", "--output", tmp_path / "out", path).expect(1, "damaged-archive")
    assert (tmp_path / "out/dplain-0" / SEGMENT.name).read_bytes() == SEGMENT.read_bytes()


_PACKED_MAGICS = [
    b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\xfd7zXZ\0", b"BZh", b"PK\3\4", b"PK\5\6"
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("magic", _PACKED_MAGICS)
def test_damage_that_begins_like_a_packed_file_is_damage_of_a_segment(magic: bytes, kseg: Kseg, tmp_path: Path) -> None:
    segment = TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0/00000000000000000000.log"
    path = tmp_path / segment.name
    path.write_bytes(magic + bytes(range(40)) + segment.read_bytes())
    judged = kseg("verify", "--format", "json", path)
    assert {row["code"] for row in judged.of_type("finding") if row["severity"] == "error"} == {"nonsense-block"}
    assert judged.objects[-1]["batches"] == kseg("verify", "--format", "json", segment).objects[-1]["batches"] > 0
