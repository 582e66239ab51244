"""Lists the members of a tar file: ustar, pax and GNU, sparse ones too. Source: POSIX pax, GNU tar's manual.

    header (512 bytes)   name 100 | mode 8 | uid 8 | gid 8 | size 12 | mtime 12 | checksum 8 | type 1 | linkname 100
                         magic 6 "ustar" | version 2 | user 32 | group 32 | device 16 | prefix 155
    data                 padded to 512 bytes
    end                  two blocks of zeros

Damage between members is skipped: the next header is found by its checksum.
"""

from typing import NamedTuple

from kseg.stores.archives.forms import (
    BLOCK_BYTES,
    TAR_MAGIC,
    TAR_MAGIC_AT,
    TAR_REGULAR,
    is_tar_header,
    tar_number,
    tar_padded,
)
from kseg.stores.archives.members import DAMAGED, DIRECTORY, FILE, LINK, MAX_MEMBERS, OTHER, Member, Members
from kseg.stores.extent import Extent
from kseg.stores.trees import ArchiveProblem

_WINDOW_BYTES = 64 << 10
_MAX_EXTRA_BYTES = 1 << 20
"""Limit of the size of a long name, of pax records and of a sparse map."""
_HARD_LINK, _SYMBOLIC_LINK, _FOLDER = b"1", b"2", b"5"
_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL, _GNU_SPARSE = b"L", b"K", b"xX", b"g", b"S"
_WITHOUT_DATA = b"346"
"""Devices and FIFOs."""

Map = tuple[tuple[int, int], ...]
"""Ranges of a sparse file that are stored, one after another in the archive: position in the file, and size."""


class _Header(NamedTuple):
    name: str
    size: int
    modified_ns: int
    kind: bytes
    target: str
    block: bytes


def list_members(extent: Extent) -> Members:
    """Lists a tar file. Damage is in the ``problems`` of the result. Raises OSError."""
    return _Listing(extent).read()


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


class _Listing:
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

    def read(self) -> Members:
        position, members = 0, self._members
        while position < self._size:
            block = self._read(position, BLOCK_BYTES)
            if not any(block):
                if not any(self._read(position + BLOCK_BYTES, BLOCK_BYTES)):
                    break
                position += BLOCK_BYTES
                continue
            if members.is_full:
                members.problem(ArchiveProblem(DAMAGED, position, f"has more than {MAX_MEMBERS} members", True))
                break
            found = self._header(block)
            position = self._behind_damage(position) if found is None else self._member(position, found)
        else:
            if not self._is_end_reported:
                members.problem(ArchiveProblem(DAMAGED, self._size, "has no end marker: it is truncated", True))
        members.finish()
        return members

    def _header(self, block: bytes) -> _Header | None:
        size, seconds = tar_number(block[124:136]), tar_number(block[136:148])
        if not is_tar_header(block) or size is None:
            return None
        name, kind, is_posix = _text(block[:100]), block[156:157], block[TAR_MAGIC_AT : TAR_MAGIC_AT + 6] == b"ustar\0"
        if is_posix and (prefix := _text(block[345:500])):
            name = f"{prefix}/{name}"
        return _Header(name, size, (seconds or 0) * 1_000_000_000, kind, _text(block[157:257]), block)

    def _behind_damage(self, position: int) -> int:
        """Returns the position of the next header, or the end; records the skipped bytes."""
        at = position + BLOCK_BYTES
        while at < self._size:
            block = self._read(at, BLOCK_BYTES)
            if block[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == TAR_MAGIC and is_tar_header(block):
                break
            at += BLOCK_BYTES
        at = min(at, self._size)
        self._is_end_reported |= at == self._size
        message = f"no header of a member at position {position}: {at - position} bytes are skipped"
        self._members.problem(ArchiveProblem(DAMAGED, position, message, True))
        self._pax, self._long = {}, {}
        return at

    def _member(self, position: int, header: _Header) -> int:
        """Adds the member of a header; returns the position of the next header."""
        start = position + BLOCK_BYTES
        if header.kind in (_LONG_NAME, _LONG_LINK) or header.kind in _PAX or header.kind == _PAX_GLOBAL:
            data = self._extra(position, header)
            if header.kind in (_LONG_NAME, _LONG_LINK):
                self._long[header.kind] = _text(data)
            else:
                (self._global if header.kind == _PAX_GLOBAL else self._pax).update(_records(data))
            return start + tar_padded(header.size)
        extra, long = {**self._global, **self._pax}, self._long
        self._pax, self._long = {}, {}
        name = extra.get("path", long.get(_LONG_NAME, header.name))
        target = extra.get("linkpath", long.get(_LONG_LINK, header.target))
        size = int(text) if (text := extra.get("size", "")).isdigit() and len(text) < 19 else header.size
        modified_ns = _nanoseconds(extra.get("mtime", ""), header.modified_ns)
        member = Member(FILE, position, start, size, modified_ns)
        if header.kind == _GNU_SPARSE or any(key.startswith("GNU.sparse.") for key in extra):
            return self._sparse(name, member, header, extra)
        if header.kind in (_HARD_LINK, _SYMBOLIC_LINK):
            kind = LINK if header.kind == _SYMBOLIC_LINK else FILE
            self._members.add(name, member._replace(kind=kind, size=0, target=target or "."))
            return start + (tar_padded(size) if header.kind == _HARD_LINK else 0)
        if header.kind == _FOLDER or (header.kind in TAR_REGULAR and name.endswith("/")):
            self._members.add(name, member._replace(kind=DIRECTORY, size=0))
            return start + (0 if header.kind == _FOLDER else tar_padded(size))
        if header.kind not in TAR_REGULAR:
            self._members.add(name, member._replace(kind=OTHER, size=0))
            return start + (tar_padded(size) if header.kind not in _WITHOUT_DATA else 0)
        self._members.add(name, member._replace(size=self._available(start, size, name)))
        return start + tar_padded(size)

    def _available(self, start: int, size: int, name: str) -> int:
        """Returns the size of a member's data that the file has; records a truncation."""
        available = max(min(size, self._size - start), 0)
        if available < size:
            self._is_end_reported = True
            message = f"is truncated in {name!r}: {available} of its {size} bytes are left"
            self._members.problem(ArchiveProblem(DAMAGED, self._size, message, True))
        return available

    def _extra(self, position: int, header: _Header) -> bytes:
        """Returns the data of a header that belongs to the next one."""
        if header.size > _MAX_EXTRA_BYTES:
            message = f"the name or attributes of a member take {header.size} bytes"
            self._members.problem(ArchiveProblem(DAMAGED, position, message, True))
            return b""
        return self._read(position + BLOCK_BYTES, header.size)

    def _sparse(self, name: str, member: Member, header: _Header, extra: dict[str, str]) -> int:
        """Adds a sparse file: its map is in the header (GNU), in pax records (0.0, 0.1) or before its data (1.0)."""
        end = member.start + tar_padded(member.size)
        try:
            real_size, ranges, start = self._map(member, header, extra)
            _check_map(real_size, ranges, member.size)
        except ValueError as error:
            self._members.skip(member, f"{name!r}: a sparse file {error}")
            return end
        if header.kind == _GNU_SPARSE:
            end = start + tar_padded(member.size)
        name = extra.get("GNU.sparse.name", name)
        self._available(start, sum(size for _, size in ranges), name)
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
                    numbers += [tar_number(fields[at : at + 12]) or 0, tar_number(fields[at + 12 : at + 24]) or 0]
            if not is_extended:
                break
            block = self._read(start, BLOCK_BYTES)
            if len(block) < BLOCK_BYTES or len(numbers) > _MAX_EXTRA_BYTES:
                raise ValueError("whose map is truncated or too long")
            fields, is_extended, start = block[:504], block[504:505] not in (b"\0", b""), start + BLOCK_BYTES
        return tar_number(header.block[483:495]) or 0, tuple(zip(numbers[::2], numbers[1::2], strict=True)), start

    def _map_lines(self, member: Member) -> tuple[list[int], int]:
        data = self._extent.pread(min(member.size, _MAX_EXTRA_BYTES), member.start)
        count, _, rest = data.partition(b"\n")
        words = rest.split(b"\n", 2 * int(count))
        if len(words) <= 2 * int(count):
            raise ValueError("whose map is truncated or too long")
        used = len(data) - len(words[-1])
        return [int(word) for word in words[:-1]], member.start + tar_padded(used)


def _check_map(real_size: int, ranges: Map, stored: int) -> None:
    position = 0
    for start, size in ranges:
        if start < position or size < 0 or start + size > real_size:
            raise ValueError("whose map is not valid")
        position = start + size
    if sum(size for _, size in ranges) > stored or real_size >= 1 << 62:
        raise ValueError("whose map is not valid")


def _nanoseconds(text: str, otherwise: int) -> int:
    try:
        return int(float(text) * 1e9) if text else otherwise
    except (ValueError, OverflowError):
        return otherwise


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
