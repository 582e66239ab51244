"""Archives that lie: their names write nothing, their sizes bound nothing but themselves, their damage is told."""

import bz2
import gzip
import io
import lzma
import os
import random
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from kseg.errors import KsegError
from kseg.stores.archives import members, opening
from kseg.stores.archives.forms import UnpackError
from kseg.stores.archives.mounting import archives_at, problems_of
from kseg.stores.archives.spool import Spool, SpoolFullError
from kseg.stores.archives.unpack import OUTPUT_BYTES, MemoryExtent, unpacked
from kseg.stores.place import Place

ROUNDS = 60
PACK = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
}


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = len(data), kind, link
    return made.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512)


def zip_of(path: Path, names: Iterable[str]) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, b"x")
    return path


def mounted_files(path: Path, spool: Spool | None = None) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of all files of an archive."""
    with archives_at([str(path)], spool or Spool()) as (place,):
        yield from files_in(place)


def files_in(place: Place) -> Iterator[tuple[str, bytes]]:
    place.check()
    pending = [place]
    while pending:
        at = pending.pop()
        if at.is_dir():
            pending += [at / name for name in at.names()]
        elif at.is_file():
            yield os.path.relpath(at, place), at.read(1 << 30)


def problems(path: Path) -> list[tuple[str, str]]:
    with archives_at([str(path)], Spool()) as places:
        for _ in files_in(places[0]):
            pass
        return [(problem.code, problem.message) for _, problem in problems_of(places)]


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_names_that_lead_out_are_left_out(form: str, tmp_path: Path) -> None:
    path = tmp_path / "in" / "hostile"
    path.parent.mkdir()
    deep = "d/" * 80 + "file"
    names = ["../out", "a/../../out", "good", "./also/./good", "/absolute/good", deep]
    if form == "tar":
        path.write_bytes(b"".join(member(name, b"x") for name in names) + bytes(1024))
    else:
        zip_of(path, names)
    assert sorted(name for name, _ in mounted_files(path)) == ["absolute/good", "also/good", "good"]
    assert problems(path) == [
        ("archive-member-skipped", message)
        for message in (
            "'../out': leads out of the archive",
            "'a/../../out': leads out of the archive",
            f"'{deep}': too many directories",
        )
    ]
    assert sorted(os.listdir(tmp_path)) == ["in"]
    assert not Path("/absolute").exists()


def test_links_devices_and_names_that_are_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "hostile.tar"
    path.write_bytes(
        member("later", kind=tarfile.LNKTYPE, link="real")
        + member("real", b"first")
        + member("soft", kind=tarfile.SYMTYPE, link="/etc/passwd")
        + member("device", kind=tarfile.CHRTYPE)
        + member("pipe", kind=tarfile.FIFOTYPE)
        + member("real", b"second")
        + member("real/below", b"x")
        + member("nowhere", kind=tarfile.LNKTYPE, link="../etc/passwd")
        + bytes(1024)
    )
    assert dict(mounted_files(path)) == {"later": b"second", "real": b"second"}
    with archives_at([str(path)], Spool()) as (place,):
        assert (place / "soft").is_link()
        for name in ("soft", "device", "pipe"):
            with pytest.raises(OSError, match=r"link|regular"):
                (place / name).read(10)
    told = " ".join(message for _, message in problems(path))
    for name in ("'device'", "'pipe'", "'real': is in the archive more than once", "'real/below'", "'nowhere'"):
        assert name in told


def test_more_members_than_the_bound_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MAX_MEMBERS", 5)
    path = tmp_path / "many.tar"
    path.write_bytes(b"".join(member(f"f{number}") for number in range(9)) + bytes(1024))
    assert len(list(mounted_files(path))) == 5
    assert "more than 5 members" in problems(path)[0][1]


def test_sizes_that_claim_too_much(tmp_path: Path) -> None:
    huge = tarfile.TarInfo("huge")
    huge.size = 1 << 40
    path = tmp_path / "huge.tar"
    path.write_bytes(member("real", b"data") + huge.tobuf(tarfile.GNU_FORMAT) + b"x" * 512)
    assert dict(mounted_files(path)) == {"real": b"data", "huge": b"x" * 512}
    assert "512 of its 1099511627776 bytes" in problems(path)[0][1]


def test_headers_that_only_announce_headers_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "chain.tar"
    path.write_bytes(member("././@LongLink", kind=tarfile.GNUTYPE_LONGNAME) * 3000 + member("real") + bytes(1024))
    assert 0 < len(problems(path)) < 100


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([(0, 1 << 45)], b"x" * 1024),
        ([(100, 512), (5000, 1 << 40)], bytes(100) + b"x" * 512 + bytes(4388) + b"x" * 512),
    ],
)
def test_a_truncated_sparse_member_takes_no_time(ranges: list[tuple[int, int]], found: bytes, tmp_path: Path) -> None:
    huge = tarfile.TarInfo("sparse")
    huge.size = sum(size for _, size in ranges)
    real_size, sparse_map = str(sum(ranges[-1])), ",".join(f"{start},{size}" for start, size in ranges)
    huge.pax_headers = {"GNU.sparse.size": real_size, "GNU.sparse.numblocks": "1", "GNU.sparse.map": sparse_map}
    path = tmp_path / "huge.tar"
    path.write_bytes(huge.tobuf(tarfile.PAX_FORMAT) + b"x" * 1024)
    assert dict(mounted_files(path)) == {"sparse": found}
    assert f"1024 of its {huge.size} bytes" in problems(path)[0][1]


@pytest.mark.sampled(2)
@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar")
@pytest.mark.parametrize("flags", [["--format=gnu"], ["--format=posix"], ["--format=posix", "--sparse-version=0.1"]])
@pytest.mark.parametrize("piece_bytes", [3000, opening._PIECE_BYTES])
def test_sparse_members(flags: list[str], piece_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As brokers preallocate indexes; enough holes that a GNU header has extensions."""
    monkeypatch.setattr(opening, "_PIECE_BYTES", piece_bytes)
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        for number in range(30):
            file.seek(number * 300_000)
            file.write(bytes([number + 1]) * 5000)
        file.truncate(10 << 20)
    done = subprocess.run(["tar", "-cSf", "s.tar", *flags, "sparse"], cwd=tmp_path, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this tar makes no such archives")
    assert (tmp_path / "s.tar").stat().st_size < 1 << 20
    assert dict(mounted_files(tmp_path / "s.tar")) == {"sparse": sparse.read_bytes()}
    assert problems(tmp_path / "s.tar") == []


@pytest.mark.parametrize("more", [-1, 0, 1, 243, 1000])
@pytest.mark.parametrize("pieces", [1, 2])
def test_the_end_of_a_deflated_member_may_follow_its_last_packed_byte(pieces: int, more: int, tmp_path: Path) -> None:
    """zlib has taken all input, and still holds output."""
    path = tmp_path / "intact.zip"
    data = bytes(pieces * OUTPUT_BYTES + more)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("zeros", data)
    assert dict(mounted_files(path)) == {"zeros": data}
    assert problems(path) == []


def test_unknown_and_damaged_members_of_a_zip_file(tmp_path: Path) -> None:
    path = tmp_path / "odd.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("good", b"good")
        made.writestr("packed", b"x" * 100, zipfile.ZIP_LZMA)
        made.writestr("deflated", b"y" * 5000, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes().replace(b"\x0e\0", b"\x62\0"))
    path.write_bytes(data)
    assert dict(mounted_files(path)) == {"good": b"good", "deflated": b"y" * 5000}
    assert "method 98, which is not read" in problems(path)[0][1]
    at = data.index(b"deflated") + len("deflated") + 3
    data[at] ^= 0x55
    path.write_bytes(data)
    assert ("damaged-archive", True) in [(code, "'deflated'" in message) for code, message in problems(path)]


def test_lzma_in_a_zip_file_is_bounded_in_memory_and_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "lzma.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("packed", bytes(range(256)) * 400)
    data = path.read_bytes()
    at = data.index(b"packed") + len("packed")
    size = int.from_bytes(data[at + 2 : at + 4], "little")
    assert size == 5
    for offset, value, problem in (
        (5, b"\xff\xff\xff\xff", "dictionary"),
        (2, b"\x09", "header"),
        (20, b"\0\0", "'packed'"),
    ):
        path.write_bytes(data[: at + offset] + value + data[at + offset + len(value) :])
        assert dict(mounted_files(path)).keys() == {"packed"}
        ((code, message),) = problems(path)
        assert (code, problem in message) == ("damaged-archive", True), message


@pytest.mark.sampled(3)
@pytest.mark.parametrize("packing", PACK)
def test_bombs_end_at_the_bound(packing: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(PACK[packing](bytes(16 << 20)))
    spool = Spool(str(tmp_path), 1 << 20)
    with pytest.raises(SpoolFullError):
        list(mounted_files(path, spool))
    assert os.listdir(tmp_path) == ["bomb"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("packing", PACK)
def test_bombs_expand_piece_by_piece(packing: str) -> None:
    pieces = [len(piece) for piece in unpacked(MemoryExtent(PACK[packing](bytes(8 << 20))))]
    assert sum(pieces) == 8 << 20
    assert max(pieces) <= 1 << 20


@pytest.mark.parametrize("packing", PACK)
def test_damaged_streams_give_what_comes_before(packing: str) -> None:
    chosen = random.Random(1)
    data = chosen.randbytes(3000) * 40
    whole = PACK[packing](data)
    for _ in range(ROUNDS):
        hurt = bytearray(whole)
        for _ in range(chosen.randrange(1, 4)):
            hurt[chosen.randrange(len(hurt))] ^= 1 << chosen.randrange(8)
        cut = bytes(hurt[: chosen.choice((len(hurt), chosen.randrange(1, len(hurt))))])
        found, failure = b"", None
        try:
            for piece in unpacked(MemoryExtent(cut)):
                found += piece
        except UnpackError as error:
            failure = error
        assert failure is not None or found == data
        assert failure is None or 0 <= failure.position <= len(cut)
    for end in range(8, len(whole) - 1, len(whole) // 40):
        with pytest.raises(UnpackError):
            list(unpacked(MemoryExtent(whole[:end])))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["tar", "tar.gz", "zip"])
def test_archives_with_random_damage_end(form: str, tmp_path: Path) -> None:
    chosen = random.Random(form)
    made = io.BytesIO()
    contents = {f"logs/t-{number}/{number:020}.log": chosen.randbytes(700 * number) for number in range(6)}
    if form == "zip":
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in contents.items():
                archive.writestr(name, data)
    else:
        made.write(b"".join(member(name, data) for name, data in contents.items()) + bytes(1024))
    whole = gzip.compress(made.getvalue()) if form == "tar.gz" else made.getvalue()
    path = tmp_path / "archive"
    path.write_bytes(whole)
    assert dict(mounted_files(path)) == contents
    for _ in range(ROUNDS):
        hurt = bytearray(whole)
        for _ in range(chosen.randrange(1, 6)):
            at = chosen.randrange(len(hurt))
            hurt[at : at + chosen.randrange(1, 9)] = chosen.randbytes(chosen.randrange(1, 9))
        path.write_bytes(hurt[: chosen.choice((len(hurt), chosen.randrange(len(hurt))))])
        try:
            for name, _ in mounted_files(path, Spool(None, 1 << 22)):
                assert not name.startswith("..")
        except (KsegError, OSError):
            pass
    assert os.listdir(tmp_path) == ["archive"]


def zstd_frame(exponent: int, data: bytes) -> bytes:
    """A frame of one stored block that asks for a window of 2 to the power of 10 + ``exponent`` bytes."""
    return b"\x28\xb5\x2f\xfd\0" + bytes([exponent << 3]) + (len(data) << 3 | 1).to_bytes(3, "little") + data


def test_a_zstd_frame_gets_a_window_of_at_most_128_mib() -> None:
    assert b"".join(unpacked(MemoryExtent(zstd_frame(17, b"stored")))) == b"stored"
    for exponent in (18, 20, 31):
        with pytest.raises(UnpackError, match=r"zstd: .*"):
            b"".join(unpacked(MemoryExtent(zstd_frame(exponent, b"stored"))))


def test_a_damaged_block_of_zstd_leaves_those_before_it() -> None:
    data = random.Random(4).randbytes(200_000)  # not compressible: two blocks as they are
    packed, pieces = bytearray(PACK["zstd"](data)), list[bytes]()
    packed[packed.index(data[131072:131080]) - 3] |= 6  # a type of block that does not exist
    with pytest.raises(UnpackError, match="zstd: "):
        pieces.extend(unpacked(MemoryExtent(bytes(packed))))
    found = b"".join(pieces)
    assert data.startswith(found)
    assert len(found) > 131_000


def test_a_zip_directory_beyond_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 20 * (46 + len("file-00"))
    path = zip_of(tmp_path / "some.zip", (f"file-{number:02}" for number in range(20)))
    monkeypatch.setattr(members, "_MAX_DIRECTORY_BYTES", size)
    assert problems(path) == []
    monkeypatch.setattr(members, "_MAX_DIRECTORY_BYTES", size - 1)
    ((_, message),) = problems(path)
    assert f"{size} bytes" in message
    assert len(list(mounted_files(path))) == 20


def test_a_zip_file_is_read_up_to_the_limit_of_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MAX_MEMBERS", 3)
    for count in (3, 4, 7):
        path = zip_of(tmp_path / f"{count}.zip", (f"file-{number}" for number in range(count)))
        assert sorted(name for name, _ in mounted_files(path)) == ["file-0", "file-1", "file-2"]
        told = [] if count == 3 else [("damaged-archive", "has more than 3 members")]
        assert problems(path) == told
