"""Compares two logs by what their records hold (`kseg verify --against DIR --by FIELDS`), whatever their offsets are.

A mirror, a migration or a restored topic has the records of another log at other offsets. Each record is reduced to a
digest of the chosen fields. Digests lie in a temporary file, in buckets by their first byte, which are joined one by
one: memory grows with a 256th of the records. The counts of a digest tell which records one side lacks or repeats.

Order is compared for the digests that both logs have once. Where the order of one log is cut at a place such that the
same records lie before it in both, the parts before and after are independent; in the smallest such parts the longest
common order is found, and records outside of it are out of order.
"""

import heapq
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from struct import Struct
from typing import IO, TYPE_CHECKING

from kseg.formats.rows import Rows
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2
from kseg.kernel.layout.rows import ROW_HEADER_COUNT, ROW_KEY, ROW_OFFSET, ROW_TIMESTAMP, ROW_VALUE, ROW_WIDTH
from kseg.quantities import plural
from kseg.segment.items import headers_of
from kseg.verification.report import COMPARED_FIELDS, Comparison, Report

if TYPE_CHECKING:
    from kseg.verification.replicas import Replica

KEY, VALUE, HEADERS, TIMESTAMP = COMPARED_FIELDS
_DIGEST_BYTES, _BUCKETS, _CHUNK_BYTES = 16, 256, 12 << 10
_DIGESTED, _PAIR, _SIZE = Struct(f"<{_DIGEST_BYTES}sq"), Struct("<qq"), Struct("<q")
_SHOWN = 20
"""Offsets in a message; the details have `_LISTED`."""
_LISTED = 1000


class _Buckets:
    """Entries of one size in buckets of a temporary file, in the order in which they came."""

    def __init__(self, file: IO[bytes], form: Struct) -> None:
        self._file, self._form = file, form
        self._size = _CHUNK_BYTES // form.size * form.size
        self._held = [bytearray() for _ in range(_BUCKETS)]
        self._chunks: list[list[tuple[int, int]]] = [[] for _ in range(_BUCKETS)]

    def add(self, bucket: int, entry: bytes) -> None:
        held = self._held[bucket]
        held += entry
        if len(held) >= self._size:
            self._chunks[bucket].append((self._file.seek(0, 2), len(held)))
            self._file.write(held)
            held.clear()

    def entries(self, bucket: int) -> Iterator[tuple[bytes, int]]:
        """Yields the entries of a bucket; several buckets may be read at a time."""
        for position, size in self._chunks[bucket]:
            self._file.seek(position)
            yield from self._form.iter_unpack(self._file.read(size))
        yield from self._form.iter_unpack(bytes(self._held[bucket]))


class _Offsets:
    """Offsets of records, which come in any order: their number, the lowest of them, and the last."""

    def __init__(self) -> None:
        self.count, self.last = 0, -1
        self._lowest = list[int]()
        """A heap of the negated offsets, so that the highest of them is replaced first."""

    def add(self, offset: int) -> None:
        self.count += 1
        self.last = max(self.last, offset)
        if len(self._lowest) < _LISTED:
            heapq.heappush(self._lowest, -offset)
        elif -offset > self._lowest[0]:
            heapq.heapreplace(self._lowest, -offset)

    @property
    def listed(self) -> list[int]:
        return sorted(-offset for offset in self._lowest)


class ContentComparison:
    """Compares two logs by the fields ``by``, and reports the differences. A is the checked log, B the other one."""

    def __init__(self, a: "Replica", b: "Replica", by: tuple[str, ...], report: Report) -> None:
        self._a, self._b, self._by, self._report = a, b, by, report
        self._sides = (_Offsets(), _Offsets()), (_Offsets(), _Offsets())
        """The records that each log has alone, and those that it has more often than the other."""
        self._moved = _Offsets()

    def run(self) -> Comparison:
        """Reads both logs to their ends."""
        a, b = self._a, self._b
        found = Comparison(a.name, b.name, by=self._by)
        with tempfile.TemporaryFile() as file:
            digests = [_Buckets(file, _DIGESTED), _Buckets(file, _DIGESTED)]
            for side, into in zip((a, b), digests, strict=True):
                for digest, offset in self._digests(side):
                    into.add(digest[0], _DIGESTED.pack(digest, offset))
            by_here, by_there = _Buckets(file, _PAIR), _Buckets(file, _PAIR)
            for bucket in range(_BUCKETS):
                pairs = self._join(digests[0].entries(bucket), digests[1].entries(bucket), found)
                for here, there in sorted(pairs):
                    by_here.add(bucket, _PAIR.pack(here, there))
                for there, here in sorted((there, here) for here, there in pairs):
                    by_there.add(bucket, _PAIR.pack(there, here))
            self._compare_order(_merged(by_here), _merged(by_there))
        found.start_offsets, found.last_offsets = (a.start_offset, b.start_offset), (a.last_offset, b.last_offset)
        (only_a, more_a), (only_b, more_b) = self._sides
        found.only_here, found.only_there = only_a.count, only_b.count
        found.repeated_here, found.repeated_there = more_a.count, more_b.count
        found.out_of_order = self._moved.count
        self._add_findings(found)
        return found

    def _digests(self, side: "Replica") -> Iterator[tuple[bytes, int]]:
        """Yields the digest and the offset of each record that a consumer gets."""
        while not side.is_at_end:
            if side.batch.magic >= MAGIC_V2 and side.batch.attributes & CONTROL:
                side.step()
                continue
            while (rows := side.fill()) is not None:
                for i in range(side.i, rows.count):
                    yield self._digest(rows, i * ROW_WIDTH), rows.rows[i * ROW_WIDTH + ROW_OFFSET]
                side.i = rows.count

    def _digest(self, rows: Rows, at: int) -> bytes:
        columns, parts = rows.rows, list[bytes | None]()
        for name, column in ((KEY, ROW_KEY), (VALUE, ROW_VALUE)):
            if name in self._by:
                start, size = columns[at + column], columns[at + column + 1]
                parts.append(None if size < 0 else bytes(rows.payload[start : start + size]))
        if HEADERS in self._by and columns[at + ROW_HEADER_COUNT]:
            parts += [part for header in headers_of(rows, at) for part in header]
        if TIMESTAMP in self._by:
            parts.append(_SIZE.pack(columns[at + ROW_TIMESTAMP]))
        joined = b"".join(_SIZE.pack(-1) if part is None else _SIZE.pack(len(part)) + part for part in parts)
        return blake2b(joined, digest_size=_DIGEST_BYTES).digest()

    def _join(
        self, ours: Iterable[tuple[bytes, int]], theirs: Iterable[tuple[bytes, int]], found: Comparison
    ) -> list[tuple[int, int]]:
        """Counts the records of a bucket. Returns the offsets here and there of those that both logs have once."""
        places: defaultdict[bytes, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, entries in enumerate((ours, theirs)):
            for digest, offset in entries:
                places[digest][side].append(offset)
        pairs = []
        for here, there in places.values():
            found.same += min(len(here), len(there))
            if len(here) == len(there) == 1:
                pairs.append((here[0], there[0]))
            for (only, repeated), mine, others in zip(self._sides, (here, there), (there, here), strict=True):
                for offset in mine[len(others) :]:
                    (repeated if others else only).add(offset)
        return pairs

    def _compare_order(self, by_here: Iterator[tuple[int, int]], by_there: Iterator[tuple[int, int]]) -> None:
        """``by_here``: offsets here and there, in the order of the first; ``by_there``: there and here likewise."""
        block: list[int] = []
        """Offsets here, in the order of those there."""
        reached = -1
        for (end, _), (_, here) in zip(by_here, by_there, strict=True):
            block.append(here)
            reached = max(reached, here)
            if reached == end:  # the same records lie up to here on both sides
                for i in out_of_order(block) if len(block) > 1 else ():
                    self._moved.add(block[i])
                block = []

    def _add_findings(self, found: Comparison) -> None:
        a, b = self._a, self._b
        for side, other, (only, repeated) in ((a, b, self._sides[0]), (b, a, self._sides[1])):
            self._add("only-here", side.name, other.name, only, f"{_are(only.count)} not in {other.name}")
            text = f"{_are(repeated.count)} more often here than in {other.name}"
            self._add("more-often-here", side.name, other.name, repeated, text)
            side.report_damage(other, found, self._report)
        text = f"{_are(self._moved.count)} in another order than in {b.name}"
        self._add("out-of-order", a.name, b.name, self._moved, text)

    def _add(self, kind: str, path: str, other: str, offsets: _Offsets, text: str) -> None:
        if not offsets.count:
            return
        listed = offsets.listed
        more = f" and {offsets.count - _SHOWN} more" if offsets.count > _SHOWN else ""
        details = {
            "difference": kind, "count": offsets.count, "offsets": listed, "firstOffset": listed[0],
            "lastOffset": offsets.last, "other": other,
        }  # fmt: skip
        shown = ", ".join(map(str, listed[:_SHOWN]))
        message = f"{text}: {'offset' if offsets.count == 1 else 'offsets'} {shown}{more}"
        self._report.add("records-differ", path, message, offset=listed[0], details=details)


def _are(count: int) -> str:
    return f"{plural(count, 'record', 'records')} {'is' if count == 1 else 'are'}"


def _merged(buckets: _Buckets) -> Iterator[tuple[int, int]]:
    """Yields the entries of all buckets, each sorted, in order."""
    return heapq.merge(*map(buckets.entries, range(_BUCKETS)))  # type: ignore[arg-type]


def out_of_order(values: list[int]) -> list[int]:
    """Returns the places of the values outside of a longest rising sequence. The values are all different."""
    ends, places, before = list[int](), list[int](), list[int]()
    for i, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(places[length - 1] if length else -1)
        if length == len(ends):
            ends.append(value)
            places.append(i)
        else:
            ends[length], places[length] = value, i
    kept, i = set[int](), places[-1] if places else -1
    while i >= 0:
        kept.add(i)
        i = before[i]
    return [i for i in range(len(values)) if i not in kept]
