"""``recover --mode salvage``: cuts damaged ranges out and keeps every intact batch at its own offset.

A segment in which nothing is wrong is recovered as by a broker. One in which something is gets a new .log made of what
is intact; then the broker's recovery runs on that, which finds nothing more to cut, and builds all side files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kseg.changes.plan import Plan, Removed
from kseg.changes.quarantine import changes
from kseg.formats.rows import Scratch, int64s
from kseg.kernel import chain
from kseg.recovery.keeping import keep
from kseg.recovery.layout import Layout
from kseg.recovery.loading import PartitionLoad
from kseg.recovery.segments import BrokerSegment
from kseg.recovery.start import Start
from kseg.recovery.workspace import Workspace
from kseg.segment.chains import fresh_chain
from kseg.segment.items import Damage
from kseg.segment.source import open_source
from kseg.segment.survey import Headers

MOST_GAPS = 10_000
"""With more of them it is compaction that has left them, whatever else there is to see."""

_WRONG = (chain.INVALID, chain.NOT_RISING, chain.WRONG_OFFSET, chain.OUTSIDE)


@dataclass(slots=True)
class Salvage:
    """A plan for one partition. ``cuts``: the ranges of each file that go; ``mended``: headers that were mended."""

    directory: str
    plan: Plan
    next_offset: int
    cuts: list[tuple[str, Damage]] = field(default_factory=list)
    mended: int = 0


def plan_salvage(directory: str, start: Start, scratch: Scratch | None = None) -> Salvage:
    """Raises BrokerRefusesError for what keeps a broker from starting and is no damage of a .log."""
    workspace = Workspace(directory)
    # No producer expires: what snapshots know of them is worth more here than a clock.
    whole = replace(start, was_clean=False, recovery_point=0, now_ms=0)
    load = _SalvageLoad(workspace, whole, scratch or Scratch())
    load.run()
    plan = workspace.plan()
    known = [gap for change in changes(directory) for gap in change.gaps]
    plan.gaps = [gap for gap in sorted(load.gaps) if gap not in known]
    return Salvage(directory, plan, load.next_offset, load.found, load.mended)


class _SalvagedSegment(BrokerSegment):
    """A segment whose .log in the workspace is made of parts of the real one."""

    def __init__(self, segment: BrokerSegment, layout: Layout, path: str) -> None:
        super().__init__(segment.workspace, segment.stem, segment.base_offset)
        self._layout = layout
        self._path = path

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[Headers]:
        with open_source(self._path) as source:
            yield from self._layout.headers(source, position)


class _SalvageLoad(PartitionLoad):
    def __init__(self, workspace: Workspace, start: Start, scratch: Scratch) -> None:
        super().__init__(workspace, start)
        self._scratch = scratch
        self.found: list[tuple[str, Damage]] = []
        self.mended = 0
        self._events = int64s(MOST_GAPS * chain.EVENT_WIDTH)
        self._gaps: dict[int, list[tuple[int, int]]] = {}
        self._ends: dict[int, int] = {}

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Offsets missing in the segments and between them, in their order."""
        found: list[tuple[int, int]] = []
        end: int | None = None
        for base in sorted(self.segments):
            if end is not None and base > end:
                found.append((end, base - 1))
            found += self._gaps.get(base, [])
            end = self._ends.get(base, base)
        return found if len(found) <= MOST_GAPS else []

    def _recover(self, segment: BrokerSegment) -> int:
        segment = self.segments.get(segment.base_offset, segment)
        if segment.size and not isinstance(segment, _SalvagedSegment) and not self._is_intact(segment):
            self._cut_out(segment)
        if segment.base_offset in self.segments or segment.log in self.workspace:
            super()._recover(self.segments.get(segment.base_offset, segment))
        return 0

    def _is_intact(self, segment: BrokerSegment) -> bool:
        """Whether a broker would keep all of the segment, and its offsets rise within its bounds."""
        state, gaps = fresh_chain(segment.base_offset, limit=MOST_GAPS), []
        end = 0
        for headers in segment.headers():
            for i in range(chain.follow(headers.rows, headers.count, state, self._events)):
                at = i * chain.EVENT_WIDTH
                if self._events[at] == chain.GAP:
                    gaps.append((self._events[at + 2], self._events[at + 3] - 1))
            end = segment.end_of(headers)
        limit = self._next_base(segment)
        is_inside = limit is None or state[chain.LAST_OFFSET] < limit
        if end < segment.size or not is_inside or any(state[chain.COUNTS + kind] for kind in _WRONG):
            return False
        self._ends[segment.base_offset] = max(segment.base_offset, state[chain.LAST_OFFSET] + 1)
        self._gaps[segment.base_offset] = [] if state[chain.HOLED] else gaps
        return True

    def _next_base(self, segment: BrokerSegment) -> int | None:
        stems = (name.removesuffix(".log") for name in self.workspace.names(".log"))
        bases = [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]
        return min((base for base in bases if base > segment.base_offset), default=None)

    def _cut_out(self, segment: BrokerSegment) -> None:
        path, name = self.workspace.path(segment.log), segment.log
        next_base = self._next_base(segment)
        with open_source(path) as source:
            kept = keep(source, segment.base_offset, next_base, self._scratch)
        origin = self.workspace.files[name].origin or name
        reason = "damaged ranges are cut out"
        removed = [Removed(cut.position, cut.length, f"{cut.code}: {cut.message}") for cut in kept.cuts]
        self.found += [(name, cut) for cut in kept.cuts]
        self._gaps[segment.base_offset] = kept.gaps
        self.mended += sum(bool(part.head) for part in kept.layout.parts)
        parts = kept.layout.parts
        if parts:
            self._ends[segment.base_offset] = parts[-1].last + 1
        if len(parts) == 1 and parts[0].start == 0 and not parts[0].head:
            self.workspace.truncate(name, parts[0].end, reason, removed)
        elif not parts and next_base is not None:
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                self.workspace.delete(segment.stem + suffix, reason, removed if suffix == ".log" else ())
            self.segments.pop(segment.base_offset, None)
        elif not parts:
            self.workspace.truncate(name, 0, reason, removed)
        else:
            self.workspace.write(name, kept.layout.pieces(origin), reason, removed)
            self.segments[segment.base_offset] = _SalvagedSegment(segment, kept.layout, path)
