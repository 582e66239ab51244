"""The result of recovering one partition: its plan, and what is told of it, as warnings and as JSON objects."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.changes.plan import Plan
from kseg.formats.json_values import fields_of, name_value
from kseg.node.index_interval import Interval
from kseg.quantities import plural, shown_time
from kseg.stores.place import Place

MAX_REMAINS = 5
MAX_GAPS = 5
MAX_DAMAGES = 20


class Remaining(NamedTuple):
    """A problem of the batch at ``position``, with the code of verify; ``offset`` is -1 if unknown.

    ``missing``: first and last offset of a gap before the batch.
    """

    file: str
    position: int
    offset: int
    code: str
    text: str
    missing: tuple[int, int] | None = None


@dataclass(slots=True)
class Loss:
    """The removed intact batches: ``first_offset`` to ``last_offset``, timestamps in ms; -1 if there are none.

    ``code``: the damage at the start of the removed range, "" if an intact batch begins there; in a salvage also the
    reason why an intact batch is left out.
    """

    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    first_timestamp: int = -1
    last_timestamp: int = -1
    code: str = ""

    @property
    def offsets(self) -> tuple[int | None, int | None]:
        """The first and last lost offset, None if there are none."""
        return (self.first_offset, self.last_offset) if self.first_offset >= 0 else (None, None)

    def add(self, other: "Loss") -> None:
        """Adds a loss that follows this one."""
        self.batches += other.batches
        self.records += other.records
        if other.first_offset >= 0:
            self.first_offset = other.first_offset if self.first_offset < 0 else self.first_offset
            self.last_offset = max(self.last_offset, other.last_offset)
        if other.first_timestamp >= 0:
            known = self.first_timestamp if self.first_timestamp >= 0 else other.first_timestamp
            self.first_timestamp = min(known, other.first_timestamp)
        self.last_timestamp = max(self.last_timestamp, other.last_timestamp)

    def facts(self) -> dict[str, Any]:
        return {
            "intactBatches": self.batches,
            "intactRecords": self.records,
            "firstOffset": _known(self.first_offset),
            "lastOffset": _known(self.last_offset),
        }


@dataclass(slots=True)
class Cut:
    """``length`` bytes removed from ``file``, from ``position`` on; ``loss``: the intact batches in them, and in later
    segments that are deleted: ``dropped`` are their .log files. ``next_offset``: the log end after a truncation;
    ``message``: why a salvage removes the range."""

    file: str
    position: int
    length: int
    loss: Loss
    next_offset: int = -1
    dropped: list[str] = field(default_factory=list)
    message: str = ""


@dataclass(slots=True)
class Recovery:
    """The plan for a partition and its facts. ``next_offset``: the log end afterwards; ``logs``: the names of the
    segments before, of which ``scanned`` were read; ``interval``: that of the indexes, None if there are none;
    ``remains``: damage that a broker's rules leave; ``unrepaired``: sentences about other problems that remain."""

    directory: str
    plan: Plan
    next_offset: int
    cuts: list[Cut] = field(default_factory=list)
    scanned: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    interval: Interval | None = None
    remains: list[Remaining] = field(default_factory=list)
    unrepaired: str = ""

    @property
    def unscanned(self) -> int:
        """Number of segments that stay and were not read."""
        dropped = (name for cut in self.cuts for name in cut.dropped)
        return len({*self.logs}.difference(self.scanned, dropped))

    def warnings(self, who_has: Callable[[str], str] = lambda _: "", suggests_replica: bool = False) -> Iterator[str]:
        """Yields sentences about what is removed, and about damage that a broker accepts and consumers do not.

        ``who_has``: says which other nodes have what is cut off from a partition, "" if that is not known;
        ``suggests_replica``: whether the option --from-replica is mentioned for missing offsets.
        """
        yield from self._about_cuts(who_has, suggests_replica)
        for one in self.remains[:MAX_REMAINS]:
            missing = f", offsets missing: {one.missing[0]} to {one.missing[1]}" if one.missing else ""
            yield (
                f"{self.directory}/{one.file}: stays as it is: {one.code}: the batch at position {one.position}, "
                f"offset {one.offset}, {one.text}{missing}; a broker keeps it, kseg verify shows details"
            )
        if len(self.remains) > MAX_REMAINS:
            yield f"{self.directory}: at least {len(self.remains) - MAX_REMAINS} more stay as they are"
        if self.unrepaired:
            yield f"{self.directory}: {self.unrepaired}"

    def _about_cuts(self, who_has: Callable[[str], str], _suggests_replica: bool) -> Iterator[str]:
        """Yields sentences about the removed bytes, and the intact batches in them, which salvage would keep."""
        for cut in self.cuts:
            loss = cut.loss
            behind = f" and {plural(len(cut.dropped), 'later segment', 'later segments')}" if cut.dropped else ""
            code = f" ({loss.code})" if loss.code else ""
            yield (
                f"{self.directory}/{cut.file}: not valid at position {cut.position}{code}: "
                f"{cut.length} bytes{behind} are cut, the log ends at offset {cut.next_offset}"
            )
            if loss.batches:
                times = ""
                if loss.last_timestamp >= 0:
                    times = f", {shown_time(max(loss.first_timestamp, 0))} to {shown_time(loss.last_timestamp)}"
                yield (
                    f"{self.directory}: intact in the removed bytes: {plural(loss.batches, 'batch', 'batches')}, "
                    f"{plural(loss.records, 'record', 'records')}, offsets {loss.first_offset} to {loss.last_offset}"
                    f"{times}; --mode salvage would keep them{who_has(self.directory)}"
                )

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yields objects of type ``cut``, or ``damage``, ``leftOut`` and ``salvage``, and ``remains``."""
        yield from self._facts_of_cuts()
        for one in self.remains:
            missing = {"firstMissing": one.missing[0], "lastMissing": one.missing[1]} if one.missing else {}
            yield {
                "type": "remains",
                "code": one.code,
                "file": self._path_of(one.file),
                "position": one.position,
                "offset": _known(one.offset),
                "message": one.text,
                **missing,
            }
        if self.unrepaired:
            yield {"type": "remains", "directory": name_value(self.directory), "message": self.unrepaired}

    def _facts_of_cuts(self) -> Iterator[dict[str, Any]]:
        for cut in self.cuts:
            yield {
                "type": "cut",
                "code": cut.loss.code or None,
                "file": self._path_of(cut.file),
                **fields_of(cut, "position", "length", "next_offset"),
                "laterSegments": [self._path_of(name) for name in cut.dropped],
                **cut.loss.facts(),
                "firstTimestamp": _known(cut.loss.first_timestamp),
                "lastTimestamp": _known(cut.loss.last_timestamp),
            }

    def _path_of(self, name: str) -> Any:
        return name_value(Place(self.directory) / name)


def _known(number: int) -> int | None:
    return number if number >= 0 else None


@dataclass(slots=True)
class Salvage(Recovery):
    """The result of a salvage. ``more_cuts``: the number of removed ranges that ``cuts`` does not list.

    ``repaired``: number of batches with a repaired header; ``moved``: number of moved runs of batches; ``ambiguous``:
    removed batches whose offsets may be right. ``is_compacted``: the log was compacted; then the plan's gaps include
    offsets that the cleaner removed where bytes are damaged, but no others that it removed. ``not_dropped``: offsets to
    drop that no intact batch has; ``log_start``: the new log start offset if the recorded one is beyond the end of the
    log.
    """

    more_cuts: int = 0
    repaired: int = 0
    moved: int = 0
    ambiguous: int = 0
    is_compacted: bool = False
    log_start: int | None = None
    not_dropped: list[int] = field(default_factory=list)

    def _about_cuts(self, _who_has: Callable[[str], str], suggests_replica: bool) -> Iterator[str]:
        directory, gaps = self.directory, self.plan.gaps
        for offset in self.not_dropped:
            yield f"{directory}: no intact batch holds offset {offset}: nothing to drop there"
        for cut in self.cuts[:MAX_DAMAGES]:
            records = plural(cut.loss.records, "record", "records")
            intact = f"intact, left out ({records}): " if cut.loss.batches else ""
            location = f"{directory}/{cut.file}: position {cut.position}, {cut.length} bytes"
            yield f"{location}: {intact}{cut.loss.code}: {cut.message}"
        if more := max(len(self.cuts) - MAX_DAMAGES, 0) + self.more_cuts:
            yield f"{directory}: {more} more removed ranges"
        if any(cut.loss.batches for cut in self.cuts):
            records = plural(sum(cut.loss.records for cut in self.cuts), "record", "records")
            yield f"{directory}: intact batches are left out: {records}; their bytes are kept in the quarantine"
        if self.repaired:
            yield f"{directory}: headers repaired: {self.repaired}"
        if self.moved:
            yield f"{directory}: runs of batches moved to their segments: {self.moved}"
        if gaps:
            shown = ", ".join(f"{first} to {last}" for first, last in gaps[:MAX_GAPS])
            shown += f" and {len(gaps) - MAX_GAPS} more gaps" if len(gaps) > MAX_GAPS else ""
            missing = plural(sum(last - first + 1 for first, last in gaps), "offset stays", "offsets stay")
            hint = "; a replica may have them: --from-replica DIR" if suggests_replica else ""
            cleaned = " (around damage this includes offsets that a log cleaner removed)" if self.is_compacted else ""
            yield f"{directory}: {missing} missing{cleaned}: {shown}{hint}"

    def _facts_of_cuts(self) -> Iterator[dict[str, Any]]:
        for cut in self.cuts:
            yield {
                "type": "leftOut" if cut.loss.batches else "damage",
                "code": cut.loss.code,
                "file": self._path_of(cut.file),
                **fields_of(cut, "position", "length", "message"),
                **(cut.loss.facts() if cut.loss.batches else {}),
            }
        if self.cuts or self.repaired or self.moved:
            yield {
                "type": "salvage",
                "directory": name_value(self.directory),
                "damagedRanges": sum(not cut.loss.batches for cut in self.cuts) + self.more_cuts,
                "mendedHeaders": self.repaired,
                "movedStretches": self.moved,
                "ambiguousBatches": self.ambiguous,
            }
