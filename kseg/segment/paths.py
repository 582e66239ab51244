"""Detects types of files, expands a PATH argument to its segments, and finds the files that commands skip."""

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice

from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.record_batch import HEADER_BYTES
from kseg.kernel.scan.frames import continues
from kseg.segment.files import (
    LOCK_NAME,
    LOG_DIRECTORY_FILES,
    OWN_PREFIX,
    Listing,
    SegmentFile,
    holds_segments,
    is_part_of_log,
    is_renamed_directory,
    leads_to_directory,
    list_segments,
    listing_of,
    own_partitions,
    parse_partition_name,
    regular_and_other_names,
    segment_file,
    segments_among,
)
from kseg.stores.archives.forms import (
    ARCHIVE_SUFFIXES,
    BLOCK_BYTES,
    REDPANDA_NAME,
    TAR,
    ZIP,
    UnpackError,
    form_of,
    is_tar_header,
    packing_name,
)
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source
from kseg.stores.stored_object import local_path
from kseg.stores.windows import FIRST_LOOK_BYTES, next_frame

# The type of a file from its first bytes: batches, compressed file or archive, text, or other.

HEAD_BYTES = 1 << 16
"""Number of bytes read of a file; bzip2 may need all of them to yield its first output."""
_TEXT_BYTES = 512

_NEVER_PACKED = (b"", bytes(4))
"""First bytes of the offsets of batches up to 2^32."""

# Compiled on first use.
_SEGMENT_NAME = (
    r"(.*\.(log|kafka)|[0-9]{20}(-[^.]*)?)"
    r"(\.(gz|bz2|xz|zst|zstd|lz4|zip|tar|bak|old|orig|copy|deleted|cleaned|swap|[0-9]+))*~?"
)
_TEXT = rb"[\t\n\r\x1b -~\x80-\xff]+"


def packing_of(head: bytes) -> str | None:
    """Returns how a file that begins with these bytes is packed: gzip, zstd, lz4, xz, bzip2, tar or zip; else None."""
    return None if head[:4] in _NEVER_PACKED else form_of(head)


def refuse_empty_pack(path: str) -> None:
    """Raises PathError for an empty file whose name is that of a packed file or archive: none of these has 0 bytes."""
    if path.endswith(ARCHIVE_SUFFIXES) and Place(path).tree is None and not Place(path).size():
        raise PathError(f"{path}: is empty, but by its name a packed file or archive: its bytes are lost")


def is_packed_segment(name: str, head: bytes) -> bool:
    """Whether a packed file may hold a segment, judged by its first unpacked bytes or its name. An archive may."""
    from kseg.stores.archives.unpack import MemoryExtent, unpacked

    start = b""
    with suppress(UnpackError):
        if packing_name(head) is not None:
            start = bytes(next(unpacked(MemoryExtent(head)), b"")[:BLOCK_BYTES])
    if form_of(head) in (TAR, ZIP) or is_tar_header(start):
        return True
    start = start[:HEADER_BYTES]
    if start and (_is_text(start) or continues(start, -1)):
        return not _is_text(start)
    return named_like_segment(name)


def named_like_segment(name: str) -> bool:
    """Whether a name resembles a segment's: .log, .kafka or 20 digits, followed at most by suffixes of copies and
    packed files."""
    return re.fullmatch(_SEGMENT_NAME, name) is not None


def read_head(source: Source) -> bytes:
    """Returns the first bytes of a file. Raises PathError if they cannot be read."""
    if source.is_in_place:
        source.need(0, HEAD_BYTES)
        return bytes(source.buffer[:HEAD_BYTES])
    with errors_at(source.path):
        return source.head(HEAD_BYTES)


def holds_batches(source: Source, name: str) -> bool:
    """Whether the file appears to be a segment. Raises PathError.

    This holds if it begins with a batch, if an intact batch follows soon, or if its name resembles a segment's and its
    bytes are neither text nor packed.
    """
    head = read_head(source)
    if not head or packing_of(head) is not None:
        return False
    if _is_text(head):
        return False
    if named_like_segment(name) or continues(head[:HEADER_BYTES], -1):
        return True
    return has_intact_batch(source)


def has_intact_batch(source: Source) -> bool:
    """Whether a batch whose checksum is right starts near the start of the file. Raises PathError."""
    with errors_at(source.path):
        return next_frame(source.extent, 0, source.size, FIRST_LOOK_BYTES) >= 0


def first_base_offset(source: Source) -> int | None:
    """Returns the base offset of the batch at the start of the file; None if there is none. Raises PathError."""
    head = read_head(source)
    return int.from_bytes(head[:8], "big") if continues(head[:HEADER_BYTES], -1) else None


def _is_text(head: bytes) -> bool:
    if re.fullmatch(_TEXT, head[:_TEXT_BYTES]) is None:
        return False
    # The last character may be cut.
    return "\ufffd" not in head[:_TEXT_BYTES].decode("utf-8", "replace")[:-3]


# Skipped files: log directories in subdirectories, and segments with other names.

DEPTH = 4
"""Number of directory levels searched."""
MAX_DIRECTORIES = 10_000
MAX_NAMES = 5


def log_directories_in(path: str) -> list[str]:
    """Returns log directories below a directory without following links; searches `DEPTH` levels and
    `MAX_DIRECTORIES`."""
    walk = islice(_walk(path, DEPTH), MAX_DIRECTORIES)
    found = [directory for directory, *names in walk if directory != path and is_log_directory(directory, names)]
    return [directory for directory in found if Place(directory).parent not in found]


def is_log_directory(path: str, names: Sequence[list[str]] = ()) -> bool:
    """Whether a directory has files of a log directory, or holds partitions rather than other log directories.

    ``names``: those of its regular files, and all others, if they are known. Raises PathError if it cannot be read.
    """
    files, others = names or regular_and_other_names(path)
    if not LOG_DIRECTORY_FILES.isdisjoint(files):
        return True
    for name in others:
        if parse_partition_name(name) is not None and (Place(path) / name).is_dir():
            inside, below = regular_and_other_names(Place(path) / name)
            if any(map(is_part_of_log, inside)) and LOG_DIRECTORY_FILES.isdisjoint(inside):
                return True
            if not inside and not below:
                return True  # a partition without files
    return False


def hint(path: str) -> str:
    """Returns an addition to an error about an unknown directory: the log directories, or segments of Redpanda, in it;
    "" if there are none."""
    if inside := log_directories_in(path):
        return f"; log directories in it: {some(inside)}"
    found = sorted(filter(REDPANDA_NAME.fullmatch, regular_and_other_names(path)[0]))
    return f"; segments of Redpanda in it, which are read one by one: {some(found)}" if found else ""


def warn_of_skipped_files(
    path: str,
    is_empty: bool,
    warn: Callable[[str], None],
    is_packed_only: bool = False,
    listing: Listing | None = None,
) -> None:
    """Reports the files of a partition directory that resemble segments but are read only by `kseg verify`.

    ``is_empty``: it has no other segment. ``is_packed_only``: only packed files. ``listing``: that of the directory, if
    there is one. Raises PathError if the directory cannot be read, or has nothing else, so that an empty result is not
    taken for a complete one.
    """
    if listing is None and not Place(path).is_dir():
        return
    listing = listing or listing_of(path)
    files, others = listing.names
    odd = [name for name in files if not (is_part_of_log(name) or name.startswith(OWN_PREFIX) or name == LOCK_NAME)]
    packings = {name: _segment_packing(Place(path) / name, name, is_packed_only) for name in odd}
    found = {name for name, packing in packings.items() if packing is not None}
    # Links lead out of a log directory: partitions behind them are not read.
    entries = (entry for entry in listing.others.values() if entry.is_symlink() and leads_to_directory(entry))
    found |= {entry.name for entry in entries if parse_partition_name(entry.name) is not None}
    found |= {name for name in others if named_like_segment(name) and not name.startswith(OWN_PREFIX)}
    if not found:
        return
    reads = "; kseg dump reads a packed segment that it is given by name" if any(packings.values()) else ""
    text = f"not read: {some(sorted(found))} (kseg verify shows more{reads})"
    if is_empty:
        raise PathError(f"{path}: no segment under a name that brokers give; {text}")
    warn(f"{path}: {text}")


def some(names: list[str], most: int = MAX_NAMES) -> str:
    """Returns at most so many of the names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _segment_packing(path: str, name: str, is_packed_only: bool) -> str | None:
    """Returns how a file that seems to be a segment is packed, "" if it is not; None for other files."""
    try:
        with open_source(path) as source:
            head = read_head(source)
            if (packing := packing_of(head)) is not None:
                return packing if is_packed_segment(name, head) else None
            return "" if not is_packed_only and holds_batches(source, name) else None
    except PathError:
        return "" if named_like_segment(name) else None


def _walk(path: str, depth: int) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields each directory with its files and subdirectories, top down."""
    try:
        files, others = regular_and_other_names(path)
    except PathError:
        return
    places = {name: Place(path) / name for name in sorted(others) if not name.startswith(OWN_PREFIX)}
    directories = [name for name, place in places.items() if place.is_dir() and not place.is_link()]
    yield path, files, directories
    for name in directories if depth else ():
        yield from _walk(places[name], depth - 1)


def expand_globs(paths: Iterable[str]) -> list[str]:
    """Expands globs; a path that exists or is a URL is no glob, except ``file:``. Raises PathError without a match."""
    found: list[str] = []
    for path in map(local_path, paths):
        if "://" in path or Place(path).lexists() or not glob.has_magic(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise PathError(f"{path}: matches nothing")
        found += matches
    return found


def each_once(paths: Iterable[str]) -> list[str]:
    """Returns the paths without those that lead to the place of an earlier one."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def expand_path(path: str) -> list[str]:
    """Expands a PATH argument: a file or partition directory to itself, a log directory to its partition directories.

    Links in a log directory are left out. Raises PathError if ``path`` does not exist or holds nothing of Kafka's.
    """
    Place(path).check()
    if not Place(path).is_dir():
        if path != "-" and not Place(path).lexists():
            raise PathError(f"{path or repr(path)}: no such file or directory")
        return [Place(path, is_named=True)]
    if holds_segments(path):
        return [path]
    if (partitions := own_partitions(path)) and is_log_directory(path):
        return partitions
    # Checked last, because a log directory may be called data-1.
    inside = hint(path)
    if parse_partition_name(os.path.basename(os.path.realpath(path))) and not inside:
        return [path]
    text = inside or " (no .log, .kafka or .checkpoint file in it)"
    raise PathError(f"{path}: neither a partition nor a log directory{text}")


def live_parts(path: str) -> tuple[list[str], list[str]]:
    """Returns `expand_path`, and apart from it the -delete, -future and -stray directories of a log directory: copies
    or remains of partitions, which are not read as these. Raises PathError."""
    parts = expand_path(path)
    moved = {part for part in parts if part != path and is_renamed_directory(part)}
    return [part for part in parts if part not in moved], [part for part in parts if part in moved]


def warn_of_unread(moved: Sequence[str], paths: Iterable[str], warn: Callable[[str], None], more: str = "") -> None:
    """Warns of moved directories of a log directory, but for those that are PATHs themselves. ``more``: another way to
    have them read."""
    named = {*map(os.path.abspath, paths)}
    if names := [os.path.basename(part) for part in moved if os.path.abspath(part) not in named]:
        where = os.path.dirname(moved[0])
        warn(f"{where}: not read, because a broker has moved or deleted them: {some(names)}; name them{more}")


def partition_count(paths: Iterable[str], parts_of: Callable[[str], list[str]] = expand_path) -> int:
    """Returns the number of partitions and files at paths; what cannot be read counts as none. ``parts_of``: returns
    those of a path."""
    count = 0
    for path in paths:
        with suppress(KsegError):
            count += len(parts_of(path))
    return count


def roots_of(path: str) -> list[str]:
    """Returns the log directories, partitions and directories of segments in an archive at any depth, by name.

    Returns the path itself if it is not that of an archive, or if there is nothing in it. Raises PathError.
    """
    Place(path).check()
    place = Place(path)
    if place.tree is None or not place.tree.is_archive or not place.is_dir():
        return [path]
    return list(_roots_in(path)) or [path]


def places_of(paths: Iterable[str]) -> list[str]:
    """Returns the paths; archives are replaced by their log directories and partitions."""
    places: list[str] = []
    for path in paths:
        try:
            places += roots_of(path)
        except KsegError:
            places.append(path)  # whoever reads it reports it
    return places


def _roots_in(path: str) -> Iterator[str]:
    places = [Place(path) / name for name in sorted(regular_and_other_names(path)[1])]
    inside = [place for place in places if place.is_dir()]
    if is_log_directory(path):
        yield path
        inside = [place for place in inside if parse_partition_name(os.path.basename(place)) is None]
    elif holds_segments(path):
        yield path
    for place in inside:
        yield from _roots_in(place)


def segments_at(path: str, everything: bool = False, listing: Listing | None = None) -> list[SegmentFile]:
    """Returns the segments of one path of `expand_path`; those of a directory as `list_segments` returns them.
    ``listing``: that of the directory, if there is one."""
    if listing is not None:
        return segments_among(path, listing.files, everything)
    return list_segments(path, everything) if Place(path).is_dir() else [segment_file(path)]


def all_bytes(listing: Listing) -> int:
    """Returns the size of all files in a listed directory, at any depth, each once: hard links share their bytes."""
    total, counted, left = 0, set[tuple[int, int]](), [listing]
    while left:
        place, files, others, _ = left.pop()
        for entry in chain(files.values(), others.values()):
            try:
                if others and entry.name in others and leads_to_directory(entry, with_links=False):
                    left.append(listing_of(place / entry.name))
                    continue
                status = entry.stat(follow_symlinks=False)
            except (KsegError, OSError):
                continue  # what has gone, or may not be read, has no size that is known
            if status.st_nlink > 1 and status.st_ino:  # some places number no files
                own = status.st_dev, status.st_ino
                if own in counted:
                    continue
                counted.add(own)
            total += status.st_size
    return total


def segment_bytes(part: str, everything: bool = False) -> int:
    """Returns the total size of the segments of a partition or file. Raises KsegError, OSError."""
    return sum(Place(file.path).size() for file in segments_at(part, everything))
