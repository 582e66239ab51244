"""What commands have to be told of the broker whose rules they follow."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from kseg.changes.driver.reporter import Messages
from kseg.logdir.known_topics import SOURCE, KnownTopics
from kseg.recovery.broker.intervals import Interval
from kseg.recovery.broker.segments import DEFAULT_INTERVAL_BYTES
from kseg.recovery.broker.start import Start
from kseg.releases.recovery import NEWEST, Era, era_of


class _Release(click.ParamType):  # type: ignore[type-arg]
    name = "VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Era:
        if isinstance(value, Era):
            return value
        try:
            return era_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def era_option(oldest: str = "0.7") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--era; ``oldest``: the release before which the command knows no rules."""
    newest = ".".join(map(str, NEWEST))
    return click.option(
        "--era",
        type=_Release(),
        default=newest,
        show_default=True,
        help=f"Follow the rules of this release of Kafka, {oldest} to {newest}.",
    )


class IntervalTeller:
    """Says which interval is taken for granted, once for each in a run; all of them where verbose."""

    def __init__(self, reporter: Messages) -> None:
        self._reporter = reporter
        self._told: set[int] = set()

    def tell(self, directory: str, interval: Interval | None) -> None:
        if interval is None or (interval.indexes is None and not interval.source):
            return
        source = f"as {interval.indexes} of its indexes show it" if interval.indexes else "which is Kafka's default"
        source = interval.source or source
        line = f"{directory}: index.interval.bytes {interval.size}, {source}; --index-interval-bytes sets it"
        if interval.size in self._told or interval.size == DEFAULT_INTERVAL_BYTES:
            self._reporter.detail(line)
        else:
            self._reporter.warning(line)
        self._told.add(interval.size)


def with_known_interval(start: Start, topics: KnownTopics, partition: str) -> Start:
    """With the index.interval.bytes that the log directory knows of a partition's topic, where none is given."""
    known = topics.interval_bytes(partition) if start.interval_bytes is None else None
    return start if known is None else replace(start, interval_bytes=known, interval_source=SOURCE)
