"""``recover --mode salvage``: cuts damaged ranges out and keeps every intact batch at its own offset.

A partition is looked at as a whole: what is intact goes where its offsets belong, whatever segment it lies in. A
segment in which something is wrong gets a new .log; then the broker's recovery runs on all of them, which finds nothing
more to cut, and builds all side files.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kseg.changes.plan import Plan, Removed
from kseg.changes.quarantine import changes
from kseg.formats.rows import Scratch
from kseg.recovery.epoch_mending import mend_epochs
from kseg.recovery.keeping import Kept, keep
from kseg.recovery.layout import Layout
from kseg.recovery.loading import PartitionLoad
from kseg.recovery.names import offset_of
from kseg.recovery.overflowing import overflow
from kseg.recovery.parts import Part
from kseg.recovery.placing import Placing
from kseg.recovery.remains import Remaining, remaining
from kseg.recovery.segments import LOG, SUFFIXES, BrokerSegment
from kseg.recovery.shelf import Shelf
from kseg.recovery.start import Start
from kseg.recovery.testimony import Testimony
from kseg.recovery.workspace import Workspace
from kseg.segment.items import Damage
from kseg.segment.source import open_source
from kseg.segment.survey import Headers

_FEW_PARTS = 1000
"""An intact segment of more parts is read again where strays belong into it: its parts are not kept."""


@dataclass(slots=True)
class Salvage:
    """A plan for one partition. ``cuts``: the ranges of each file that go, ``more_cuts`` as many again are not listed.

    ``mended``: batches with a mended header; ``moved``: stretches of batches that lay in another place; ``ambiguous``:
    batches among the cuts whose offsets may be right; ``is_compacted``: a log cleaner was there: what it took where
    bytes are damaged is among the gaps of the plan, what it took elsewhere is not; ``remains``: what is wrong in
    batches that are kept whole; ``complaint``: what else stays wrong.
    """

    directory: str
    plan: Plan
    next_offset: int
    cuts: list[tuple[str, Damage]] = field(default_factory=list)
    more_cuts: int = 0
    mended: int = 0
    moved: int = 0
    ambiguous: int = 0
    is_compacted: bool = False
    remains: list[Remaining] = field(default_factory=list)
    complaint: str = ""


def plan_salvage(
    directory: str, start: Start, scratch: Scratch | None = None, is_compacted: Callable[[], bool] = lambda: False
) -> Salvage:
    """``is_compacted``: whether gaps may be the work of a log cleaner, asked where the log does not show it.

    Raises BrokerRefusesError for what keeps a broker from starting and is no damage of a .log.
    """
    load = SalvageLoad(Workspace(directory, start.jobs), start, scratch or Scratch(), is_compacted)
    load.run()
    return load.outcome()


class SalvagedSegment(BrokerSegment):
    """A segment of which all is kept, however large a batch is; ``layout``: of parts of real files, None for whole."""

    def __init__(self, workspace: Workspace, stem: str, base_offset: int, layout: Layout | None) -> None:
        super().__init__(workspace, stem, base_offset)
        self._layout = layout

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[Headers]:
        if self._layout is None:
            yield from super().headers(position)
        else:
            yield from self._layout.headers(position)

    def read(self, position: int, length: int) -> bytes:
        return super().read(position, length) if self._layout is None else self._layout.read(position, length)


class SalvageLoad(PartitionLoad):
    """A load that repairs the segments before it looks at them."""

    def __init__(self, workspace: Workspace, start: Start, scratch: Scratch, is_compacted: Callable[[], bool]) -> None:
        # No producer expires: what snapshots know of them is worth more here than a clock.
        super().__init__(workspace, replace(start, was_clean=False, recovery_point=0, now_ms=0))
        self._scratch = scratch
        self._may_be_compacted = is_compacted
        self._testimony = Testimony(workspace)
        self._layouts: dict[int, Layout] = {}
        self._result = Salvage(workspace.directory, Plan(workspace.directory), 0)
        self._gaps: list[tuple[int, int]] = []
        self._known_gaps = [gap for change in changes(workspace.directory) for gap in change.gaps]

    def outcome(self) -> Salvage:
        """What was found and is to be done, after `run`."""
        found = self._result
        found.plan, found.next_offset = self.workspace.plan(), self.next_offset
        found.plan.gaps = [gap for gap in self._gaps if not self._is_known(*gap)]
        kept = remaining(self.workspace.directory, self.segments, self.remains)
        found.remains, found.complaint = [one for one in kept if not one.missing], self.complaint
        return found

    def _is_known(self, first: int, last: int) -> bool:
        """Whether an earlier salvage has told that these offsets are missing."""
        return any(a <= first and last <= b for a, b in self._known_gaps)

    def _load_segments(self) -> None:
        shelves = self._shelves()
        self._arrange(shelves)
        for shelf in shelves:
            if shelf.is_changed:
                self._write(shelf)
        self._tell_gaps(shelves)
        ends = [shelf.next_offset for shelf in shelves if not shelf.is_empty]
        if ends:  # else entries of what is lost keep a recovery from taking up what the batches that are left tell
            self.epochs.truncate_from_end(ends[-1])
        first = next((shelf for shelf in shelves if not shelf.is_empty), None)
        if first is not None and first is not shelves[0]:  # a broker takes the base of what is left for the log's start
            log_start = max(first.kept.base, self.start.log_start_offset)
            self.start = replace(self.start, log_start_offset=log_start)
        super()._load_segments()

    def _arrange(self, shelves: list[Shelf]) -> None:
        """Decides what each segment is made of."""
        Placing(shelves, self._load_parts, self._known_elsewhere, self._testimony).run()
        for shelf in shelves:
            if shelf.kept.epochs_fall or shelf.is_changed:  # what hit a batch may have hit its epoch, too
                self._load_parts(shelf)
                mend_epochs(shelf)

    def _known_elsewhere(self, _prints: set[bytes]) -> dict[bytes, int]:
        """First offsets of batches that another replica has: there is none to ask."""
        return {}

    def _shelves(self) -> list[Shelf]:
        """All segments, rising, as they are read."""
        names = {offset_of(name): name for name in self.workspace.names(LOG)}
        bases = sorted(names)
        shelves = []
        for base, behind in zip(bases, [*bases[1:], None], strict=True):
            shelves.append(Shelf(self._keep(names[base], base, behind), names[base]))
            if shelves[-1].kept.is_intact and len(shelves[-1].parts) > _FEW_PARTS:
                shelves[-1].forget()
            shelves += overflow(shelves[-1], behind)
        return shelves

    def _keep(self, name: str, base: int, behind: int | None) -> Kept:
        with open_source(self.workspace.path(name)) as source:
            return keep(source, base, behind, self._scratch, self.start.jobs, self._testimony)

    def _load_parts(self, shelf: Shelf) -> None:
        if shelf.is_forgotten:
            kept = shelf.kept
            shelf.remember(self._keep(shelf.name, kept.base, None if kept.is_last else kept.limit + 1).parts)

    def _write(self, shelf: Shelf) -> None:
        """Puts a segment as it is to be into the workspace."""
        workspace, name, layout, kept = self.workspace, shelf.name, shelf.layout(), shelf.kept
        self._note(shelf)
        reason = self._reason(shelf)
        if kept.cuts.more:
            reason += f" ({kept.cuts.more} more than are listed)"
        removed = [Removed(cut.position, cut.length, f"{cut.code}: {cut.message}") for cut in kept.cuts.listed]
        if not len(layout) and not kept.is_last:
            for suffix in SUFFIXES:
                workspace.delete(name.removesuffix(LOG) + suffix, reason, removed if suffix == LOG else ())
            return
        parts = list(layout) if len(layout) < 2 else []
        if not len(layout) or (parts and parts[0].start == 0 and not (parts[0].head or parts[0].path)):
            workspace.truncate(name, parts[0].end if parts else 0, reason, removed)
            return
        file = workspace.files.get(name)
        origin = (file.origin if file else None) or name
        workspace.write(name, layout.content(origin), reason, removed)
        self._layouts[kept.base] = layout

    def _reason(self, shelf: Shelf) -> str:
        return "damaged ranges are cut out" if shelf.kept.cuts else "batches are put in their places"

    def _note(self, shelf: Shelf) -> None:
        found, cuts = self._result, shelf.kept.cuts
        found.cuts += [(shelf.name, cut) for cut in sorted(cuts.listed, key=lambda cut: cut.position)]
        found.more_cuts += cuts.more
        found.ambiguous += shelf.kept.ambiguous
        found.moved += sum(self._is_moved(part) for part in shelf.extra)
        found.mended += sum(bool(part.head) for part in shelf.layout()) if shelf.is_mended else 0

    def _is_moved(self, part: Part) -> bool:
        """Whether batches lay elsewhere in the partition."""
        return not part.head

    def _tell_gaps(self, shelves: list[Shelf]) -> None:
        """Offsets that are missing afterwards, but for those that a cleaner took between batches as they were."""
        self._gaps = _gaps_of(shelves, False)
        is_sparse = any(shelf.kept.is_sparse for shelf in shelves)
        if self._gaps and (is_sparse or self._may_be_compacted()):
            self._gaps, is_sparse = _gaps_of(shelves, True), True
        self._result.is_compacted = is_sparse

    def _segment(self, stem: str, base: int) -> BrokerSegment:
        return SalvagedSegment(self.workspace, stem, base, self._layouts.get(base))

    def _load_segment(self, segment: BrokerSegment) -> None:
        """Nothing: each is recovered later, whatever its indexes are like."""

    def _check_indexes(self) -> None:
        """Nothing: they are new."""

    def _recover_unflushed(self) -> None:
        for segment in list(self.segments.values()):
            self._recover(segment)


def _gaps_of(shelves: list[Shelf], is_cleaned: bool) -> list[tuple[int, int]]:
    """Ranges of offsets that are missing; ``is_cleaned``: as in `Shelf.gaps`."""
    found: list[tuple[int, int]] = []
    reached, is_whole = shelves[0].kept.base if shelves else 0, False
    for shelf in shelves:
        if shelf.is_empty and shelf.is_changed and not shelf.kept.is_last:
            is_whole = False  # its files go
            continue
        if reached < shelf.kept.base and not (is_cleaned and is_whole):  # its own bytes held none of these
            found.append((reached, shelf.kept.base - 1))
        found += shelf.gaps(is_cleaned and _may_be_cleaned(shelf.kept))
        reached, is_whole = max(reached, shelf.next_offset), shelf.ends_as_it_was
    return found


def _may_be_cleaned(kept: Kept) -> bool:
    """Not the segment that a broker appends to, unless it shows it; what lies in the wrong place shows nothing."""
    return not kept.is_last or (kept.is_sparse and not kept.strays)
