"""Reads a broker's server.properties: its settings apply to topics that do not set their own.

Source: KafkaConfig and ServerTopicConfigSynonyms of Kafka 4.4.0.
"""

import os
import re
from functools import cached_property

from kseg.errors import PathError, errors_at
from kseg.segment.paths import each_once
from kseg.sidefiles.text_files import MAX_TEXT_BYTES, integer, integer_setting, properties, trimmed
from kseg.stores.place import Place

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
TOPIC, SERVER, DEFAULT, CHECKPOINT, NAME, UNKNOWN = "topic", "server", "default", "checkpoint", "name", "unknown"
"""Sources of a setting: the topic or the cluster in the metadata log, the broker's file, Kafka's default, the cleaner's
checkpoint, the topic's name, none."""

SYNONYMS = {
    "cleanup.policy": {"log.cleanup.policy": 1},
    "retention.ms": {"log.retention.ms": 1, "log.retention.minutes": _MINUTE_MS, "log.retention.hours": _HOUR_MS},
    "retention.bytes": {"log.retention.bytes": 1},
    "segment.bytes": {"log.segment.bytes": 1},
    "segment.index.bytes": {"log.index.size.max.bytes": 1},
    "index.interval.bytes": {"log.index.interval.bytes": 1},
    "max.message.bytes": {"message.max.bytes": 1},
    "max.decompressed.message.bytes": {"max.decompressed.message.bytes": 1},
    "min.compaction.lag.ms": {"log.cleaner.min.compaction.lag.ms": 1},
    "max.compaction.lag.ms": {"log.cleaner.max.compaction.lag.ms": 1},
    "delete.retention.ms": {"log.cleaner.delete.retention.ms": 1},
    "min.cleanable.dirty.ratio": {"log.cleaner.min.cleanable.ratio": 1},
}
"""Broker settings by topic setting: each times its number is that of the topic; the first that is set counts. A
cluster's default is stored under the first name."""
DEFAULTS = {"cleanup.policy": "delete", "retention.ms": str(168 * _HOUR_MS), "retention.bytes": "-1"}
"""Kafka's defaults of the settings that decide on retention."""


class ServerProperties:
    """The settings of one file. ``values``: by property name; ``path``: the file, for messages."""

    def __init__(self, path: str, values: dict[str, str]) -> None:
        self.path, self._values = path, values

    @property
    def source(self) -> str:
        return f"as {self.path} has it"

    @property
    def log_dirs(self) -> list[str]:
        """The log directories of the broker, [] if the file names none."""
        listed = self._own("log.dirs") or self._own("log.dir")
        return [path.strip() for path in listed.split(",") if path.strip()]

    @property
    def directories(self) -> list[str]:
        """The log directories, that of the metadata log included, each once."""
        return each_once([*self.log_dirs, *filter(None, [self.metadata_log_dir])])

    def names(self, path: str) -> bool:
        """Whether a path leads to one of the directories."""
        return os.path.realpath(path) in self._places

    @cached_property
    def _places(self) -> frozenset[str]:
        """The directories with links resolved, once: each PATH is compared with them."""
        return frozenset(map(os.path.realpath, self.directories))

    @property
    def node_id(self) -> int | None:
        return next((integer(text, 32) for key in ("node.id", "broker.id") if (text := self._own(key))), None)

    @property
    def roles(self) -> frozenset[str]:
        """process.roles: broker, controller or both; none for a broker of ZooKeeper."""
        return frozenset(filter(None, map(str.strip, self._own("process.roles").split(","))))

    @property
    def may_be_controller(self) -> bool:
        """Whether process.roles does not say that the node is only a broker."""
        return not self.roles or "controller" in self.roles

    @property
    def quorum_voters(self) -> frozenset[int]:
        """The node ids of controller.quorum.voters; none if voters are dynamic."""
        voters = (voter.partition("@")[0] for voter in self._own("controller.quorum.voters").split(","))
        return frozenset(number for voter in voters if (number := integer(voter.strip(), 32)) is not None)

    @property
    def metadata_log_dir(self) -> str | None:
        """The directory that holds __cluster_metadata-0: by default the first log directory; None if there is none."""
        return self._own("metadata.log.dir") or next(iter(self.log_dirs), None)

    def _own(self, name: str) -> str:
        return trimmed(self._values.get(name, ""))

    def setting(self, name: str) -> str | None:
        """Returns the value that applies to a topic setting; None if the file does not set it. Where hours or minutes
        are no number, the value is the line itself, which is no number of ms either."""
        for synonym, scale in SYNONYMS.get(name, {}).items():
            value = self._own(synonym)
            if not value:
                continue
            if scale == 1:
                return value
            if (number := integer_setting(value, 32)) is None:
                return f"{synonym}={value}"
            return "-1" if number < 0 else str(number * scale)
        return None


def read_server_properties(path: str) -> ServerProperties:
    """Reads the file. Raises PathError if it cannot be read."""
    with errors_at(path), Place(path).open() as stream:
        data = stream.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise PathError(f"{path}: is too large for a file of properties")
    if re.match(rb"\xef\xbb\xbf[^\s#!]", data):
        raise PathError(f"{path}: begins with a byte order mark, which a broker takes for a part of the first name")
    return ServerProperties(path, {found.key: found.value for found in properties(data)})
