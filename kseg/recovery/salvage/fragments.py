"""Handles many single broken batches of a segment at once, and the intact batches between them.

One by one takes five times as long: seconds for a million broken batches.
"""

from collections.abc import Container, Mapping
from itertools import pairwise

from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import (
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAGIC,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_PRODUCER_ID,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
)
from kseg.kernel.scan import chain
from kseg.recovery.salvage.parts import BATCH_WEIGHT, Parts
from kseg.recovery.salvage.segment_contents import Cuts

MANY_BREAKS = 64
"""Least number of broken ones among 2,048 batches; for fewer, making the columns takes longer than it saves."""

WRONG_CHECKSUM = "the checksum is not that of the bytes"
_COLUMNS = (BATCH_POSITION, BATCH_SIZE, BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_COUNT)

Break = tuple[int, int, int]
"""Kind of an event of `kseg.kernel.scan.chain`, and its values."""


class Fragments:
    """``count`` rows of batches; ``breaks``: the problem of each broken one, by row. Offsets outside ``base`` to
    ``limit`` are ignored."""

    def __init__(self, rows: memoryview, count: int, breaks: Mapping[int, Break], base: int, limit: int) -> None:
        self._rows, self._end = rows, count * BATCH_WIDTH
        self._positions, self._sizes, self._firsts, self._lasts, self._counts = map(self._column, _COLUMNS)
        states, magics = self._column(BATCH_STATE), self._column(BATCH_MAGIC)
        firsts, lasts = self._firsts, self._lasts
        self._runs: dict[int, list[int]] = {}
        run = list[int]()
        for row, (kind, before, _) in sorted(breaks.items()):
            is_broken = kind == chain.INVALID and magics[row] == MAGIC_V2 and not states[row] & CRC_RIGHT
            leads_on = row + 1 < count and firsts[row] == before + 1 and firsts[row + 1] == lasts[row] + 1
            if is_broken and leads_on and base <= firsts[row] <= lasts[row] <= limit:
                if not run:
                    self._runs[row] = run
                run.append(row)
            else:
                run = []

    def _column(self, column: int) -> list[int]:
        return self._rows[column : self._end : BATCH_WIDTH].tolist()

    def run_from(self, row: int) -> list[int]:
        """Returns the rows of broken v2 batches from a row on, as long as offsets continue across each of them and
        nothing else is wrong between them."""
        return self._runs.get(row, [])

    def take(self, run: list[int], parts: Parts, cuts: Cuts, remembered: Container[tuple[int, int]]) -> list[int]:
        """Cuts the batches of a run out, and adds the batches between them to the parts. Returns the positions of parts
        whose producer id and largest timestamp are in ``remembered``."""
        positions, sizes, firsts, lasts, counts = (
            self._positions, self._sizes, self._firsts, self._lasts, self._counts,
        )  # fmt: skip
        spans = [(one + 1, two - 1) for one, two in pairwise(run) if two - one > 1]
        parts.extend(
            [positions[a] for a, _ in spans],
            [positions[b] + sizes[b] for _, b in spans],
            [firsts[a] for a, _ in spans],
            [lasts[b] for _, b in spans],
            [BATCH_WEIGHT * (b - a + 1) + 1 for a, b in spans],
            [
                counts[a] if a == b and 0 <= counts[a] <= lasts[a] - firsts[a] + 1 else records_in(self._rows, a, b + 1)
                for a, b in spans
            ],
        )
        cuts.add_all("crc-mismatch", [(positions[row], sizes[row]) for row in run], WRONG_CHECKSUM)
        if not remembered:
            return []
        producers, times = self._column(BATCH_PRODUCER_ID), self._column(BATCH_MAX_TIMESTAMP)
        return [positions[a] for a, _ in spans if (producers[a], times[a]) in remembered]


def records_in(rows: memoryview, first: int, stop: int) -> int:
    """Returns the number of records by the headers of rows; a count above the number of offsets, or of 0, is replaced
    by that number."""
    at, end = first * BATCH_WIDTH, stop * BATCH_WIDTH
    counts = rows[at + BATCH_COUNT : end : BATCH_WIDTH].tolist()
    total, span = sum(counts), rows[end - BATCH_WIDTH + BATCH_LAST_OFFSET] - rows[at + BATCH_FIRST_OFFSET] + 1
    if 0 < total <= span and min(counts) >= 0:
        return int(total)
    firsts, lasts = (
        rows[at + column : end : BATCH_WIDTH].tolist() for column in (BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET)
    )
    spans = [last - first + 1 for first, last in zip(firsts, lasts, strict=True)]
    return sum(max(count if 0 <= count <= span else span, 0) for count, span in zip(counts, spans, strict=True))
