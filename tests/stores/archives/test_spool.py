"""The limit of the bytes in temporary files: exactly at it all is written, above it nothing more."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kseg.errors import KsegError
from kseg.stores.archives.spool import Spool, SpoolFullError


@pytest.mark.parametrize("size", [9, 10, 11])
def test_a_file_of_at_most_the_limit_is_written_or_made(size: int, tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 10)
    pieces = [b"abcd", b"e" * (size - 4)]
    if size > 10:
        for write in (lambda: spool.add(pieces), lambda: spool.new_file(size)):
            with pytest.raises(SpoolFullError, match="more than 10 bytes"):
                write()
        return
    descriptor = spool.new_file(size)
    assert os.fstat(descriptor).st_size == size
    os.close(descriptor)
    found = spool.add(pieces)
    assert (found.size, found.pread(99, 0)) == (size, b"".join(pieces))


def test_files_share_the_limit(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 10)
    first, second = spool.add([b"12345"]), spool.add([b"67890"])
    assert (first.pread(5, 0), second.pread(5, 0)) == (b"12345", b"67890")
    with pytest.raises(SpoolFullError):
        spool.add([b"1"])


def test_ranges_leave_zeros_between_them(tmp_path: Path) -> None:
    found = Spool(str(tmp_path), 6).add_ranges([(1, b"abc"), (8, b"def")], 12)
    assert (found.size, found.pread(12, 0)) == (12, b"\0abc\0\0\0\0def\0")


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(KsegError, match=r"missing: .*--spool-dir"):
        Spool(str(tmp_path / "missing"), 10).add([b"1"])


@pytest.mark.parametrize("refusal", [None, errno.EOPNOTSUPP, AttributeError], ids=str)
def test_a_mapping_has_its_bytes_reserved(
    refusal: int | type[Exception] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the system, or the file system, cannot."""
    size, blocks = (1 << 20) + 5000, list[int]()
    spool = Spool(str(tmp_path), size)

    def mapped(descriptor: int, length: int) -> bytes:
        blocks.append(os.fstat(descriptor).st_blocks)
        return os.pread(descriptor, length, 0)

    if refusal is AttributeError:
        monkeypatch.delattr(os, "posix_fallocate")
    elif refusal is not None:
        monkeypatch.setattr(os, "posix_fallocate", refuse(int(refusal)))
    monkeypatch.setattr("kseg.stores.archives.spool.mmap.mmap", mapped)
    assert spool.new_mapping(size) == bytes(size)
    assert 512 * blocks[0] >= size


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are named by /proc")
def test_a_mapping_needs_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", refuse(errno.ENOSPC))
    with pytest.raises(KsegError, match=r"No space left on device: --spool-dir"):
        Spool(str(tmp_path), 10).new_mapping(10)
    with pytest.raises(SpoolFullError):
        Spool(str(tmp_path), 10).new_mapping(11)
    assert [name for name in open_files() if name.startswith(str(tmp_path))] == []


def refuse(number: int) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are named by /proc")
def test_a_file_that_cannot_have_its_size_is_closed(tmp_path: Path) -> None:
    with pytest.raises(KsegError, match="Invalid argument"):
        Spool(str(tmp_path), 10).new_file(-1)
    assert [name for name in open_files() if name.startswith(str(tmp_path))] == []


def open_files() -> Iterator[str]:
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing
            yield os.readlink(f"/proc/self/fd/{descriptor}")
