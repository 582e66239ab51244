"""The members of tar and zip files as a tree of names; nothing is ever written under them."""

import lzma
import posixpath
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader
from typing import NamedTuple

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


# Lists the members of a tar file: ustar, pax and GNU, sparse ones too. Source: POSIX pax, GNU tar's manual.
#
# header (512 bytes) name 100 | mode 8 | uid 8 | gid 8 | size 12 | mtime 12 | checksum 8 | type 1 | linkname 100 magic
# 6 "ustar" | version 2 | user 32 | group 32 | device 16 | prefix 155 data padded to 512 bytes end two blocks of zeros
#
# Damage between members is skipped: the next header is found by its checksum.

_WINDOW_BYTES = 64 << 10
_MAX_EXTRA_BYTES = 1 << 20
"""Limit of the size of a long name, of pax records and of a sparse map."""
_HARD_LINK, _SYMBOLIC_LINK, _FOLDER = b"1", b"2", b"5"
_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL, _GNU_SPARSE = b"L", b"K", b"xX", b"g", b"S"
_WITHOUT_DATA = b"23456"
"""Symbolic links, devices, directories and FIFOs."""

Map = tuple[tuple[int, int], ...]
"""Ranges of a sparse file that are stored, one after another in the archive: position in the file, and size."""


class _Header(NamedTuple):
    name: str
    size: int
    modified_ns: int
    kind: bytes
    target: str
    block: bytes


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


class TarListing:
    """Lists a tar file: `members`."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._size = extent.current_size()
        self._members = Members()
        self._window, self._start = b"", 0
        self._is_end_reported = False
        self._pax: dict[str, str] = {}
        self._global: dict[str, str] = {}
        self._long: dict[bytes, str] = {}

    def _read(self, position: int, size: int) -> bytes:
        at = position - self._start
        if at < 0 or at + size > len(self._window):
            # Headers of small members are near each other.
            self._window, self._start, at = self._extent.pread(max(size, _WINDOW_BYTES), position), position, 0
        return self._window[at : at + size]

    def members(self) -> Members:
        """Returns the members; damage is in their ``problems``. Call it once. Raises OSError."""
        position, members = 0, self._members
        while position < self._size:
            block = self._read(position, forms.BLOCK_BYTES)
            if not any(block):
                if not any(self._read(position + forms.BLOCK_BYTES, forms.BLOCK_BYTES)):
                    break
                position += forms.BLOCK_BYTES
                continue
            if members.count >= MAX_MEMBERS:
                members.damage(position, f"has more than {MAX_MEMBERS} members")
                break
            found = self._header(block)
            position = self._behind_damage(position) if found is None else self._member(position, found)
        else:
            if not self._is_end_reported:
                members.damage(self._size, "has no end marker: it is truncated")
        members.finish()
        return members

    def _header(self, block: bytes) -> _Header | None:
        size, seconds = forms.tar_number(block[124:136]), forms.tar_number(block[136:148])
        if not forms.is_tar_header(block) or size is None:
            return None
        name, kind = _text(block[:100]), block[156:157]
        is_posix = block[forms.TAR_MAGIC_AT : forms.TAR_MAGIC_AT + 6] == b"ustar\0"
        if is_posix and (prefix := _text(block[345:500])):
            name = f"{prefix}/{name}"
        return _Header(name, size, (seconds or 0) * 1_000_000_000, kind, _text(block[157:257]), block)

    def _behind_damage(self, position: int) -> int:
        """Returns the position of the next header, or the end; records the skipped bytes."""
        at = position + forms.BLOCK_BYTES
        while at < self._size:
            block = self._read(at, forms.BLOCK_BYTES)
            if block[forms.TAR_MAGIC_AT : forms.TAR_MAGIC_AT + 5] == forms.TAR_MAGIC and forms.is_tar_header(block):
                break
            at += forms.BLOCK_BYTES
        at = min(at, self._size)
        self._is_end_reported |= at == self._size
        text = f"no header of a member at position {position}: {at - position} bytes are skipped"
        self._members.damage(position, text)
        self._pax, self._long = {}, {}
        return at

    def _member(self, position: int, header: _Header) -> int:
        """Adds the member of a header; returns the position of the next header."""
        start = position + forms.BLOCK_BYTES
        if header.kind in (_LONG_NAME, _LONG_LINK) or header.kind in _PAX or header.kind == _PAX_GLOBAL:
            if header.size > _MAX_EXTRA_BYTES:
                self._members.damage(position, f"the name or attributes of a member take {header.size} bytes")
            data = self._read(start, header.size) if header.size <= _MAX_EXTRA_BYTES else b""
            if header.kind in (_LONG_NAME, _LONG_LINK):
                self._long[header.kind] = _text(data)
            else:
                (self._global if header.kind == _PAX_GLOBAL else self._pax).update(_records(data))
            return start + forms.tar_padded(header.size)
        extra, long = {**self._global, **self._pax}, self._long
        self._pax, self._long = {}, {}
        name = extra.get("path", long.get(_LONG_NAME, header.name))
        target = extra.get("linkpath", long.get(_LONG_LINK, header.target))
        size = int(text) if (text := extra.get("size", "")).isdigit() and len(text) < 19 else header.size
        modified_ns = header.modified_ns
        with suppress(ValueError, OverflowError):
            modified_ns = int(float(extra["mtime"]) * 1e9) if extra.get("mtime") else modified_ns
        member = Member(FILE, position, start, size, modified_ns)
        if header.kind == _GNU_SPARSE or any(key.startswith("GNU.sparse.") for key in extra):
            return self._sparse(name, member, header, extra)
        if header.kind in (_HARD_LINK, _SYMBOLIC_LINK):
            kind = LINK if header.kind == _SYMBOLIC_LINK else FILE
            member = member._replace(kind=kind, size=0, target=target or ".")
        elif header.kind == _FOLDER or (header.kind in forms.TAR_REGULAR and name.endswith("/")):
            member = member._replace(kind=DIRECTORY, size=0)
        elif header.kind not in forms.TAR_REGULAR:
            member = member._replace(kind=OTHER, size=0)
        else:
            member = member._replace(size=self._available(start, size, name))
        self._members.add(name, member)
        return start + (0 if header.kind in _WITHOUT_DATA else forms.tar_padded(size))

    def _available(self, start: int, size: int, name: str) -> int:
        """Returns the size of a member's data that the file has; records a truncation."""
        available = max(min(size, self._size - start), 0)
        if available < size:
            self._is_end_reported = True
            self._members.damage(self._size, f"is truncated in {name!r}: {available} of its {size} bytes are left")
        return available

    def _sparse(self, name: str, member: Member, header: _Header, extra: dict[str, str]) -> int:
        """Adds a sparse file: its map is in the header (GNU), in pax records (0.0, 0.1) or before its data (1.0)."""
        end = member.start + forms.tar_padded(member.size)
        try:
            real_size, ranges, start = self._map(member, header, extra)
            _check_map(real_size, ranges, member.size)
        except ValueError as error:
            self._members.skip(member, f"{name!r}: a sparse file {error}")
            return end
        if header.kind == _GNU_SPARSE:
            end = start + forms.tar_padded(member.size)
        name = extra.get("GNU.sparse.name", name)
        stored = sum(size for _, size in ranges)
        if (available := self._available(start, stored, name)) < stored:
            ranges = _cut(ranges, available)
            real_size = sum(ranges[-1]) if ranges else 0
        self._members.add(name, member._replace(start=start, size=real_size, data=ranges))
        return end

    def _map(self, member: Member, header: _Header, extra: dict[str, str]) -> tuple[int, Map, int]:
        """Returns the file's size, its map, and where the data begins. Raises ValueError."""
        if header.kind == _GNU_SPARSE:
            return self._gnu_map(member, header)
        real_size = int(extra.get("GNU.sparse.realsize", extra.get("GNU.sparse.size", "")))
        if extra.get("GNU.sparse.major") == "1":
            lines, start = self._map_lines(member)
        elif "GNU.sparse.map" in extra:
            lines, start = [int(word) for word in extra["GNU.sparse.map"].split(",") if word], member.start
        else:
            raise ValueError("with a map in an unknown format")
        return real_size, tuple(zip(lines[::2], lines[1::2], strict=True)), start

    def _gnu_map(self, member: Member, header: _Header) -> tuple[int, Map, int]:
        block, numbers, start = header.block, list[int](), member.start
        fields, is_extended = block[386:482], block[482:483] not in (b"\0", b"")
        while True:
            for at in range(0, len(fields), 24):
                if fields[at : at + 12].strip(b"\0 "):
                    numbers += [forms.tar_number(fields[each : each + 12]) or 0 for each in (at, at + 12)]
            if not is_extended:
                break
            block = self._read(start, forms.BLOCK_BYTES)
            if len(block) < forms.BLOCK_BYTES or len(numbers) > _MAX_EXTRA_BYTES:
                raise ValueError("whose map is truncated or too long")
            fields, is_extended, start = block[:504], block[504:505] not in (b"\0", b""), start + forms.BLOCK_BYTES
        return forms.tar_number(header.block[483:495]) or 0, tuple(zip(numbers[::2], numbers[1::2], strict=True)), start

    def _map_lines(self, member: Member) -> tuple[list[int], int]:
        data = self._extent.pread(min(member.size, _MAX_EXTRA_BYTES), member.start)
        count, _, rest = data.partition(b"\n")
        words = rest.split(b"\n", 2 * int(count))
        if len(words) <= 2 * int(count):
            raise ValueError("whose map is truncated or too long")
        used = len(data) - len(words[-1])
        return [int(word) for word in words[:-1]], member.start + forms.tar_padded(used)


def _check_map(real_size: int, ranges: Map, stored: int) -> None:
    position = 0
    for start, size in ranges:
        if start < position or size < 0 or start + size > real_size:
            raise ValueError("whose map is not valid")
        position = start + size
    if sum(size for _, size in ranges) > stored or real_size >= 1 << 62:
        raise ValueError("whose map is not valid")


def _cut(ranges: Map, available: int) -> Map:
    """Returns the ranges whose bytes are within the first ``available`` ones; the last may be shorter."""
    cut = []
    for start, size in ranges:
        if available > 0 and size > 0:
            cut.append((start, min(size, available)))
        available -= size
    return tuple(cut)


def _records(data: bytes) -> dict[str, str]:
    """Returns pax records: length, space, key=value, newline. Ends at the first that is not valid."""
    found = {}
    while data:
        digits, _, _ = data.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 8 else 0
        record = data[len(digits) + 1 : length]
        if not record.endswith(b"\n"):
            break
        key, _, value = record[:-1].partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        data = data[length:]
    return found


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
    _ZSTD: lambda extent, start, size: unpack.CompressedFrames(extent, start, start + size).zstd_frame(),
    _XZ: lambda *part: _decoded(unpack.new_decoder(forms.XZ), *part),
}
"""The supported methods."""
