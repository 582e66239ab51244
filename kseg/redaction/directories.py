"""Writes the twin of a log directory, partition or file: a log directory of its own, completely or not at all."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kseg.changes.accepted_gaps import accepted_gaps, record
from kseg.changes.apply import check_free
from kseg.changes.copies import copied_rows
from kseg.changes.disk import Disk
from kseg.changes.driver.command import ChangeOptions
from kseg.changes.new_directories import NewDirectories, new_directories
from kseg.changes.plan import CREATE, Plan, Step
from kseg.errors import PathError, UnsupportedError, errors_at
from kseg.formats.json_values import name_value
from kseg.formats.suffixes import INDEX, LOG, LOG_SUFFIXES, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.kernel.scan.frames import leading_zeros
from kseg.limits import MAX_INDEX_BYTES, WINDOW_BYTES
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, option
from kseg.redaction.batches import COUNTED, Workers, numbers, random_like
from kseg.redaction.internal_records import rule_for
from kseg.redaction.pseudonyms import Pseudonyms
from kseg.redaction.segments import Moves, Redacted, SegmentRedaction
from kseg.runtime.threads import Pipeline, usable_cores
from kseg.segment.files import (
    CLEAN_SHUTDOWN,
    LOCK_NAME,
    OWN_PREFIX,
    STREAMS_CHECKPOINT,
    SegmentFile,
    is_regular_file,
    leads_to_directory,
    parse_partition_name,
    segment_file,
)
from kseg.segment.seek import OFFSET_ENTRY
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from kseg.sidefiles.kinds import side_file
from kseg.sidefiles.text_files import MAX_TEXT_BYTES, META_PROPERTIES
from kseg.stores.archives.mounting import form_at
from kseg.stores.no_follow import create_file, resolved
from kseg.stores.place import Place
from kseg.stores.source import STANDARD_INPUT

_ROW = re.compile(rb"(\S+)([ \t]+-?[0-9]+[ \t]+-?[0-9]+[ \t]*)")
"""An entry of a checkpoint, and its topic."""
_OWN_LINE = re.compile(
    rb"[-0-9 \t]*|version: [0-9]+|topic_id: [\w-]{22}|(version|broker\.id|node\.id|cluster\.id|directory\.id)=\S*"
    rb"|#[\w :]*|\{.*\}"
)
"""Any other line of a broker's text files."""
_WORD_BYTE = re.compile(rb"[0-9A-Za-z\x80-\xff]")
_BINARY_KINDS = frozenset((INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT))
_MIN_HOLE_BYTES = 4096
_MAX_DEPTH = 4
"""Of folders below a path: a directory with nodes, their disks, and the partitions of these."""

REPLACED, CARRIED, MADE_RANDOM = (
    "its payloads are replaced", "holds no payloads: its numbers stay", "of no known kind: random bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RedactOptions:
    """The options of `kseg redact`."""

    names: bool = option("--names", CONTENTS, "Replace topic names and header keys, too.", bool)
    max_batch_bytes: int = declaration.batch_limit()
    jobs: int | None = declaration.jobs("threads")


class TwinFile(NamedTuple):
    """A file to write, under the name of its ``source``."""

    source: Place
    size: int
    mtime_ns: int


@dataclass(slots=True)
class TwinFolder:
    """A folder of the twin: ``name`` is that in the twin, "" for its root; ``source`` the directory that is copied;
    ``staged``: its path until the twin is complete; ``sizes``: those of the files written; ``counts``: what was
    replaced in it."""

    source: Place
    name: str
    files: list[TwinFile] = field(default_factory=list)
    staged: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Twin:
    """``plans``: a plan of new files for each folder; ``facts``: what was replaced in all, once it is written."""

    plans: list[Plan]
    facts: dict[str, int] | None = None


def redact(path: str, change: ChangeOptions, options: RedactOptions, advance: Callable[[int], None]) -> Twin:
    """Writes the twin of a path to the output, or plans it in a dry run. Raises KsegError; nothing was written then.

    ``advance`` gets numbers of bytes read.
    """
    if path == STANDARD_INPUT:
        raise UnsupportedError("redact does not read standard input: name a file or directory")
    names = Pseudonyms(options.names)
    place = Place(path, is_named=True)
    folders = list(_folders(place, names))
    topics = frozenset(
        os.fsencode(found[0]) for folder in folders if (found := parse_partition_name(folder.source.name))
    )
    writer = _Writer(names, topics, options.max_batch_bytes, advance)
    output = change.output or ""
    if Place(output).absolute.startswith(place.absolute + os.sep):
        raise PathError(f"{output}: lies in {path}, which is only read")
    with new_directories(output, change.takes_lock, change.is_dry) as made:
        if not change.is_dry:
            check_free(Place(made.folder), sum(file.size for folder in folders for file in folder.files))
        for folder in folders:
            folder.staged = made.add(folder.name, change.is_dry) if folder.name else made.folder
        if not change.is_dry:
            writer.write(folders, options.jobs or usable_cores())
            for folder in folders:
                if folder.name and (gaps := accepted_gaps(folder.source).ranges):
                    record(folder.staged, gaps, Disk())
            _take_rows(folders, made, names)
    facts = _as_json(sum((folder.counts for folder in folders), Counter[str]()))
    return Twin([_plan(output, folder, change.is_dry) for folder in folders], None if change.is_dry else facts)


def _folders(place: Place, names: Pseudonyms) -> Iterator[TwinFolder]:
    """Yields the folders of the twin, each behind the one that it is in. Raises KsegError."""
    with errors_at(place):
        if place.is_dir():
            found = list(_walk(place, "", names, _MAX_DEPTH))
            name = os.path.basename(place.absolute)
            if parse_partition_name(name) and not any(parse_partition_name(each.name) for each in found):
                name = _name_of(name, names)
                for folder in found:
                    folder.name = f"{name}/{folder.name}" if folder.name else name
            elif not any(folder.files for folder in found):
                raise PathError(f"{place}: holds no files")
            yield from found
            return
        place.status()
        if not _is_known(place):
            advice = "name a partition or log directory" if form_at(place) is None else "unpack it first"
            raise UnsupportedError(f"{place}: neither a segment nor a side file: {advice}")
        directory = place.absolute.parent
        is_partition = parse_partition_name(directory.name) is not None
        folder = TwinFolder(directory, _name_of(directory.name, names) if is_partition else "")
        _add(folder, place)
        yield folder


def _walk(place: Place, name: str, names: Pseudonyms, depth: int) -> Iterator[TwinFolder]:
    """Yields a folder, and those in it. Links are not followed."""
    own, inner = TwinFolder(place, name), []
    with errors_at(place), place.entries() as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if leads_to_directory(entry, with_links=False):
                inner.append(entry.name)
            elif not entry.is_symlink() and is_regular_file(entry):
                _add(own, place / entry.name)
    yield own
    is_partition = parse_partition_name(os.path.basename(place.absolute)) is not None
    for each in inner if depth else ():
        if not each.startswith(OWN_PREFIX) and (not is_partition or _is_known(place / each)):
            new = _name_of(each, names)
            yield from _walk(place / each, f"{name}/{new}" if name else new, names, depth - 1)


def _is_known(place: Place) -> bool:
    """Whether a name is that of a segment or a side file."""
    return segment_file(place).kind in LOG_SUFFIXES or side_file(place) is not None


def _add(folder: TwinFolder, path: Place) -> None:
    if path.name != LOCK_NAME and not path.name.startswith(OWN_PREFIX):
        status = path.status()
        folder.files.append(TwinFile(path, status.st_size, status.st_mtime_ns))


def _name_of(directory: str, names: Pseudonyms) -> str:
    """Returns the name that a directory has in the twin."""
    found = parse_partition_name(directory)
    if found is None or not names.with_topics:
        return directory
    topic = os.fsencode(found[0])
    data = os.fsencode(directory)
    return os.fsdecode(names.topic(topic) + data[len(topic) :]) if data.startswith(topic) else directory


def _take_rows(folders: Sequence[TwinFolder], made: NewDirectories, names: Pseudonyms) -> None:
    """Gives a twin of one partition its entries in the checkpoints, and the marker of a clean stop."""
    folder = folders[0]
    if not folder.name:
        return
    source = resolved(folder.source).absolute
    root = source.parent
    made.rows.update(copied_rows(root, {}, {source.name: folder.name}))
    for name in (CLEAN_SHUTDOWN, META_PROPERTIES):
        if (root / name).is_file():
            with errors_at(root / name):
                content = _text((root / name).read(MAX_TEXT_BYTES), name, names)
            Disk().write_file(Place(made.folder) / name, content, made.folder, needs_owner=False)


def _as_json(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in COUNTED}


def _plan(output: str, folder: TwinFolder, is_dry: bool) -> Plan:
    directory = Place(output) / folder.name if folder.name else Place(output)
    steps = [
        Step(CREATE, file.source.name, _reason(file), None, folder.sizes.get(file.source.name, file.size))
        for file in folder.files
    ]
    plan = Plan(directory, steps)
    if not is_dry:
        row = {"type": "redacted", "directory": name_value(directory), "original": name_value(folder.source)}
        plan.facts.append(row | _as_json(folder.counts))
    return plan


def _reason(file: TwinFile) -> str:
    if segment_file(file.source).kind in LOG_SUFFIXES:
        return REPLACED
    return MADE_RANDOM if side_file(file.source) is None else CARRIED


class _Output:
    """A file of the twin. It is not synced: a twin can be made again. ``positions``: those of which it notes the
    ``moves``."""

    def __init__(self, file: TwinFile, folder: TwinFolder, positions: Iterable[int] = ()) -> None:
        self.folder, self.moves = folder, Moves(list(positions))
        self._file, self._size, self._descriptor = file, 0, -1

    def open(self) -> None:
        self._descriptor = create_file(Place(self.folder.staged) / self._file.source.name)

    def write(self, redacted: Redacted) -> int:
        """Appends a piece, with a hole for zeros. Returns its size."""
        piece = redacted.piece
        length = piece if isinstance(piece, int) else len(piece)
        self.moves.note(redacted.position, redacted.end, self._size, length)
        self._size += length
        if isinstance(piece, int) or (length >= _MIN_HOLE_BYTES and leading_zeros(piece) == length):
            os.lseek(self._descriptor, self._size, os.SEEK_SET)
            return length
        view = memoryview(piece)
        while view:
            view = view[os.write(self._descriptor, view) :]
        return length

    def end(self) -> None:
        """Gives the file its size, mode and time."""
        os.ftruncate(self._descriptor, self._size)
        Disk().set_default_mode(self._descriptor)
        os.utime(self._descriptor, ns=(self._file.mtime_ns, self._file.mtime_ns))
        self.folder.sizes[self._file.source.name] = self._size
        self.folder.counts.update(files=1, bytes=self._size)

    def close(self) -> None:
        os.close(self._descriptor)


_Result = tuple[_Output, Iterable[Redacted] | None, Counter[str]]
"""Pieces of a file, which may be made when they are written (None: the file is complete), and what was replaced."""
_Task = Callable[[], _Result]


class _Writer:
    """Writes the files of a twin one after the other, of pieces that threads make ahead."""

    def __init__(
        self, names: Pseudonyms, topics: frozenset[bytes], max_batch_bytes: int, advance: Callable[[int], None]
    ) -> None:
        self._names, self._topics, self._advance = names, topics, advance
        self._workers = Workers(names, max_batch_bytes)

    def write(self, folders: Iterable[TwinFolder], jobs: int) -> None:
        """Writes all files of folders. Raises KsegError."""
        current: _Output | None = None
        with Pipeline(jobs) as pipeline:
            try:
                for output, pieces, counts in pipeline.each(self._tasks(folders)):
                    if current is None:
                        current = output
                        current.open()
                    output.folder.counts.update(counts)
                    for piece in pieces or ():
                        self._advance(output.write(piece))
                    if pieces is None:
                        output.end()
                        output.close()
                        current = None
            finally:
                if current is not None:
                    current.close()

    def _tasks(self, folders: Iterable[TwinFolder]) -> Iterator[_Task]:
        for folder in folders:
            names = {file.source.name for file in folder.files}
            indexes = {file.source.name: file for file in folder.files if file.size <= MAX_INDEX_BYTES}
            for file in folder.files:
                name, found, side = file.source.name, segment_file(file.source), side_file(file.source)
                if found.kind in LOG_SUFFIXES:
                    index = indexes.get(name.replace(LOG, INDEX, 1)) if found.kind == LOG else None
                    yield from self._segment(found, file, index, folder)
                elif side is None:
                    yield from _side_file(file, folder, map(random_like, _windows(file.source)), randomBytes=file.size)
                elif side.kind != INDEX or name not in indexes or name.replace(INDEX, LOG, 1) not in names:
                    yield from _side_file(file, folder, self._carried(file, side.kind))

    def _segment(
        self, found: SegmentFile, file: TwinFile, index: TwinFile | None, folder: TwinFolder
    ) -> Iterator[_Task]:
        """Yields the tasks of a segment and its index, whose positions follow the batches."""
        data = b""
        if index is not None:
            with errors_at(index.source):
                data = index.source.read(MAX_INDEX_BYTES)
        whole = len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size
        entries = list(OFFSET_ENTRY.iter_unpack(data[:whole]))
        output = _Output(file, folder, (position for _, position in entries))
        redaction = SegmentRedaction(found, rule_for(found.topic, found.kind, self._names, self._topics), self._workers)
        for task in redaction.tasks():
            yield partial(lambda task: (output, *task()), task)
        yield from _last_tasks(output, (), redaction.counts())

        def moved() -> Iterator[bytes]:
            yield numbers(b"".join(OFFSET_ENTRY.pack(offset, output.moves.moved(at)) for offset, at in entries))
            yield numbers(data[whole:])

        if index is not None:
            yield from _side_file(index, folder, moved())

    def _carried(self, file: TwinFile, kind: str) -> Iterator[bytes]:
        """Yields the bytes of a side file."""
        if kind in _BINARY_KINDS:
            yield from map(numbers, _windows(file.source))
            return
        with errors_at(file.source):
            data = file.source.read(MAX_TEXT_BYTES)
        yield _text(data, kind, self._names)


def _text(data: bytes, kind: str, names: Pseudonyms) -> bytes:
    """Returns a text file of the twin: topics in checkpoints get their names in the twin, and lines that no broker
    writes, as of a lost block, other letters."""

    def new_line(found: "re.Match[bytes]") -> bytes:
        row = _ROW.fullmatch(found[0])
        if row is not None and (kind in OFFSET_CHECKPOINTS or kind == STREAMS_CHECKPOINT):
            return names.topic(row[1]) + row[2]
        if row is not None or _OWN_LINE.fullmatch(found[0]):
            return found[0]
        return _WORD_BYTE.sub(lambda _: bytes((97 + os.urandom(1)[0] % 26,)), found[0])

    return re.sub(rb"[^\r\n]+", new_line, data)


def _last_tasks(output: _Output, pieces: Iterable[Redacted], counts: Counter[str]) -> Iterator[_Task]:
    """Yields tasks for the last pieces of a file and for its end."""
    yield lambda: (output, pieces, counts)
    yield lambda: (output, None, Counter())


def _side_file(file: TwinFile, folder: TwinFolder, pieces: Iterable[bytes], **counts: int) -> Iterator[_Task]:
    """Yields the tasks of a file without batches, whose positions nothing asks for."""
    return _last_tasks(_Output(file, folder), (Redacted(0, 0, piece) for piece in pieces), Counter(counts))


def _windows(place: Place) -> Iterator[bytes]:
    """Yields the bytes of a file. Raises PathError."""
    with errors_at(place), closing(place.open_extent()) as extent:
        at = 0
        while data := extent.pread(WINDOW_BYTES, at):
            yield data
            at += len(data)
