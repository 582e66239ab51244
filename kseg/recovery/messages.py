"""The findings of a recovery, as warnings and as JSON objects: removed bytes, remaining damage, unscanned segments."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kseg.changes.driver.planner import Messages
from kseg.formats.json_values import name_value
from kseg.formats.suffixes import LOGS
from kseg.quantities import plural, shown_time
from kseg.recovery.broker.losses import Cut, Loss, Remaining
from kseg.recovery.broker.partition_plans import Recovery
from kseg.segment.files import list_segments

if TYPE_CHECKING:
    from kseg.recovery.salvage.salvage import Salvage

MAX_REMAINS = 5
MAX_GAPS = 5
MAX_DAMAGES = 20


class RecoveryMessages:
    """``suggests_replica``: whether the option --from-replica is mentioned for missing offsets."""

    def __init__(self, messages: Messages, suggests_replica: bool) -> None:
        self._warn, self._suggests_replica = messages.warning, suggests_replica
        self._segments = self._unscanned = 0

    def report(self, found: "Recovery | Salvage") -> None:
        """Reports what was found in one partition."""
        if isinstance(found, Recovery):
            self._report_cuts(found)
            self._report_remains(found)
            self._count_unscanned(found)
        else:
            self._report_salvage(found)
            self._report_remains(found)

    def report_unscanned(self, directory: str) -> None:
        """Reports the segments that were not scanned since the last call: damage in them stays unnoticed."""
        if self._unscanned:
            self._warn(
                f"{directory}: {self._unscanned} of {plural(self._segments, 'segment', 'segments')} skipped: "
                "below the recovery point, or the stop was clean; --full scans all"
            )
        self._segments = self._unscanned = 0

    def _count_unscanned(self, recovered: Recovery) -> None:
        segments = {file.path for file in list_segments(recovered.directory) if file.kind in LOGS}
        self._segments += len(segments)
        scanned = [*recovered.scanned, *(name for cut in recovered.cuts for name in cut.dropped)]
        paths = {os.path.join(recovered.directory, name) for name in scanned}
        self._unscanned += len(segments - paths)

    def _report_cuts(self, recovered: Recovery) -> None:
        """Reports the removed bytes, and the intact batches in them, which salvage would keep."""
        for cut in recovered.cuts:
            loss = cut.loss
            behind = f" and {plural(len(cut.dropped), 'later segment', 'later segments')}" if cut.dropped else ""
            code = f" ({loss.code})" if loss.code else ""
            self._warn(
                f"{recovered.directory}/{cut.file}: not valid at position {cut.position}{code}: "
                f"{cut.length} bytes{behind} are cut, the log ends at offset {cut.next_offset}"
            )
            if loss.batches:
                times = ""
                if loss.last_timestamp >= 0:
                    times = f", {shown_time(max(loss.first_timestamp, 0))} to {shown_time(loss.last_timestamp)}"
                self._warn(
                    f"{recovered.directory}: intact in the removed bytes: {plural(loss.batches, 'batch', 'batches')}, "
                    f"{plural(loss.records, 'record', 'records')}, offsets {loss.first_offset} to {loss.last_offset}"
                    f"{times}; --mode salvage would keep them, an in-sync replica has them"
                )

    def _report_remains(self, recovered: "Recovery | Salvage") -> None:
        """Reports damage that a broker accepts and consumers do not."""
        remains = recovered.remains
        for one in remains[:MAX_REMAINS]:
            missing = f", offsets missing: {one.missing[0]} to {one.missing[1]}" if one.missing else ""
            self._warn(
                f"{recovered.directory}/{one.file}: stays as it is: {one.code}: the batch at position {one.position}, "
                f"offset {one.offset}, {one.text}{missing}; a broker keeps it, kseg verify shows details"
            )
        if len(remains) > MAX_REMAINS:
            self._warn(f"{recovered.directory}: at least {len(remains) - MAX_REMAINS} more stay as they are")
        if recovered.unrepaired:
            self._warn(f"{recovered.directory}: {recovered.unrepaired}")

    def _report_salvage(self, salvaged: "Salvage") -> None:
        for offset in salvaged.not_dropped:
            self._warn(f"{salvaged.directory}: no intact batch holds offset {offset}: nothing to drop there")
        for file, cut in salvaged.cuts[:MAX_DAMAGES]:
            location = f"{salvaged.directory}/{file}: position {cut.position}, {cut.length} bytes"
            loss = salvaged.intact.get((file, cut.position))
            intact = f"intact, left out ({plural(loss.records, 'record', 'records')}): " if loss else ""
            self._warn(f"{location}: {intact}{cut.code}: {cut.message}")
        if more := max(len(salvaged.cuts) - MAX_DAMAGES, 0) + salvaged.more_cuts:
            self._warn(f"{salvaged.directory}: {more} more removed ranges")
        if salvaged.intact:
            records = sum(loss.records for loss in salvaged.intact.values())
            self._warn(
                f"{salvaged.directory}: intact batches are left out: {plural(records, 'record', 'records')}; their "
                "bytes are kept in the quarantine"
            )
        if salvaged.repaired:
            self._warn(f"{salvaged.directory}: headers repaired: {salvaged.repaired}")
        if salvaged.moved:
            self._warn(f"{salvaged.directory}: runs of batches moved to their segments: {salvaged.moved}")
        if salvaged.plan.gaps:
            gaps = salvaged.plan.gaps
            shown = ", ".join(f"{first} to {last}" for first, last in gaps[:MAX_GAPS])
            shown += f" and {len(gaps) - MAX_GAPS} more gaps" if len(gaps) > MAX_GAPS else ""
            missing = plural(sum(last - first + 1 for first, last in gaps), "offset stays", "offsets stay")
            hint = "; a replica may have them: --from-replica DIR" if self._suggests_replica else ""
            cleaned = (
                " (around damage this includes offsets that a log cleaner removed)" if salvaged.is_compacted else ""
            )
            self._warn(f"{salvaged.directory}: {missing} missing{cleaned}: {shown}{hint}")


def facts(found: "Recovery | Salvage") -> list[dict[str, Any]]:
    """Returns objects of type ``cut``, or ``damage``, ``leftOut`` and ``salvage``, and ``remains``."""
    rows = [_cut(found, cut) for cut in found.cuts] if isinstance(found, Recovery) else list(_salvage(found))
    rows += [_remains(found.directory, one) for one in found.remains]
    if found.unrepaired:
        rows.append({"type": "remains", "directory": name_value(found.directory), "message": found.unrepaired})
    return rows


def _cut(found: Recovery, cut: Cut) -> dict[str, Any]:
    loss = cut.loss
    return {
        "type": "cut",
        "code": loss.code or None,
        "file": _file(found.directory, cut.file),
        "position": cut.position,
        "length": cut.length,
        "nextOffset": cut.next_offset,
        "laterSegments": [_file(found.directory, name) for name in cut.dropped],
        **_intact(loss),
        "firstTimestamp": _known(loss.first_timestamp),
        "lastTimestamp": _known(loss.last_timestamp),
    }


def _intact(loss: Loss) -> dict[str, Any]:
    return {
        "intactBatches": loss.batches,
        "intactRecords": loss.records,
        "firstOffset": _known(loss.first_offset),
        "lastOffset": _known(loss.last_offset),
    }


def _salvage(found: "Salvage") -> Iterator[dict[str, Any]]:
    for file, cut in found.cuts:
        loss = found.intact.get((file, cut.position))
        row = {
            "type": "damage" if loss is None else "leftOut",
            "code": cut.code,
            "file": _file(found.directory, file),
            "position": cut.position,
            "length": cut.length,
            "message": cut.message,
        }
        yield row if loss is None else row | _intact(loss)
    if found.cuts or found.repaired or found.moved:
        yield {
            "type": "salvage",
            "directory": name_value(found.directory),
            "damagedRanges": len(found.cuts) - len(found.intact) + found.more_cuts,
            "mendedHeaders": found.repaired,
            "movedStretches": found.moved,
            "ambiguousBatches": found.ambiguous,
        }


def _remains(directory: str, one: Remaining) -> dict[str, Any]:
    missing = {"firstMissing": one.missing[0], "lastMissing": one.missing[1]} if one.missing else {}
    return {
        "type": "remains",
        "code": one.code,
        "file": _file(directory, one.file),
        "position": one.position,
        "offset": _known(one.offset),
        "message": one.text,
        **missing,
    }


def _file(directory: str, name: str) -> Any:
    return name_value(os.path.join(directory, name))


def _known(number: int) -> int | None:
    return number if number >= 0 else None
