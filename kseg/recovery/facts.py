"""The findings of a recovery as JSON objects, with the contents of its warnings."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kseg.formats.json_values import name_value
from kseg.recovery.broker.losses import Loss
from kseg.recovery.broker.partition import Recovery
from kseg.recovery.broker.remains import Remaining
from kseg.recovery.broker.start import Cut

if TYPE_CHECKING:
    from kseg.recovery.salvage.salvage import Salvage


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
