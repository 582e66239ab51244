"""Measures the saving of another codec by recompressing all batches, or a random sample, and taking their sizes.

Some batches are not recompressed: control batches and empty ones, which no writer compresses; unreadable batches; 0.7
messages; uncompressed v0 and v1 messages; and compressed ones if the codec is zstd, which their formats lack.
"""

import math
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.formats import message_set, record_batch
from kseg.formats.compressing import Target, compress
from kseg.formats.compression import CODEC_NAMES, DecompressionError, allows, decompress
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import BytesLike, UndecodableError
from kseg.runtime.threads import Pipeline
from kseg.segment.items import Batch, Message, RecordBatch

_TWO_SIDED_95 = 1.96


@dataclass(slots=True)
class Saving:
    """The result of recompression, in bytes of the file.

    ``before`` and ``after`` are the sizes of the recompressible ``batches``, ``untouched`` that of all others. If only
    ``sampled`` batches were tried, ``after`` is an estimate, and ``error`` its 95 % error bound. ``error`` is None if
    all were tried, or too few for a bound.
    """

    target: Target
    batches: int = 0
    sampled: int = 0
    before: int = 0
    after: int = 0
    untouched: int = 0
    error: int | None = None
    records_bytes: int = 0
    """Uncompressed bytes that were compressed."""
    cpu_ns: int = field(default=0, compare=False)
    """CPU time that compressing them took, in ns."""

    @property
    def megabytes_per_second(self) -> float | None:
        """Uncompressed bytes by CPU time of one thread; None if nothing was compressed."""
        return self.records_bytes * 1000 / self.cpu_ns if self.cpu_ns else None

    @property
    def is_exact(self) -> bool:
        return self.sampled == self.batches


class _Area(NamedTuple):
    """The compressible part of a batch, and the size of the rest."""

    data: BytesLike
    codec: int
    magic: int
    around: int


class Recompression:
    """Takes batches by `add`; `finish` returns their sizes after recompression.

    ``sample``: the approximate number of batches to try, chosen at random with a fixed seed; None: all. ``jobs``:
    threads.
    """

    def __init__(self, target: Target, max_batch_bytes: int, jobs: int = 1, sample: int | None = None) -> None:
        self.target = target
        self._max_batch_bytes = max_batch_bytes
        self._sample = sample
        self._pipeline = Pipeline(jobs)
        self._random = random.Random(0)
        self._threshold = 1.0
        self._chosen: list[tuple[float, int, int]] = []
        self._found = Saving(target)

    def add(self, batch: Batch) -> None:
        """Adds one batch; its bytes are copied if they are needed later."""
        area = _area_of(batch, self.target)
        if area is None:
            self._found.untouched += batch.size
            return
        self._found.batches += 1
        self._found.before += batch.size
        ticket = self._random.random() if self._sample is not None else 0.0
        if ticket >= self._threshold:
            return
        area = area._replace(data=bytes(area.data))
        for results in self._pipeline.submit(lambda: (ticket, *self._sizes(area)), len(area.data)):
            self._take(results)

    def _sizes(self, area: _Area) -> tuple[int, int, int, int]:
        """Returns the size of the batch before and after, that of its records, and the CPU time of compressing them.

        After is -1 if it is unreadable.
        """
        before = area.around + len(area.data)
        try:
            records = decompress(area.codec, area.data, area.magic, self._max_batch_bytes)
        except DecompressionError:
            return before, -1, 0, 0
        began = time.thread_time_ns()
        after = area.around + len(compress(self.target, records))
        return before, after, len(records), time.thread_time_ns() - began

    def _take(self, results: Iterable[tuple[float, int, int, int, int]]) -> None:
        found = self._found
        for ticket, before, after, records_bytes, cpu_ns in results:
            found.records_bytes += records_bytes
            found.cpu_ns += cpu_ns
            if after < 0:
                found.batches -= 1
                found.before -= before
                found.untouched += before
            elif self._sample is None:
                found.sampled += 1
                found.after += after
            elif ticket < self._threshold:
                self._chosen.append((ticket, before, after))
        while self._sample is not None and len(self._chosen) > 2 * self._sample:
            self._threshold /= 2
            self._chosen = [chosen for chosen in self._chosen if chosen[0] < self._threshold]

    def finish(self) -> Saving:
        """Returns the result after the last `add`, and ends the threads."""
        with self._pipeline:
            for results in self._pipeline.drain():
                self._take(results)
        if self._sample is not None:
            self._found.sampled, self._found.after, self._found.error = self._estimate()
        return self._found

    def _estimate(self) -> tuple[int, int, int | None]:
        """Returns the number of batches tried, the size of all afterwards and its error, by the ratio estimator
        (Cochran, Sampling Techniques, chapter 6)."""
        whole, sizes = self._found, [(before, after) for _, before, after in self._chosen]
        n, before, after = len(sizes), sum(size for size, _ in sizes), sum(size for _, size in sizes)
        if n == whole.batches:
            return n, after, None
        if not n:
            return 0, whole.before, None
        ratio, error = after / before, None
        if n > 1:
            spread = sum((new - ratio * old) ** 2 for old, new in sizes) / (n - 1)
            deviation = whole.batches * math.sqrt((1 - n / whole.batches) * spread / n)
            error = math.ceil(_TWO_SIDED_95 * deviation)
        return n, round(ratio * whole.before), error


def _area_of(batch: Batch, target: Target) -> _Area | None:
    if not batch.is_valid or batch.is_control:
        return None
    if isinstance(batch, RecordBatch):
        if batch.header.record_count <= 0 or batch.header.codec >= len(CODEC_NAMES):
            return None
        return _Area(batch.data[record_batch.HEADER_BYTES :], batch.header.codec, 2, HEADER_BYTES)
    if not isinstance(batch, Message) or not batch.header.codec or not allows(batch.magic, target.codec):
        return None
    try:
        value = message_set.value_of(batch.data, 0, batch.size)
    except UndecodableError:
        return None
    return None if value is None else _Area(value, batch.header.codec, batch.magic, batch.size - len(value))
