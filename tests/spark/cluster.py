"""A local substitute for the session of `kseg.spark.jobs`: RDDs are lists; tasks and rows are pickled as in Spark.

A task named by ``loses`` runs twice and the result of its first attempt is lost, as if its machine had failed.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from pyspark.cloudpickle import dumps


class Accumulator:
    """Is not sent to tasks; it only counts progress."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, count: int) -> None:
        self.value += count


class Rdd:
    def __init__(self, cluster: "Cluster", parts: list[list[Any]]) -> None:
        self._cluster, self._parts = cluster, parts

    def mapPartitions(self, work: Callable[[Iterator[Any]], Iterable[Any]]) -> "Rdd":
        return self.mapPartitionsWithIndex(lambda _, part: work(part))

    def mapPartitionsWithIndex(self, work: Callable[[int, Iterator[Any]], Iterable[Any]]) -> "Rdd":
        self._cluster.stages += 1
        return Rdd(self._cluster, [self._cluster.task(work, i, part) for i, part in enumerate(self._parts)])

    def partitionBy(self, count: int, place: Callable[[Any], int]) -> "Rdd":
        parts: list[list[Any]] = [[] for _ in range(count)]
        for pair in (pair for part in reversed(self._parts) for pair in part):  # shuffled parts arrive in any order
            parts[place(pair[0]) % count].append(pair)
        return Rdd(self._cluster, parts)

    def collect(self) -> list[Any]:
        return [row for part in self._parts for row in part]


class Cluster:
    """A session and its context in one. ``loses``: takes stage and task; whether the first attempt is lost."""

    def __init__(self, loses: Callable[[int, int], bool] = lambda stage, task: False) -> None:
        self.sparkContext = self
        self.defaultParallelism = 2
        self.stages = 0
        self._loses = loses

    def task(self, work: Any, number: int, rows: list[Any]) -> list[Any]:
        def attempt() -> list[Any]:
            there, given = pickle.loads(dumps((work, rows)))
            found: list[Any] = pickle.loads(dumps(list(there(number, iter(given)))))
            return found

        if self._loses(self.stages, number):
            attempt()
        return attempt()

    def parallelize(self, items: list[Any], slices: int) -> Rdd:
        cuts = [len(items) * i // slices for i in range(slices + 1)]
        return Rdd(self, [items[a:b] for a, b in pairwise(cuts)])

    def accumulator(self, value: int) -> Accumulator:
        return Accumulator(value)

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        """Does nothing: jobs are never cancelled here."""
