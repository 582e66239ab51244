"""Chooses index.interval.bytes of partitions: an option, else the topic's setting, else the interval of the indexes."""

from kseg.logdir.index_interval import FilesOnDisk, Interval, chosen_interval
from kseg.logdir.known_topics import KnownTopics
from kseg.logdir.topic_selection import Warn
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES


class IntervalMessages:
    """Reports intervals that no option gives: each but the default once as a warning, all of them as details."""

    def __init__(self, warn: Warn, detail: Warn) -> None:
        self._warn, self._detail = warn, detail
        self._reported: set[int] = set()

    def report(self, directory: str, interval: Interval | None) -> None:
        if interval is None or (interval.indexes is None and not interval.source):
            return
        source = f"as {interval.indexes} of its indexes show it" if interval.indexes else "which is Kafka's default"
        source = interval.source or source
        line = f"{directory}: index.interval.bytes {interval.size}, {source}; --index-interval-bytes sets it"
        is_expected = interval.size in self._reported or interval.size == DEFAULT_INTERVAL_BYTES
        (self._detail if is_expected else self._warn)(line)
        self._reported.add(interval.size)


class TopicIntervals:
    """``given_bytes``: the option, None if it is not given."""

    def __init__(self, given_bytes: int | None, topics: KnownTopics, messages: IntervalMessages) -> None:
        self._given_bytes, self._topics, self._messages = given_bytes, topics, messages

    def of(self, directory: str) -> int:
        """Returns the interval of a partition, and reports it. Raises KsegError if its files cannot be read."""
        if self._given_bytes is not None:
            return self._given_bytes
        interval = chosen_interval(FilesOnDisk(directory), *self._topics.interval_bytes(directory))
        self._messages.report(directory, interval)
        return interval.size
