"""Where a read begins and ends in each partition, by the options of Spark's Kafka source.

``startingOffsets`` and ``endingOffsets`` name offsets, the options by timestamp the earliest record with that timestamp
or a later one. The start is included, the end is not. Source: Spark's Kafka source (KafkaSourceProvider).
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch
from kseg.segment.batches import Batch
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.reader import open_segment
from kseg.segment.seek import seek_time
from kseg.sidefiles.checkpoints import LOG_STARTS, OffsetCheckpoint, read_offset_checkpoint
from kseg.stores.source import open_source

EARLIEST, LATEST = -2, -1
"""Numbers in JSON that mean the ends of a log."""

FIRST_OFFSET = -(1 << 63)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Positions:
    """One end of a read: the first of these fields that has the partition; without one, the end of its log.

    ``timestamp`` (ms) holds for all partitions.
    """

    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def timestamp_of(self, partition: TopicPartition) -> int | None:
        """Returns the timestamp of a partition in ms, None if none is given."""
        return self.timestamps.get(partition) if self.timestamp is None else self.timestamp

    def offset_of(self, partition: TopicPartition) -> int | None:
        """Returns the offset that is named for a partition; None for an end of its log or a timestamp."""
        offset = self.offsets.get(partition, EARLIEST)
        return offset if offset >= 0 and self.timestamp_of(partition) is None else None


def parse_word_or_offsets(text: str, word: str, forbidden: int) -> Mapping[TopicPartition, int]:
    """Returns the offsets of ``{"topic": {"0": 23}}``; nothing for ``word``. ``forbidden``: the wrong end of the log.

    Raises ValueError.
    """
    if text.strip().lower() == word:
        return {}
    offsets = parse_numbers(text, f'{word} or JSON such as {{"orders": {{"0": 23}}}}', EARLIEST)
    if forbidden in offsets.values():
        raise ValueError(f"{word} or JSON without {forbidden}")
    return offsets


def parse_numbers(text: str, expected: str, least: int = 0) -> Mapping[TopicPartition, int]:
    """Returns the numbers of ``{"topic": {"0": 23}}`` by topic and partition. Raises ValueError(``expected``)."""
    try:
        given = json.loads(text)
        found = {(topic, int(number)): value for topic, each in given.items() for number, value in each.items()}
    except (ValueError, AttributeError):
        raise ValueError(expected) from None
    if not all(type(value) is int and least <= value <= LAST_OFFSET for value in found.values()):
        raise ValueError(expected)
    return found


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Finds the range of offsets to read in a partition. ``logs``: its segments in order."""

    partition: TopicPartition
    logs: Sequence[SegmentFile]
    scratch: Scratch

    def first(self, start: Positions, fails_without: bool) -> int:
        """Returns the first offset. Raises KsegError if no record has the timestamp and ``fails_without``."""
        timestamp = start.timestamp_of(self.partition)
        if timestamp is None:
            return start.offsets.get(self.partition, FIRST_OFFSET)
        found = self._offset_at(timestamp)
        if found is None and fails_without:
            topic, number = self.partition
            raise KsegError(
                f"{topic}-{number} has no record from timestamp {timestamp} on: "
                "startingOffsetsByTimestampStrategy latest reads nothing of it"
            )
        return LAST_OFFSET if found is None else found

    def last(self, end: Positions) -> int:
        """Returns the last offset, inclusive."""
        timestamp = end.timestamp_of(self.partition)
        stop = end.offsets.get(self.partition, LATEST) if timestamp is None else self._offset_at(timestamp)
        return LAST_OFFSET if stop is None or stop == LATEST else stop - 1

    def _offset_at(self, timestamp: int) -> int | None:
        """Returns the offset of the first record with this timestamp or a later one; None if there is none."""
        for file in self.logs:
            with open_segment(file, self.scratch) as reader:
                reader.begin_at(seek_time(reader, file, timestamp).position)
                for item in reader:
                    if not isinstance(item, Batch) or not item.is_valid or item.max_timestamp < timestamp:
                        continue
                    for record in item:
                        if record.timestamp is not None and record.timestamp >= timestamp:
                            return record.offset
        return None


class LogStarts:
    """The log start offsets of partitions, below which consumers see nothing.

    The checkpoint of each log directory is read once.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[TopicPartition, int]] = {}
        self._lock = Lock()

    def of(self, log_directory: str, partition: TopicPartition) -> int:
        """Returns the log start offset of a partition, the lowest number if the checkpoint does not list it."""
        with self._lock:
            if log_directory not in self._known:
                self._known[log_directory] = self._read(os.path.join(log_directory, LOG_STARTS))
        return self._known[log_directory].get(partition, FIRST_OFFSET)

    def _read(self, path: str) -> dict[TopicPartition, int]:
        try:
            with open_source(path) as source:
                entries = list(read_offset_checkpoint(source.buffer[:]))
        except PathError:
            return {}  # archives often hold partitions alone
        return {(each.topic, each.partition): each.offset for each in entries if isinstance(each, OffsetCheckpoint)}
