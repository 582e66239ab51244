"""Finds records that only a segment marked as deleted holds: a broker's start removes it, and so does a recovery."""

from bisect import bisect_right

from kseg.changes.plan import Removed
from kseg.formats.suffixes import DELETED, LOG
from kseg.recovery.options import span_of
from kseg.segment.files import list_segments
from kseg.segment.survey import FULL, QUICK, HeaderRows, open_survey
from kseg.stores.windows import Buffers


def only_copies(directory: str) -> dict[str, list[Removed]]:
    """Returns the ranges of intact batches whose offsets no segment covers, by name of their file. Raises PathError.

    Files below the first segment are not read: retention has deleted them.
    """
    files = [file for file in list_segments(directory, everything=True) if file.kind == LOG]
    live = sorted((file.base_offset, file.path) for file in files if not file.leftover and file.base_offset is not None)
    first = live[0][0] if live else -1
    marked = [file for file in files if file.leftover == DELETED and (file.base_offset or 0) > first]
    if not marked:
        return {}
    buffers, found = Buffers(), dict[str, list[Removed]]()
    bases = [base for base, _ in live]
    ends = [max(base, span_of(path, buffers, QUICK).next_offset) for base, path in live]
    for file in marked:
        removed = list[Removed]()
        with open_survey(file.path, FULL, buffers) as survey:
            for item in survey:
                for row in item if isinstance(item, HeaderRows) else ():
                    at = bisect_right(bases, row.last_offset) - 1
                    is_covered = at >= 0 and ends[at] > max(row.first_offset, 0)
                    if row.has_right_crc and not is_covered:
                        text, offsets = "its offsets are in no other file", (row.first_offset, row.last_offset)
                        removed.append(Removed(row.position, row.size, text, *offsets, max(row.records, 0)))
        if removed:
            found[file.name] = removed
    return found
