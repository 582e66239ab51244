"""Mode ``commits``: the offsets that consumer groups have committed, as `kseg dump --committed-offsets` lists them."""

import logging
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from kseg.errors import SelectionWarning
from kseg.export.arrow import valid_text
from kseg.export.scanning import LeftOut, ReportDamage, ScanRequest, readable_segments_at, roots_of_scan
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CHECKPOINT
from kseg.logdir.coordinators import CommitTable
from kseg.logdir.topics import file_of_place, topic_of_place
from kseg.segment.batches import Batch
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile
from kseg.segment.items import READABLE_CODES, Damage, Problem
from kseg.segment.paths import expand_path, segment_bytes
from kseg.segment.reader import open_segment

Work = tuple[str, ...]
"""The copies of a partition of __consumer_offsets, which hold the same groups: their newest commits count."""

_NOT_DECODED = Problem("undecodable-records", "a commit cannot be decoded")


def works(request: ScanRequest, _slice_bytes: int | None = None) -> Iterator[tuple[int, Work]]:
    """Yields the partitions of __consumer_offsets. Warns (SelectionWarning) if there is none."""
    copies: defaultdict[int | str, list[str]] = defaultdict(list)
    for root in roots_of_scan(request):
        for place in expand_path(root):
            topic = topic_of_place(place)
            if topic == OFFSETS_TOPIC or (topic is None and place == root):
                copies[file_of_place(place).partition or 0 if topic else place].append(place)
    if not copies:
        text = f"no path holds a partition of {OFFSETS_TOPIC}: there are no commits"
        warnings.warn(text, SelectionWarning, stacklevel=2)
    for places in copies.values():
        yield sum(map(segment_bytes, places)), tuple(places)


def rows(works: Iterable[Work], request: ScanRequest, report: ReportDamage) -> Iterator[dict[str, Any]]:
    """Yields the commits for requested topics and partitions, by group, topic and partition within each partition of
    __consumer_offsets. Memory grows with the number of commits in one of these.
    """
    scratch = Scratch(request.max_batch_bytes)
    table = CommitTable(scratch, logging.getLogger("kseg").warning)
    for root in roots_of_scan(request):
        if expand_path(root) != [root]:
            table.add_directory(root)
    for places in works:
        for file in (file for place in places for file in readable_segments_at(place)):
            if file.kind != CHECKPOINT:
                _read(file, table, scratch, request, report)
        for row in table.take():
            if request.has(row["topic"], row["partition"]):
                yield {name: valid_text(value) if isinstance(value, str) else value for name, value in row.items()}


def _read(file: SegmentFile, table: CommitTable, scratch: Scratch, request: ScanRequest, report: ReportDamage) -> None:
    table.begin(file)
    with open_segment(file, scratch, live=request.is_live) as reader:
        for run in reader.runs():
            if isinstance(run, Damage):
                report(file, LeftOut(*run))
                continue
            for i in range(run.count):
                batch = reader.batch(run, i, keep=False)
                for code, message in _problems_after(batch, table):
                    report(file, LeftOut(code, batch.position, batch.size, message))


def _problems_after(batch: Batch, table: CommitTable) -> list[Problem]:
    """Adds a batch to the table if its checksum is right. Returns the problems that keep commits from it."""
    if not batch.is_valid:
        return batch.problems
    is_decoded = table.add(batch)
    found = [problem for problem in batch.passed() if problem.code not in READABLE_CODES]
    return found if is_decoded else [*found, *batch.check()] or [_NOT_DECODED]
