"""Topic settings from a log directory's own __cluster_metadata, read on first use.

For settings that are missing there, callers guess or use the broker's default.
"""

import os

from kseg.logdir.cluster_metadata import TopicSettings, read_topic_settings
from kseg.logdir.log_directory import METADATA_PARTITION
from kseg.logdir.server_properties import ServerProperties
from kseg.segment.files import parse_partition_name
from kseg.stores import trees

SOURCE = f"as {METADATA_PARTITION} has it"
INTERVAL, POLICY = "index.interval.bytes", "cleanup.policy"
_LARGEST_INTERVAL = (1 << 31) - 1


class KnownTopics:
    """Reads the metadata of each log directory once. ``server``: the broker's file, the fallback for missing
    settings."""

    def __init__(self, server: ServerProperties | None = None) -> None:
        self.server = server
        self._read: dict[str, TopicSettings | None] = {}

    def settings(self, log_directory: str) -> TopicSettings | None:
        """Returns the settings of a log directory's newest metadata; None if there are none or they are unreadable."""
        path = os.path.join(os.path.abspath(log_directory), METADATA_PARTITION)
        if path not in self._read:
            self._read[path] = read_topic_settings(path) if trees.isdir(path) else None
        return self._read[path]

    def setting(self, partition: str, name: str) -> str | None:
        """Returns a setting of a partition's topic, or the cluster's default; None if neither is known."""
        path = os.path.abspath(partition)
        place = parse_partition_name(os.path.basename(path))
        found = self.settings(os.path.dirname(path)) if place is not None else None
        if found is None or place is None or place[0] not in found.ids:
            return None
        return found.setting(place[0], name)

    def interval_bytes(self, partition: str) -> tuple[int | None, str]:
        """Returns index.interval.bytes of a partition's topic, and its source; None if unknown, or not a number that
        Kafka accepts."""
        if (found := _interval(self.setting(partition, INTERVAL))) is not None or self.server is None:
            return found, SOURCE
        return _interval(self.server.setting(INTERVAL)), self.server.source


def _interval(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 10:
        return None
    return int(text) if int(text) <= _LARGEST_INTERVAL else None
