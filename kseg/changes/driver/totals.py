"""Sums up several plans: operations, sizes, disk space, missing offsets."""

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush

from kseg.changes.disk_space import space_of
from kseg.changes.plan import Plan

MAX_GAPS = 1000
"""Largest number of gaps that are kept one by one."""


@dataclass(slots=True)
class PlanTotals:
    """Totals of several plans. ``at_once`` plans are applied concurrently, in unknown order.

    ``peak_bytes``: the largest amount of disk space that the plans can need. ``left_bytes``: growth of the files after
    the last plan, below 0 if they shrank. ``grown_bytes``: growth by the plans that grow files; ``passing_bytes``: the
    largest amounts, at most ``at_once``, that single plans need beyond their growth. ``damage_remains``: some damage is
    not repaired.
    """

    at_once: int = 1
    names: set[str] = field(default_factory=set)
    actions: Counter[str] = field(default_factory=Counter)
    freed_bytes: int = 0
    rewritten_bytes: int = 0
    rewriting_bytes: int = 0
    created_bytes: int = 0
    new_bytes: int = 0
    peak_bytes: int = 0
    left_bytes: int = 0
    grown_bytes: int = 0
    passing_bytes: list[int] = field(default_factory=list)
    records: int = 0
    kept: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Paths and partitions that failed, in order."""
    left_alone: list[str] | None = None
    """Partitions that stay as they are because they are not damaged, if the command looks for such."""
    missing_offsets: int = 0
    gaps: list[tuple[str, int, int]] = field(default_factory=list)
    has_changed: bool = False
    damage_remains: bool = False

    @property
    def directories(self) -> int:
        return len(self.names)

    def add(self, plan: Plan, keeps: bool) -> None:
        self.names.add(plan.directory)
        self.actions.update(step.action for step in plan.steps)
        self.freed_bytes += plan.freed_bytes
        self.rewritten_bytes += plan.rewritten_bytes
        self.rewriting_bytes += plan.rewriting_bytes
        self.created_bytes += plan.created_bytes
        self.new_bytes += plan.new_bytes
        needed = space_of(plan, keeps=keeps)
        # Kept bytes still use disk space when the next plan starts.
        self._add_space(needed.peak + plan.staged_bytes, needed.left + plan.staged_bytes)
        self.records += sum(removed.records or 0 for step in plan.steps for removed in step.removed)
        self.missing_offsets += sum(last - first + 1 for first, last in plan.gaps)
        self.gaps += [(plan.directory, first, last) for first, last in plan.gaps[: MAX_GAPS - len(self.gaps)]]

    def _add_space(self, peak: int, left: int) -> None:
        if self.at_once == 1:
            self.peak_bytes = max(self.peak_bytes, self.left_bytes + peak)
        else:  # worst case: all plans that grow files are done, none that shrink, and the largest peaks coincide
            grown = max(left, 0)
            self.grown_bytes += grown
            heappush(self.passing_bytes, peak - grown)
            if len(self.passing_bytes) > self.at_once:
                heappop(self.passing_bytes)
            self.peak_bytes = self.grown_bytes + sum(self.passing_bytes)
        self.left_bytes += left

    def append(self, later: "PlanTotals") -> None:
        """Adds the totals of plans that are applied after these."""
        self.names |= later.names
        self.actions += later.actions
        self.freed_bytes += later.freed_bytes
        self.rewritten_bytes += later.rewritten_bytes
        self.rewriting_bytes += later.rewriting_bytes
        self.created_bytes += later.created_bytes
        self.new_bytes += later.new_bytes
        self._add_space(later.peak_bytes, later.left_bytes)
        self.records += later.records
        self.missing_offsets += later.missing_offsets
        self.gaps += later.gaps[: MAX_GAPS - len(self.gaps)]
