"""Lists the members of a zip file by its directory, or by the headers before each member if the directory is damaged.

    local header   PK 3 4 | version 2 | flags 2 | method 2 | time 4 | crc 4 | packed 4 | size 4 | name 2 | extra 2 | …
Source: APPNOTE.TXT 6.3 of PKWARE. Flag bits: 0 encrypted, 3 sizes and CRC follow the data, 11 the name is UTF-8.
"""

import bz2
import lzma
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Any, NamedTuple

from kseg.stores.archives.forms import ZIP_MAGIC
from kseg.stores.archives.members import DAMAGED, DIRECTORY, FILE, LINK, MAX_MEMBERS, Member, Members
from kseg.stores.archives.unpack import LARGEST_DICTIONARY_BYTES, PullDecoder, ZlibDecoder
from kseg.stores.archives.unpack_error import UnpackError
from kseg.stores.archives.zstd_frame import ZstdFrame
from kseg.stores.extent import Extent, ExtentStream
from kseg.stores.trees import ArchiveProblem

_LOCAL = struct.Struct("<4s5H3I2H")
_ENCRYPTED, _FOLLOWED_BY_SIZES, _UTF8 = 1, 8, 0x800
STORED, _DEFLATED, _BZIP2, _LZMA, _ZSTD, _XZ = 0, 8, 12, 14, 93, 95
_LZMA_HEADER = struct.Struct("<2BHBI")
"""Version of the library, size of what follows, lc lp and pb in one byte, size of the dictionary."""
_PIECE_BYTES = 256 << 10
_MAX_DIRECTORY_BYTES = 1 << 28
"""Most of a directory that is read, which the library does at once: 256 bytes for each of MAX_MEMBERS."""


class Packed(NamedTuple):
    """How a member is stored. ``crc``: CRC-32 of its bytes, None if the archive ends in the middle of it."""

    method: int
    packed_bytes: int
    crc: int | None
    name: str


def list_members(extent: Extent) -> Members:
    """Lists a zip file. Damage is in the ``problems`` of the result. Raises OSError."""
    members = Members()
    try:
        with zipfile.ZipFile(_Bounded(_Kept(extent))) as found:
            infos = found.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OverflowError, EOFError) as error:
        position = extent.current_size()
        message = f"its directory cannot be read ({error}): members are read one after another"
        members.problem(ArchiveProblem(DAMAGED, position, message, True))
        _walk(extent, members)
    else:
        for info in infos[:MAX_MEMBERS]:
            _add(extent, members, info)
        if len(infos) > MAX_MEMBERS:
            members.problem(ArchiveProblem(DAMAGED, None, f"has more than {MAX_MEMBERS} members", True))
    members.finish()
    return members


class _Kept(ExtentStream):
    """An extent that stays open when the stream is closed."""

    def close(self) -> None:
        self._extent = Extent(-1)
        super().close()


class _Bounded(BufferedReader):
    """Refuses to read a directory that is too large."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"{size} bytes are above the limit of {_MAX_DIRECTORY_BYTES}")
        return super().read(size)


def _add(extent: Extent, members: Members, info: zipfile.ZipInfo) -> None:
    position = info.header_offset
    mode = info.external_attr >> 16
    member = Member(FILE, position, 0, info.file_size, _time_ns(info.date_time))
    if info.filename.endswith("/"):
        members.add(info.filename, member._replace(kind=DIRECTORY, size=0))
        return
    if mode & 0o170000 == 0o120000:
        members.add(info.filename, member._replace(kind=LINK, size=0))
        return
    head = extent.pread(_LOCAL.size, position)
    if len(head) < _LOCAL.size or not head.startswith(ZIP_MAGIC):
        message = f"no member at position {position}, where {info.filename!r} should be"
        members.problem(ArchiveProblem(DAMAGED, position, message, True))
        return
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
        why = (
            "is encrypted"
            if info.flag_bits & _ENCRYPTED
            else f"is packed by method {info.compress_type}, which is not read"
        )
        members.skip(member, f"{info.filename!r}: {why}")
        return
    *_, name_bytes, extra_bytes = _LOCAL.unpack(head)
    start = position + _LOCAL.size + name_bytes + extra_bytes
    data = Packed(info.compress_type, info.compress_size, info.CRC, info.filename)
    members.add(info.filename, member._replace(start=start, data=data))


def _walk(extent: Extent, members: Members) -> None:
    """Adds the members by the headers before them, up to the first that cannot be read without the directory."""
    position, end = 0, extent.current_size()
    for _ in range(MAX_MEMBERS):
        head = extent.pread(_LOCAL.size, position)
        if len(head) < _LOCAL.size or not head.startswith(ZIP_MAGIC):
            return
        _, _, flags, method, _, _, crc, packed_bytes, size, name_bytes, extra_bytes = _LOCAL.unpack(head)
        names = extent.pread(name_bytes, position + _LOCAL.size)
        name = names.decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        start = position + _LOCAL.size + name_bytes + extra_bytes
        member = Member(FILE, position, start, size, 0)
        if flags & _ENCRYPTED or method not in _METHODS or 0xFFFFFFFF in (packed_bytes, size):
            members.skip(member, f"{name!r}: cannot be read without the archive's directory")
            return
        if flags & _FOLLOWED_BY_SIZES:
            members.skip(member, f"{name!r}: its size follows its data and cannot be known")
            return
        if name.endswith("/"):
            members.add(name, member._replace(kind=DIRECTORY, size=0))
        else:
            available = min(packed_bytes, max(end - start, 0))
            if method == STORED:
                member = member._replace(size=min(size, available))
            members.add(
                name, member._replace(data=Packed(method, available, crc if available == packed_bytes else None, name))
            )
        position = start + packed_bytes


def _time_ns(date_time: tuple[int, int, int, int, int, int]) -> int:
    try:
        return int(time.mktime((*date_time, 0, 0, -1))) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


class DamagedMemberError(Exception):
    """The packed bytes of a member end early, are not valid, or have another CRC."""


def unpacked(extent: Extent, member: Member) -> Iterator[bytes]:
    """Yields the bytes of a packed member. Raises DamagedMemberError after all bytes before the damage; OSError."""
    packed = member.data
    if not isinstance(packed, Packed):
        raise TypeError(member)
    crc, size = 0, 0
    try:
        for piece in _METHODS[packed.method](extent, member.start, packed.packed_bytes):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            yield piece
    except (zlib.error, lzma.LZMAError, EOFError, ValueError, UnpackError) as error:
        raise DamagedMemberError(f"{packed.name!r}: {error}") from error
    if packed.crc is not None and (crc, size) != (packed.crc, member.size):
        raise DamagedMemberError(f"{packed.name!r}: its CRC or size is not that of the archive's directory")
    if packed.crc is None:
        raise DamagedMemberError(f"{packed.name!r}: the archive ends in the middle of it")


def _pieces(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    end = start + size
    while start < end and (piece := extent.pread(min(_PIECE_BYTES, end - start), start)):
        yield piece
        start += len(piece)


def _inflated(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    decoder = ZlibDecoder(-zlib.MAX_WBITS)  # negative: without a header
    for data in _pieces(extent, start, size):
        yield from decoder.decode(data)


def _pulled(library: Any, extent: Extent, start: int, size: int) -> Iterator[bytes]:
    decoder = PullDecoder(library)
    for data in _pieces(extent, start, size):
        yield from decoder.decode(data)
        if decoder.eof:
            return


def _bunzipped(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    return _pulled(bz2.BZ2Decompressor(), extent, start, size)


def _of_lzma(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    head = extent.pread(_LZMA_HEADER.size, start)
    if len(head) < _LZMA_HEADER.size:
        raise EOFError("its header of LZMA is cut off")
    _, _, header_bytes, properties, dictionary_bytes = _LZMA_HEADER.unpack(head)
    lp_pb, lc = divmod(properties, 9)
    pb, lp = divmod(lp_pb, 5)
    if header_bytes != _LZMA_HEADER.size - 4 or pb > 4:
        raise ValueError("its header of LZMA is not valid")
    if dictionary_bytes > LARGEST_DICTIONARY_BYTES:
        raise ValueError(f"its dictionary has {dictionary_bytes} bytes, more than {LARGEST_DICTIONARY_BYTES}")
    options = {"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": max(dictionary_bytes, 4096)}
    library = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[options])
    return _pulled(library, extent, start + _LZMA_HEADER.size, size - _LZMA_HEADER.size)


class _PackedMember:
    """The packed bytes of a member of one frame."""

    def __init__(self, extent: Extent, start: int, size: int) -> None:
        self._pieces = _pieces(extent, start, size)
        self.position = start

    def next_piece(self) -> bytes:
        piece = next(self._pieces, b"")
        self.position += len(piece)
        return piece

    def put_back(self, data: bytes) -> None:
        """Bytes behind the frame are ignored."""


def _of_zstd(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    return ZstdFrame(_PackedMember(extent, start, size)).pieces()


def _of_xz(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    return _pulled(lzma.LZMADecompressor(lzma.FORMAT_XZ, LARGEST_DICTIONARY_BYTES), extent, start, size)


_METHODS: dict[int, Callable[[Extent, int, int], Iterator[bytes]]] = {
    STORED: _pieces, _DEFLATED: _inflated, _BZIP2: _bunzipped, _LZMA: _of_lzma, _ZSTD: _of_zstd, _XZ: _of_xz,
}  # fmt: skip
"""The supported methods."""
