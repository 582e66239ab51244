"""The gaps of a partition that the user has accepted, with a salvage or a conversion: `verify` calls them known.

The manifests in the quarantine name the gaps of their changes. The file `.kseg-quarantine/accepted-gaps` names those of
all other changes: they were purged, kept nothing, or belong to another directory of which this one is a copy. It is
JSON, with a line for the first and last offset of each gap. The owner of the log directory can write anything into it.
Therefore it is read without following links, up to a limit, and accepts only gaps that it names exactly.
"""

import errno
import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.quarantine import folder_of
from kseg.changes.record_json import reader
from kseg.errors import KsegError
from kseg.limits import MAX_ACCEPTED_BYTES, MAX_OFFSET
from kseg.stores.no_follow import read_own
from kseg.stores.place import Place

if TYPE_CHECKING:
    from kseg.changes.manifest import Change

RECORD = "accepted-gaps"

Ranges = list[tuple[int, int]]
"""First and last offsets."""


class AcceptedGaps:
    """Decides whether gaps are accepted. ``ranges``: in any order, also overlapping ones; then sorted."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self.ranges = sorted(set(ranges))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def among(self, gaps: Sequence[tuple[int, int]], start: int) -> set[tuple[int, int]]:
        """Returns the accepted ones of a log's gaps, which are in ascending order. ``start``: the log's first offset;
        retention may have removed the beginning of a gap.

        A gap is accepted by itself or together with adjacent ones: segments divide gaps.
        """
        known = {(max(first, start), last) for first, last in self.ranges if last >= start}
        known.update(joined(known))
        found, begun = {gap for gap in gaps if gap in known}, 0
        for i, (_, last) in enumerate(gaps, 1):
            if i == len(gaps) or gaps[i][0] != last + 1:
                if (gaps[begun][0], last) in known:
                    found.update(gaps[begun:i])
                begun = i
        return found

    def missing_in(self, first: int, last: int) -> int:
        """Returns the number of accepted offsets in a range."""
        begin = bisect_left(self._whole, first, key=itemgetter(1))
        end = bisect_right(self._whole, last, key=itemgetter(0))
        return sum(max(min(b, last) - max(a, first) + 1, 0) for a, b in self._whole[begin:end])

    @cached_property
    def _whole(self) -> Ranges:
        return joined(self.ranges)


def accepted_gaps(directory: str) -> AcceptedGaps:
    """Returns the accepted gaps of a partition, in the record and the manifests. Raises KsegError if one of these
    cannot be read.
    """
    if not folder_of(directory).is_dir():
        return AcceptedGaps([])
    kept = (gap for change in quarantine.changes(directory) for gap in change.gaps)
    return AcceptedGaps([*_recorded(directory), *kept])


def record(directory: str, gaps: Iterable[tuple[int, int]], disk: Disk) -> None:
    """Adds gaps to the record of a partition. The caller holds the lock. Raises OSError, KsegError."""
    if gaps := list(gaps):
        folder = folder_of(directory)
        if not Place(folder).lexists():
            disk.make_directory(folder)
            disk.copy_owner_if_allowed(folder, directory, as_directory=True)
            disk.sync_directory(directory)
        _write(directory, {*_recorded(directory), *gaps}, disk)


def withdraw(directory: str, gaps: Iterable[tuple[int, int]], disk: Disk) -> None:
    """Removes gaps from the record, because their change is undone. Raises OSError, KsegError."""
    if (gone := set(gaps)) and gone.intersection(found := _recorded(directory)):
        _write(directory, set(found) - gone, disk)


def end(*changes: "Change", disk: Disk) -> None:
    """Removes changes that are not undone, and the bytes that they kept; their gaps stay. Raises OSError, KsegError."""
    for change in changes:
        try:
            record(change.directory, change.gaps, disk)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not change.is_kept_inside:
                raise
            disk.remove_tree(change.kept)  # makes room; until the record is written, the manifest names the gaps
            record(change.directory, change.gaps, disk)
    quarantine.end(*changes, disk=disk)


def purge(directory: str, numbers: Collection[int], disk: Disk) -> None:
    """As `end`, for the changes of a partition with these numbers."""
    end(*(change for change in quarantine.changes(directory) if change.number in numbers), disk=disk)


def _write(directory: str, gaps: set[tuple[int, int]], disk: Disk) -> None:
    """Writes the record atomically, the first ones if there are too many; removes it if there are none."""
    path, lines, size = folder_of(directory) / RECORD, [f"[{a},{b}]" for a, b in sorted(gaps)], 0
    while lines and (size := sum(map(len, lines)) + 2 * len(lines)) > MAX_ACCEPTED_BYTES - 32:
        del lines[len(lines) * (MAX_ACCEPTED_BYTES - 32) // size :]
    if not lines:
        if path.lexists():
            disk.unlink(path)
        quarantine.remove_if_empty(folder_of(directory), disk)
        return
    with disk.replacement(path) as temporary:
        content = ",\n".join(lines)
        disk.write_file(temporary, f"[{content}]\n".encode(), directory, needs_owner=False)


def _recorded(directory: str) -> Ranges:
    path = folder_of(directory) / RECORD
    if (content := read_own(path, MAX_ACCEPTED_BYTES, directory)) is None:
        return []
    try:
        found: Ranges = reader(Ranges)(json.loads(content))
        if not all(0 <= first <= last <= MAX_OFFSET for first, last in found):
            raise ValueError(found[:8])
    except (TypeError, ValueError, RecursionError) as error:
        raise KsegError(f"{path}: is no record of accepted gaps ({error!r}); move it away to go on") from error
    return found


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Returns ranges in ascending order, with adjacent and overlapping ones joined."""
    found: Ranges = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found
