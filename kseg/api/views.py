"""What ``kseg stats``, ``groups``, ``transactions`` and ``cluster`` show, as rows with the fields of their JSON."""

import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Unpack

from kseg.api import arguments
from kseg.api.archives import readable
from kseg.api.arguments import Path, Paths, Range, Reading, TimeRange, checked, offsets_of, paths_of, times_of
from kseg.changes.driver.command import partitions_at
from kseg.errors import KsegError, PathError
from kseg.node.topics import check_topics
from kseg.options.declaration import JSON, filled
from kseg.output.notices import Notices
from kseg.output.sink import MemorySink, Sink
from kseg.segment.paths import places_of
from kseg.stores.remote.keys import RemoteChoice
from kseg.views.cluster import ClusterOptions, show_clusters
from kseg.views.groups import Groups, GroupsOptions
from kseg.views.stats import Stats, StatsOptions
from kseg.views.transactions import TransactionList, TransactionsOptions

Row = dict[str, Any]
"""A row of the command's JSON: keys in Kafka's camelCase, ``type`` first."""


@checked
def stats(
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    offsets: Range | None = None,
    time: TimeRange | None = None,
    what_if: str | Iterable[str] | None = None,
    sample: int | None = None,
    now: int | None = None,
    jobs: int | None = None,
    **reading: Unpack[Reading],
) -> list[Row]:
    """Returns a summary of each partition, as ``kseg stats`` prints it: sizes, codecs, keys, values, offsets, times.

    ``topics``: globs. ``offsets`` and ``time`` as in `Log.records`: only these batches. ``what_if``: codecs, as "zstd"
    or "gzip:9", whose savings are measured, from about ``sample`` random batches if that is given. ``now``: the current
    time, in ms since the epoch. ``live``, ``max_batch_bytes`` and ``private_keys`` as in `kseg.open`. Damage is counted
    in the rows. Raises PathError if a path cannot be read.

    >>> (row,) = kseg.stats("orders-0", what_if="zstd")
    >>> row["records"], row["keyBytes"], row["whatIf"]["bytesSaved"]
    (150, 1782, 28618)
    """
    given = locals() | reading | {"offsets": offsets_of(offsets), "time": times_of(time)}
    options = filled(StatsOptions, given, paths=(), private_keys=())
    options.check()
    options = replace(options, remote=RemoteChoice(arguments.keys_of(reading["private_keys"]), options.topics))
    return _rows(path, options, lambda sink, options, notices: Stats(sink, options, notices).run())


@checked
def groups(
    path: Paths,
    *,
    by_size: bool = False,
    offsets: Range | None = None,
    time: TimeRange | None = None,
    now: int | None = None,
    live: bool = False,
    max_batch_bytes: int | None = None,
) -> list[Row]:
    """Returns the committed offsets of consumer groups, with lags, and where share groups stand, as ``kseg groups``.

    ``path``: log directories, or partitions of __consumer_offsets. ``by_size``: instead the records and bytes of each
    group, the largest first. ``offsets`` and ``time``: by these records only, as offsets=(None, 1200) for what was
    committed then. ``now``: the time from which ages are computed, in ms since the epoch; None: the newest
    timestamp. Raises PathError if there is no partition of __consumer_offsets.

    >>> [(row["group"], row["topic"], row["offset"], row["lag"]) for row in kseg.groups("kafka-logs")][:2]
    [('ahead', 'orders', 99, 0), ('audit', 'orders', 14, 7)]
    """
    given = locals() | {"offsets": offsets_of(offsets), "time": times_of(time)}
    options = filled(GroupsOptions, given, paths=())
    return _rows(path, options, lambda sink, options, notices: Groups(sink, options, notices).run())


@checked
def transactions(
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    transaction_state: Path | None = None,
    now: int | None = None,
    live: bool = False,
    max_batch_bytes: int | None = None,
) -> list[Row]:
    """Returns transactions without an end marker, and those that stay prepared, as ``kseg transactions`` lists them.

    ``topics``: globs. ``transaction_state``: the log directory with __transaction_state, if not the partition's.
    ``now``: as in `groups`. A row's ``verdict`` is "open", "ending" or "hanging". Raises PathError if a path cannot be
    read.

    >>> [(row["producerId"], row["firstOffset"], row["verdict"]) for row in kseg.transactions("orders-0")]
    []
    """
    place = None if transaction_state is None else os.fspath(transaction_state)
    options = filled(TransactionsOptions, locals(), paths=(), state=place)
    return _rows(path, options, lambda sink, options, notices: TransactionList(sink, options, notices).run())


@checked
def cluster(path: Paths, *, as_of: int | None = None, since: int | None = None, redact: bool = False) -> list[Row]:
    """Returns the cluster that the records of __cluster_metadata make, as ``kseg cluster`` prints it.

    ``path``: log directories, partitions of __cluster_metadata, or snapshots. The first row of each is its
    ``metadataImage``, which tells the offset; the others are the records that a node would write to a snapshot.
    ``as_of``: by the records below this offset; ``since``: only what differs from the cluster as of that offset;
    ``redact``: without SCRAM credentials and other secrets. Raises PathError if there is no metadata log.

    >>> head, *records = kseg.cluster("controller", redact=True)
    >>> head["metadataVersion"], [row["data"]["name"] for row in records if row["recordType"] == "TOPIC_RECORD"][3:5]
    ('4.3-IV0', ['g-in', 'idem-epochs'])
    """
    return _rows(path, filled(ClusterOptions, locals(), paths=()), show_clusters)


class _Messages(Notices):
    """Raises the first error after the run, and logs warnings."""

    def __init__(self) -> None:
        super().__init__("never", quiet=True)
        self.errors: list[object] = []

    def error(self, message: object) -> None:
        self.errors.append(message)

    def warning(self, message: str, copied: str = "") -> None:
        logging.getLogger("kseg").warning(message)


def _rows(path: Paths, options: Any, work: Callable[[Sink, Any, Notices], int]) -> list[Row]:
    sink, messages = MemorySink(), _Messages()
    with readable(paths_of(path)) as places:
        given, topics = tuple(places_of(places)), getattr(options, "topics", ())
        if topics and (partitions := partitions_at(given)):
            check_topics(partitions, topics)
        work(sink, replace(options, paths=given, form=JSON, quiet=True, color="never"), messages)
    sink.flush()
    for error in messages.errors:
        raise error if isinstance(error, KsegError) else PathError(str(error))
    rows = map(json.loads, sink.data.splitlines())
    return [row for row in rows if row["type"] != "totals"]  # which only counts them
