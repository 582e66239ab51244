"""The modes of a scan besides records, for Python and Spark: their parts and rows."""

import logging
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kseg.errors import SelectionWarning, UnsupportedError
from kseg.export import scanning
from kseg.export.arrow import location_columns, valid_text
from kseg.export.scanning import ReportDamage, ScanPart, ScanRequest
from kseg.formats.compression import codec_name
from kseg.formats.json_values import unset
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CHECKPOINT, SIDE_SUFFIXES
from kseg.kernel.layout.headers import CODEC, CONTROL, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL, V07_CODEC
from kseg.node.coordinators import CommitTable
from kseg.node.node import Nodes
from kseg.output.side_files import fields
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, segment_file, topic_of_place
from kseg.segment.items import READABLE_CODES, TIMESTAMP_TYPES, Damage, Problem
from kseg.segment.paths import expand_path, segment_bytes
from kseg.segment.reader import SegmentReader, open_segment
from kseg.segment.survey import BatchRow, HeaderRows
from kseg.sidefiles.kinds import ENTRY_NAMES, SideFile, list_side_files, read_items, side_file
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores.place import Place, size_of
from kseg.stores.source import Source, open_source

ROW_MODES = ("batches", "findings", "entries", "commits")


class Mode(NamedTuple):
    """``works(request, slice_bytes)`` yields the parts that can be read on their own, each with its size in bytes.

    ``rows(works, request, report)`` yields their rows by column name; ``report`` gets the ranges that are skipped
    because of damage.
    """

    works: Callable[..., Iterator[tuple[int, Any]]]
    rows: Callable[..., Iterator[dict[str, Any]]]


def mode_of(name: str) -> Mode:
    """Returns one of ROW_MODES."""
    if name == "findings":
        from kseg.api import findings_mode  # with all rules of verification

        return Mode(findings_mode.works, findings_mode.rows)
    return {
        "batches": Mode(scanning.parts_of_scan, batches),
        "entries": Mode(side_files_of, entries),
        "commits": Mode(offsets_partitions, commits),
    }[name]


# Mode ``batches``: the headers of all batches, with the fields of `kseg dump`.


def batches(parts: Iterable[ScanPart], request: ScanRequest, report: ReportDamage) -> Iterator[dict[str, Any]]:
    """Yields a row for each batch that starts in the parts and can contain requested offsets. Batches with a wrong
    checksum are rows; damage is reported.
    """
    scratch = Scratch(request.max_batch_bytes)
    for part in parts:
        with open_source(part.file.path) as source:
            yield from rows_of_part(part, source, scratch, request, report)


def rows_of_part(
    part: ScanPart, source: Source, scratch: Scratch, request: ScanRequest, report: ReportDamage
) -> Iterator[dict[str, Any]]:
    """Yields the rows of one part, whose segment is open already."""
    file = part.file
    first_offset, last_offset = (request.wanted & part.offsets)[:2]
    reader = open_segment(file, scratch, source=source, live=request.is_live)
    location = location_columns(file.path, file.topic, file.partition)
    begin = scanning.sought(reader, file, part.slice, first_offset)
    for run in scanning.runs_between(reader, file, begin, last_offset):
        if isinstance(run, Damage):
            report(file, run)
            continue
        for batch in HeaderRows(reader.headers(run), run.count):
            row = _row(batch, reader)
            first = row["lastOffset"] if row["baseOffset"] is None else row["baseOffset"]
            if first <= last_offset and row["lastOffset"] >= first_offset:
                yield location | row


def _row(batch: BatchRow, reader: SegmentReader) -> dict[str, Any]:
    attributes = batch.attributes
    if reader.is_07:
        offset = reader.base_offset + batch.position
        batch = batch._replace(first_offset=offset, last_offset=offset)
    has_time = batch.magic != 0 and not reader.is_07
    is_v2 = batch.magic >= MAGIC_V2
    numbers = {
        "baseOffset": batch.first_offset, "count": batch.records, "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch, "baseSequence": batch.base_sequence, "partitionLeaderEpoch": batch.epoch,
    }  # fmt: skip
    return {
        "position": batch.position,
        "size": batch.size,
        "magic": batch.magic,
        "isValid": batch.has_right_crc,
        "lastOffset": batch.last_offset,
        "compression": codec_name(attributes & (V07_CODEC if reader.is_07 else CODEC)),
        "timestampType": TIMESTAMP_TYPES[1 + bool(attributes & LOG_APPEND_TIME)] if has_time else TIMESTAMP_TYPES[0],
        "maxTimestamp": batch.max_timestamp if has_time else None,
        "isTransactional": is_v2 and bool(attributes & TRANSACTIONAL),
        "isControl": is_v2 and bool(attributes & CONTROL),
    } | {name: unset(number) for name, number in numbers.items()}


# Mode ``entries``: the entries of offset, time and transaction indexes and of producer snapshots.

_ENTRY_TYPES = {suffix: ENTRY_NAMES[suffix] for suffix in SIDE_SUFFIXES}
"""The kinds of files, and the names of their entries in the JSON of `kseg dump`."""


def side_files_of(request: ScanRequest, _slice_bytes: int | None = None) -> Iterator[tuple[int, SideFile]]:
    """Yields the side files. Raises UnsupportedError for a named file without entries."""
    for place in scanning.places_of_scan(request):
        if Place(place).is_dir():
            found = list_side_files(place)
        else:
            file = side_file(place)
            if file is None or file.kind not in _ENTRY_TYPES:
                raise UnsupportedError(f"{place}: mode entries reads {', '.join(_ENTRY_TYPES)} files")
            found = [file]
        for file in found:
            if file.kind in _ENTRY_TYPES and request.keeps(segment_file(file.path)):
                yield size_of(file.path), file


def entries(files: Iterable[SideFile], _request: ScanRequest, _report: ReportDamage) -> Iterator[dict[str, Any]]:
    """Yields a row for each entry. Preallocated space has no entries; damage is reported by mode findings."""
    for file in files:
        named = segment_file(file.path)
        location = location_columns(file.path, named.topic, named.partition) | {"type": _ENTRY_TYPES[file.kind]}
        with open_source(file.path) as source:
            items = read_items(file.kind, source.buffer, file.base_offset)
            entries = (item for item in items if not isinstance(item, SideFileProblem))
            for number, entry in enumerate(entries):
                yield fields(entry) | location | {"number": number}


# Mode ``commits``: the offsets that consumer groups have committed, as `kseg groups` lists them.

Places = tuple[str, ...]
"""A partition of __consumer_offsets, or segments of it."""

_NOT_DECODED = Problem("undecodable-records", "a commit cannot be decoded")


def offsets_partitions(request: ScanRequest, _slice_bytes: int | None = None) -> Iterator[tuple[int, Places]]:
    """Yields the partitions of __consumer_offsets, of several copies the one that ends last. Warns (SelectionWarning)
    if there is none."""
    roots, found = list(scanning.roots_of_scan(request)), defaultdict[str, list[str]](list)
    for root in roots:
        for place in expand_path(root):
            topic = topic_of_place(place)
            if topic == OFFSETS_TOPIC or (topic is None and place == root):
                found[place if Place(place).is_dir() else Place(place).absolute.parent].append(place)
    if not found:
        text = f"no path holds a partition of {OFFSETS_TOPIC}: there are no commits"
        warnings.warn(text, SelectionWarning, stacklevel=2)
    for places in map(found.pop, Nodes(roots).longest_copies(found, Scratch())):
        yield sum(map(segment_bytes, places)), tuple(places)


def commits(works: Iterable[Places], request: ScanRequest, report: ReportDamage) -> Iterator[dict[str, Any]]:
    """Yields the commits for requested topics and partitions, by group, topic and partition within each partition of
    __consumer_offsets. Memory grows with the number of commits in one of these.
    """
    scratch = Scratch(request.max_batch_bytes)
    table = CommitTable(scratch, logging.getLogger("kseg").warning)
    for root in scanning.roots_of_scan(request):
        if expand_path(root) != [root]:
            table.add_directory(root)
    for places in works:
        for file in (file for place in places for file in scanning.readable_segments_at(place)):
            if file.kind != CHECKPOINT:
                _read_commits(file, table, scratch, request, report)
        for row in table.take():
            if request.has(row["topic"], row["partition"]):
                yield {name: valid_text(value) if isinstance(value, str) else value for name, value in row.items()}


def _read_commits(
    file: SegmentFile, table: CommitTable, scratch: Scratch, request: ScanRequest, report: ReportDamage
) -> None:
    table.begin(file)
    with open_segment(file, scratch, live=request.is_live) as reader:
        for run in reader.runs():
            if isinstance(run, Damage):
                report(file, run)
                continue
            for i in range(run.count):
                batch = reader.batch(run, i, keep=False)
                problems = batch.problems
                if batch.is_valid:
                    is_decoded = table.add(batch)
                    problems = [problem for problem in batch.passed() if problem.code not in READABLE_CODES]
                    if not is_decoded:
                        problems = [*problems, *batch.check()] or [_NOT_DECODED]
                for code, message in problems:  # which keep commits from the table
                    report(file, Damage(code, batch.position, batch.size, message))
