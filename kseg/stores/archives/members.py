"""The members of tar and zip files as a tree of names; nothing is ever written under them."""

import lzma
import posixpath
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader
from typing import NamedTuple, cast

from kseg.stores.archives import forms, unpack
from kseg.stores.extent import Extent, ExtentStream
from kseg.stores.trees import DIRECTORY, FILE, LINK, OTHER, ArchiveProblem, TreeNode

MAX_MEMBERS = 1 << 20
"""Largest number of members: a broker with 4,000 partitions of 50 segments has as many files."""
_MAX_NAME_BYTES = 4096
_MAX_DEPTH = 64
_MAX_PROBLEMS = 1000

DAMAGED, SKIPPED = "damaged-archive", "archive-member-skipped"


class Member(NamedTuple):
    """``kind`` as in `TreeNode`. ``position``: start of the header; ``start``: start of a file's bytes; ``data``: how
    they are stored, as the archive's format defines; ``target``: the name to which a link refers.
    """

    kind: int
    position: int = 0
    start: int = 0
    size: int = 0
    modified_ns: int = 0
    data: object = None
    target: str = ""


_Folder = dict[str, "Member | _Folder"]


class Members:
    """All members by path. ``root``: the file itself if it is no archive. ``problems``: skipped members, and damage."""

    def __init__(self, root: Member | None = None) -> None:
        self._root: _Folder = {}
        self._whole = root
        self.count = 0
        self.problems: list[ArchiveProblem] = []
        self._hard_links: list[tuple[str, Member]] = []

    def add(self, name: str, member: Member) -> None:
        """Adds a member under the name that the archive gives. A later one of the same name replaces an earlier one."""
        self.count += 1
        parts = self._parts(name, member)
        if parts is None:
            return
        if member.target and member.kind == FILE:
            self._hard_links.append(("/".join(parts), member))
            return
        self._put(parts, member)

    def finish(self) -> None:
        """Resolves hard links, which may come before the files to which they refer."""
        for name, link in self._hard_links:
            target = self._parts(link.target, link)
            found = None if target is None else self.at("/".join(target))
            if not isinstance(found, Member) or found.kind != FILE:
                self.skip(link, f"{_shown(name)}: a hard link to {_shown(link.target)}, which is not in the archive")
                continue
            self._put(name.split("/"), found._replace(position=link.position))
        self._hard_links = []

    def skip(self, member: Member, message: str) -> None:
        """Records a member that cannot be read, unless there are too many problems."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(ArchiveProblem(SKIPPED, member.position, message, True))

    def damage(self, position: int | None, message: str) -> None:
        """Records damage of the archive, if need be in place of the last problem."""
        del self.problems[_MAX_PROBLEMS - 1 :]
        self.problems.append(ArchiveProblem(DAMAGED, position, message, True))

    def _parts(self, name: str, member: Member) -> list[str] | None:
        """Returns the components of a name; None if it is not safe, which is recorded."""
        if "\0" in name or len(name) > _MAX_NAME_BYTES:
            self.skip(member, f"{_shown(name)}: not a usable name")
            return None
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or len(parts) > _MAX_DEPTH:
            reason = "leads out of the archive" if ".." in parts else "too many directories"
            self.skip(member, f"{_shown(name)}: {reason}")
            return None
        return parts

    def _put(self, parts: list[str], member: Member) -> None:
        folder = self._root
        for part in parts[:-1]:
            inner = folder.setdefault(part, {})
            if isinstance(inner, Member):
                self.skip(member, f"{_shown('/'.join(parts))}: is below a file")
                return
            folder = inner
        if not parts:
            return
        name, path = parts[-1], "/".join(parts)
        found = folder.get(name)
        if member.kind == DIRECTORY:
            if isinstance(found, Member):
                self.skip(member, f"{_shown(path)}: a directory of the same name as a file")
            else:
                folder.setdefault(name, {})
            return
        if isinstance(found, dict):
            self.skip(member, f"{_shown(path)}: of the same name as a directory")
            return
        if found is not None:
            self.skip(found, f"{_shown(path)}: is in the archive more than once; the last one is read")
        if member.kind == OTHER:
            self.skip(member, f"{_shown(path)}: a device or another special file")
        folder[name] = member

    def at(self, inner: str) -> "Member | _Folder | None":
        """Returns the member or directory at a path, None if there is none."""
        found: Member | _Folder | None = self._whole or self._root
        for part in inner.split("/") if inner else ():
            found = found.get(part) if isinstance(found, dict) else None
        return found


def node_of(found: "Member | _Folder") -> TreeNode:
    if isinstance(found, dict):
        return TreeNode(DIRECTORY, number=id(found))
    return TreeNode(found.kind, found.size, found.modified_ns, found.position + 1)


def _shown(name: str) -> str:
    """Returns a name for a message, shortened."""
    return repr(name if len(name) < 200 else posixpath.basename(name)[:200])


# Lists the members of a tar file with `tarfile`, which knows ustar, pax and GNU, sparse ones too.
#
# Damage between members is skipped: the next header is found by its checksum.

_WINDOW_BYTES = 64 << 10
_MAX_HEADER_BYTES = 1 << 20
"""Limit of the size of all headers of one member: with a long name, pax records and a sparse map."""

Map = tuple[tuple[int, int], ...]
"""Ranges of a sparse file that are stored, one after another in the archive: position in the file, and size."""


class _HeaderStream(BufferedReader):
    """Reads the headers of one member after `begin`. Raises ValueError if they are too large."""

    _left = 0

    def begin(self, position: int) -> None:
        self.seek(position)
        self._left = _MAX_HEADER_BYTES

    def read(self, size: int | None = -1) -> bytes:
        self._left -= size or 0
        if self._left < 0:
            raise ValueError("its headers are too large")
        return super().read(size)


class TarListing:
    """Lists a tar file: `members`."""

    def __init__(self, extent: Extent) -> None:
        self._size = extent.current_size()
        self._members = Members()
        self._headers = _HeaderStream(ExtentStream(extent.again()), _WINDOW_BYTES)
        self._is_end_reported = False

    def _block(self, position: int) -> bytes:
        self._headers.begin(position)
        return self._headers.read(forms.BLOCK_BYTES)

    def members(self) -> Members:
        """Returns the members; damage is in their ``problems``. Call it once. Raises OSError."""
        position, members = 0, self._members
        # A file that is read would be read at once, and refused if its first header is damaged. Nothing is written.
        tar = tarfile.TarFile("", "w", self._headers, encoding="utf-8", errors="surrogateescape")
        while position < self._size:
            if not any(self._block(position)):
                if not any(self._block(position + forms.BLOCK_BYTES)):
                    break
                position += forms.BLOCK_BYTES
                continue
            if members.count >= MAX_MEMBERS:
                members.damage(position, f"has more than {MAX_MEMBERS} members")
                break
            self._headers.begin(position)
            try:
                info = tarfile.TarInfo.fromtarfile(tar)
                is_header = info.size >= 0 and tar.offset > position
            except (tarfile.HeaderError, ValueError, ArithmeticError, LookupError, RecursionError):
                is_header = False
            position = self._add(info, position, tar.offset) if is_header else self._behind_damage(position)
        else:
            if not self._is_end_reported:
                members.damage(self._size, "has no end marker: it is truncated")
        self._headers.close()
        members.finish()
        return members

    def _behind_damage(self, position: int) -> int:
        """Returns the position of the next header, or the end; records the skipped bytes."""
        # From the last block that was read on: headers that follow headers are not read again and again.
        at = max(position, self._headers.tell() - 2 * forms.BLOCK_BYTES) + forms.BLOCK_BYTES
        while at < self._size:
            block = self._block(at)
            if block[forms.TAR_MAGIC_AT : forms.TAR_MAGIC_AT + 5] == forms.TAR_MAGIC and forms.is_tar_header(block):
                break
            at += forms.BLOCK_BYTES
        at = min(at, self._size)
        self._is_end_reported |= at == self._size
        text = f"no header of a member at position {position}: {at - position} bytes are skipped"
        self._members.damage(position, text)
        return at

    def _add(self, info: tarfile.TarInfo, position: int, end: int) -> int:
        """Adds the member of a header, and returns the position of the next one: ``end``, but for sparse files, of
        which `tarfile` may take one size for the other.
        """
        member = Member(FILE, position, info.offset_data)
        with suppress(ValueError, OverflowError):
            member = member._replace(modified_ns=int(float(info.mtime) * 1e9))
        if info.sparse is not None:
            ranges = tuple(part for part in cast(Map, info.sparse) if part[1])
            given = info.pax_headers
            size = int(given.get("GNU.sparse.realsize", given.get("GNU.sparse.size", info.size)))
            if not _is_map(ranges, size):
                self._members.skip(member, f"{info.name!r}: a sparse file whose map is not valid")
                return end
            stored = sum(size for _, size in ranges)
            end = info.offset_data + forms.tar_padded(stored)
            if (available := self._available(info, stored)) < stored:
                ranges = _cut(ranges, available)
                size = sum(ranges[-1]) if ranges else 0
            member = member._replace(size=size, data=ranges)
        elif info.issym() or info.islnk():
            member = member._replace(kind=LINK if info.issym() else FILE, target=info.linkname or ".")
        elif info.isdir() or (info.isreg() and info.name.endswith("/")):
            member = member._replace(kind=DIRECTORY)
        elif not info.isreg():
            member = member._replace(kind=OTHER)
        else:
            member = member._replace(size=self._available(info, info.size))
        self._members.add(info.name, member)
        return end

    def _available(self, info: tarfile.TarInfo, size: int) -> int:
        """Returns the size of a member's data that the file has; records a truncation."""
        available = max(min(size, self._size - info.offset_data), 0)
        if available < size:
            self._is_end_reported = True
            text = f"is truncated in {info.name!r}: {available} of its {size} bytes are left"
            self._members.damage(self._size, text)
        return available


def _is_map(ranges: Map, real_size: int) -> bool:
    """Whether the ranges follow each other in a file of this size."""
    position = 0
    for start, size in ranges:
        if start < position or size < 0 or start + size > real_size:
            return False
        position = start + size
    return real_size < 1 << 62


def _cut(ranges: Map, available: int) -> Map:
    """Returns the ranges whose bytes are within the first ``available`` ones; the last may be shorter."""
    cut = []
    for start, size in ranges:
        if available > 0:
            cut.append((start, min(size, available)))
        available -= size
    return tuple(cut)


# Lists the members of a zip file by its directory, or by the headers before each member if the directory is damaged.
#
# local header PK 3 4 | version 2 | flags 2 | method 2 | time 4 | crc 4 | packed 4 | size 4 | name 2 | extra 2 | …
# Source: APPNOTE.TXT 6.3 of PKWARE. Flag bits: 0 encrypted, 3 sizes and CRC follow the data, 11 the name is UTF-8.

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


def zip_members(extent: Extent) -> Members:
    """Lists a zip file. Damage is in the ``problems`` of the result. Raises OSError."""
    members = Members()
    try:
        with _Bounded(ExtentStream(extent.again())) as file, zipfile.ZipFile(file) as found:
            infos = found.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OverflowError, EOFError) as error:
        text = f"its directory cannot be read ({error}): members are read one after another"
        members.damage(extent.current_size(), text)
        _walk(extent, members)
    else:
        for info in infos[:MAX_MEMBERS]:
            _add(extent, members, info)
        if len(infos) > MAX_MEMBERS:
            members.damage(None, f"has more than {MAX_MEMBERS} members")
    members.finish()
    return members


class _Bounded(BufferedReader):
    """Refuses to read a directory that is too large."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"{size} bytes are above the limit of {_MAX_DIRECTORY_BYTES}")
        return super().read(size)


def _add(extent: Extent, members: Members, info: zipfile.ZipInfo) -> None:
    position = info.header_offset
    mode, modified_ns = info.external_attr >> 16, 0
    with suppress(ValueError, OverflowError):
        modified_ns = int(time.mktime((*info.date_time, 0, 0, -1))) * 1_000_000_000
    member = Member(FILE, position, 0, info.file_size, modified_ns)
    if info.filename.endswith("/"):
        members.add(info.filename, member._replace(kind=DIRECTORY, size=0))
        return
    if mode & 0o170000 == 0o120000:
        members.add(info.filename, member._replace(kind=LINK, size=0))
        return
    head = extent.pread(_LOCAL.size, position)
    if len(head) < _LOCAL.size or not head.startswith(forms.ZIP_MAGIC):
        members.damage(position, f"no member at position {position}, where {info.filename!r} should be")
        return
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
        why = f"is packed by method {info.compress_type}, which is not read"
        members.skip(member, f"{info.filename!r}: {'is encrypted' if info.flag_bits & _ENCRYPTED else why}")
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
        if len(head) < _LOCAL.size or not head.startswith(forms.ZIP_MAGIC):
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
            data = Packed(method, available, crc if available == packed_bytes else None, name)
            members.add(name, member._replace(data=data))
        position = start + packed_bytes


def unpacked_member(extent: Extent, member: Member) -> Iterator[bytes]:
    """Yields the bytes of a packed member. Raises OSError, and UnpackError after all bytes before the damage: they end
    early, are not valid, or have another CRC.
    """
    packed = member.data
    if not isinstance(packed, Packed):
        raise TypeError(member)
    crc, size = 0, 0
    try:
        for piece in _METHODS[packed.method](extent, member.start, packed.packed_bytes):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            yield piece
    except (zlib.error, lzma.LZMAError, EOFError, ValueError, forms.UnpackError) as error:
        raise forms.UnpackError(member.position, f"{packed.name!r}: {error}") from error
    if packed.crc is None:
        raise forms.UnpackError(member.position, f"{packed.name!r}: the archive ends in the middle of it")
    if (crc, size) != (packed.crc, member.size):
        text = f"{packed.name!r}: its CRC or size is not that of the archive's directory"
        raise forms.UnpackError(member.position, text)


def _pieces(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    end = start + size
    while start < end and (piece := extent.pread(min(_PIECE_BYTES, end - start), start)):
        yield piece
        start += len(piece)


def _decoded(decoder: unpack.FrameDecoder, extent: Extent, start: int, size: int) -> Iterator[bytes]:
    for data in _pieces(extent, start, size):
        yield from decoder.decode(data)
        if decoder.eof:
            return


def _of_lzma(extent: Extent, start: int, size: int) -> Iterator[bytes]:
    head = extent.pread(_LZMA_HEADER.size, start)
    if len(head) < _LZMA_HEADER.size:
        raise EOFError("its header of LZMA is cut off")
    _, _, header_bytes, properties, dictionary_bytes = _LZMA_HEADER.unpack(head)
    lp_pb, lc = divmod(properties, 9)
    pb, lp = divmod(lp_pb, 5)
    if header_bytes != _LZMA_HEADER.size - 4 or pb > 4:
        raise ValueError("its header of LZMA is not valid")
    if dictionary_bytes > unpack.LARGEST_DICTIONARY_BYTES:
        raise ValueError(f"its dictionary has {dictionary_bytes} bytes, more than {unpack.LARGEST_DICTIONARY_BYTES}")
    options = {"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": max(dictionary_bytes, 4096)}
    decoder = unpack.FrameDecoder(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[options]))
    return _decoded(decoder, extent, start + _LZMA_HEADER.size, size - _LZMA_HEADER.size)


_METHODS: dict[int, Callable[[Extent, int, int], Iterator[bytes]]] = {
    STORED: _pieces,
    _DEFLATED: lambda *part: _decoded(unpack.ZlibDecoder(-zlib.MAX_WBITS), *part),  # negative: without a header
    _BZIP2: lambda *part: _decoded(unpack.new_decoder(forms.BZIP2), *part),
    _LZMA: _of_lzma,
    _ZSTD: lambda extent, start, size: unpack.CompressedFrames(extent, start, start + size).frame(forms.ZSTD),
    _XZ: lambda *part: _decoded(unpack.new_decoder(forms.XZ), *part),
}
"""The supported methods."""
