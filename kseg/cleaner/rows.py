"""The results of a compaction as JSON objects: one for the partition, and one for each new segment."""

from typing import Any

from kseg.cleaner.compaction import Compaction
from kseg.cleaner.offset_map import memory_for
from kseg.cleaner.ranges import CleanableRange


def partition_row(result: Compaction, found: CleanableRange, seconds: float) -> dict[str, Any]:
    """Returns the object of type ``compaction``. ``found``: the range of the first round."""
    counts, stops = result.counts, [stop.text for stop in found.stops]
    if result.rounds and not result.is_whole and not result.later:
        stops.append(f"offsets from {result.end} on, as the map was full (--until-clean, --memory)")
    if not result.rounds and not stops:
        stops.append("nothing is dirty")
    return {
        "type": "compaction",
        "directory": result.directory,
        "rounds": result.rounds,
        "dirtyFrom": found.start,
        "dirtyTo": found.end,
        "dirtyRatio": round(found.ratio, 4),
        "checkpoint": result.end if result.end is not None else found.start,
        "keys": result.keys,
        "laterRounds": [{"dirtyFrom": each.start, "dirtyTo": each.end, "keys": each.keys} for each in result.later],
        "oneRoundMemory": memory_for(result.keys + sum(each.keys for each in result.later)),
        "peakBytes": result.peak_bytes,
        "bytesBefore": result.bytes_before,
        "bytesAfter": result.bytes_after,
        "records": counts["records"],
        "kept": counts["kept"],
        "gone": {
            "superseded": counts["superseded"],
            "tombstones": counts["tombstones"],
            "aborted": counts["discarded_records"],
            "markers": counts["discarded_markers"],
            "noKey": counts["no_key"],
        },
        "batches": {name: counts[name] for name in ("copied", "rewritten", "emptied", "dropped")},
        "seconds": round(seconds, 3),
        "stops": stops,
    }


def segment_rows(result: Compaction) -> list[dict[str, Any]]:
    """Returns objects of type ``cleanedSegment``."""
    return [
        {
            "type": "cleanedSegment",
            "directory": result.directory,
            "baseOffset": group.segment.base_offset,
            "sources": [source.base_offset for source in group.sources],
            "bytesBefore": group.bytes_before,
            "bytesAfter": group.segment.size,
            "records": group.counts["records"],
            "kept": group.counts["kept"],
        }
        for group in result.groups
    ]
