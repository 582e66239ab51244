"""Compaction on Spark: the offset map is distributed over tasks, and each task cleans groups of segments.

There are three steps, with shuffles between them that never contain values:

- read keys: the key hashes of a segment, each with its last offset, are partitioned into buckets;
- look up: a bucket has all keys with some hashes; it sends each group the last offsets of the keys that occur in it;
- clean: a group is rewritten by the local cleaner with its part of the map, with the same result as with the whole map.

A task may run more than once, even concurrently: each attempt writes to its own folder, and only results reported to
the driver become part of the partition, through the driver's plan.
"""

import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from kseg import __version__
from kseg.cleaner import log
from kseg.cleaner.rounds import CleanedGroup, OffsetMap, Round, map_keys
from kseg.cleaner.settings import CleanerSettings
from kseg.errors import KsegError
from kseg.kernel.compact import key_map
from kseg.spark.jobs import Failure, attempt_in, collected, run, whole
from kseg.spark.session import for_workers
from kseg.stores.windows import Buffers

BUCKET_BYTES = 64 << 20
"""Bytes of segments for each bucket. Its keys are a small part of that."""
MAX_TASKS = 4096

_JOBS = 1
"""Threads of a task. Spark gives each task one core."""
_NO_LIMIT = 1 << 40
_PROBE = b"kseg"

Entries = bytes
"""Entries of `kseg.kernel.compact.key_map`."""

_LookedUp = Entries | int | tuple[int, Failure]
"""Entries of a group; the number of keys of the dirty section in a bucket; or why a segment cannot be read."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """Data shared by all tasks of a round.

    ``groups``: for each segment, by its index in ``segments``, the group; ``dirty``: index of the first dirty segment;
    ``latest``: the last offset that the map covers. ``probe``: this kseg's hash of `_PROBE`; maps with different hashes
    cannot be merged.
    """

    segments: list[log.CleanerSegment]
    cleanable: log.CleanableRange
    producers: log.Producers
    settings: CleanerSettings
    groups: list[int]
    dirty: int
    latest: int
    buckets: int
    secret: bytes
    probe: tuple[str, int, int]
    done: Any

    def check_kseg(self) -> None:
        """Raises KsegError if this process has a different kseg than the driver."""
        if _probe(self.secret) != self.probe:
            here, there = __version__, self.probe[0]
            raise KsegError(
                f"a task runs kseg {here} and the driver {there}, or only one of them has the compiled kernel: "
                "all machines need the same"
            )


def _probe(secret: bytes) -> tuple[str, int, int]:
    return (__version__, *key_map.hash_of(_PROBE, key_map.Secret(secret)))


class _Scan(NamedTuple):
    """A segment whose keys are read, by its index. ``transactions``: open transactions at its start, pickled; None for
    a clean segment."""

    segment: int
    transactions: bytes | None


class _GroupTask(NamedTuple):
    """A group to clean, as indexes of its segments."""

    first: int
    stop: int
    folder: str | None
    transactions: bytes


class _Result(NamedTuple):
    """The result of a group. ``map_failure``: why the map could not be built, with the index of the segment."""

    cleaned: CleanedGroup | Failure
    keys: int
    map_failure: tuple[int, Failure] | None


class SparkRound(Round):
    """Like the local round, with its arguments and an unlimited map. ``spark``: a session."""

    def __init__(self, *arguments: Any, spark: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._spark = spark

    def groups(self) -> Iterator[CleanedGroup]:
        """Yields the new segments, oldest first. Raises KsegError, OSError as the local engine does."""
        found = self._range
        dirty = log.segments_between(self._segments, found.start, found.end)
        traces = self._traces(log.segments_between(self._segments, 0, found.end), dirty[0].base_offset)
        lasts = [traces[segment.base_offset].last_offset for segment in dirty]
        self.end = max(found.end, *(last + 1 for last in lasts), found.start)
        groups = self.grouped()
        sources = [segment for group in groups for segment in group]
        secret, size = os.urandom(key_map.SECRET_BYTES), sum(segment.size for segment in sources)
        context = self._spark.sparkContext
        shared = _Shared(
            list(self._segments), found, self._producers, self._settings,
            [number for number, group in enumerate(groups) for _ in group], sources.index(dirty[0]), self.end - 1,
            min(max(-(-size // BUCKET_BYTES), context.defaultParallelism), MAX_TASKS), secret, _probe(secret),
            context.accumulator(0),
        )  # fmt: skip
        scans = self._scans(sources, traces, shared.dirty)
        tasks = self._group_tasks(groups, traces)
        results = self._run(shared, scans, tasks)
        if failed := [each.map_failure for each in results if each.map_failure]:
            raise min(failed, key=itemgetter(0))[1]
        self.keys = sum(result.keys for result in results)
        for result in results:
            yield whole(result.cleaned)

    def _traces(self, segments: list[log.CleanerSegment], first_dirty: int) -> dict[int, log.Trace]:
        """Returns traces by base offset. An unreadable segment in the clean section is reported when it is cleaned
        again.
        """
        found = {}
        for segment, trace in zip(segments, run(self._spark, [s.path for s in segments], log.read_trace), strict=True):
            if isinstance(trace, Failure):
                if segment.base_offset >= first_dirty:
                    raise trace
                trace = log.Trace(-1)
            found[segment.base_offset] = trace
        return found

    def _scans(self, sources: list[log.CleanerSegment], traces: dict[int, log.Trace], first_dirty: int) -> list[_Scan]:
        """Tracks transactions as the local round's map does, from the dirty section on."""
        found, known = self._range, log.CleanedTransactions()
        known.add(log.aborted_between(self._with_aborted, found.start, found.end))
        scans = []
        for index, segment in enumerate(sources):
            scans.append(_Scan(index, pickle.dumps(known) if index >= first_dirty else None))
            if index >= first_dirty:
                traces.get(segment.base_offset, log.Trace(-1)).follow(known)
        return scans

    def _group_tasks(self, groups: list[list[log.CleanerSegment]], traces: dict[int, log.Trace]) -> list[_GroupTask]:
        """Tracks transactions as `Round.clean` does, from the oldest segment on."""
        known, tasks, first = log.CleanedTransactions(), [], 0
        for group in groups:
            folder = self._make_folder() if self._make_folder else None
            tasks.append(_GroupTask(first, first + len(group), folder, pickle.dumps(known)))
            for segment in group:
                known.add(self.aborted_in(segment))
                traces.get(segment.base_offset, log.Trace(-1)).follow(known)
                known.kept = []
            first += len(group)
        return tasks

    def _run(self, shared: _Shared, scans: list[_Scan], tasks: list[_GroupTask]) -> list[_Result]:
        reported, watcher = 0, self._watcher
        if watcher is not None:
            watcher.total = 2 * sum(segment.size for segment in shared.segments[: len(scans)])

        def watch() -> None:
            nonlocal reported
            if watcher is not None:
                watcher.advance(shared.done.value - reported)
                reported = shared.done.value

        def make_rdd(context: Any) -> Any:
            keys = context.parallelize(scans, min(len(scans), MAX_TASKS)).mapPartitions(for_workers(_read_keys, shared))
            entries = keys.partitionBy(shared.buckets, int).mapPartitionsWithIndex(for_workers(_look_up, shared))
            return entries.partitionBy(len(tasks), int).mapPartitionsWithIndex(for_workers(_clean, shared, tasks))

        return collected(self._spark, make_rdd, watch)


def _read_keys(shared: _Shared, scans: Iterable[_Scan]) -> Iterator[tuple[int, tuple[int, Entries | Failure]]]:
    """Reads the keys of segments, partitioned into buckets."""
    shared.check_kseg()
    buffers, workers = Buffers(), log.CleaningThreads(_JOBS)
    for scan in scans:
        segment = shared.segments[scan.segment]
        transactions = pickle.loads(scan.transactions) if scan.transactions else log.CleanedTransactions()
        try:
            with closing(OffsetMap(_NO_LIMIT, shared.secret)) as part:
                map_keys(part, segment, 0, transactions, workers, buffers)
                shared.done.add(segment.size)
                shares = [bytes(share) for share in part.entries(shared.buckets)]
        except (KsegError, OSError) as error:
            # The map covers dirty segments only. Errors in clean segments are found when they are cleaned again.
            if scan.segment >= shared.dirty:
                yield 0, (scan.segment, error)
            continue
        for bucket, share in enumerate(shares):
            if share:
                yield bucket, (scan.segment, share)


def _look_up(
    shared: _Shared, bucket: int, found: Iterable[tuple[int, tuple[int, Entries | Failure]]]
) -> Iterator[tuple[int, _LookedUp]]:
    """Looks up the keys of each group in one bucket of the map."""
    shares: list[tuple[int, memoryview]] = []
    for _, (index, share) in found:
        if isinstance(share, Failure):
            yield 0, (index, share)
        else:
            shares.append((index, memoryview(share).cast("q")))
    dirty = [entries for index, entries in shares if index >= shared.dirty]
    with closing(OffsetMap(_NO_LIMIT, shared.secret)) as latest:
        for entries in dirty:
            latest.merge(entries, max(shared.cleanable.start, 0))
        yield 0, len(latest)
        for index, entries in shares:
            if offsets := bytes(latest.look_up(entries)):
                yield shared.groups[index], offsets


def _clean(
    shared: _Shared, tasks: list[_GroupTask], number: int, received: Iterable[tuple[int, _LookedUp]]
) -> Iterator[_Result]:
    """Rewrites one group."""
    shared.check_kseg()
    entries: list[memoryview] = []
    keys, map_failures = 0, []
    for _, found in received:
        if isinstance(found, int):
            keys += found
        elif isinstance(found, tuple):
            map_failures.append(found)
        else:
            entries.append(memoryview(found).cast("q"))
    cleaned: CleanedGroup | Failure
    try:
        one = Round(shared.segments, shared.cleanable, shared.producers, shared.settings, None)
        part, task = OffsetMap(_NO_LIMIT, shared.secret), tasks[number]
        with closing(part), attempt_in(task.folder) as folder:
            while entries:
                part.merge(entries.pop())
            part.keys.latest_offset = shared.latest
            known, group = pickle.loads(task.transactions), shared.segments[task.first : task.stop]
            cleaned = one.clean(group, folder, part, log.CleaningThreads(_JOBS), known, shared.done.add)
    except (KsegError, OSError) as error:
        cleaned = error
    yield _Result(cleaned, keys, min(map_failures, key=itemgetter(0), default=None))
