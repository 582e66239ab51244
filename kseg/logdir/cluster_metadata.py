"""Reads topics with their settings, registered nodes and partitions from a node's __cluster_metadata.

All that can be read and replayed counts. Most records are of other types; of these only two bytes are looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kseg.errors import KsegError
from kseg.formats.suffixes import LOG
from kseg.logdir.metadata_image import TOPIC_RESOURCE, MetadataImage, PartitionImage
from kseg.logdir.metadata_replay import LoadedImage, load_image, load_readable, snapshots_among
from kseg.logdir.server_properties import SYNONYMS
from kseg.segment.files import SegmentFile, list_segments
from kseg.stores import trees

MAX_BYTES = 256 << 20
"""Larger metadata are ignored: reading them would take too long for the settings that they give."""

_BROKER, _BROKER_GONE, _TOPIC, _PARTITION, _CONFIG = 0, 1, 2, 3, 4
_PARTITION_CHANGE, _REMOVE_TOPIC, _BROKER_CHANGE, _CONTROLLER, _CONTROLLER_GONE = 5, 9, 17, 27, 29
"""Record types, by their api keys."""
_OF_TOPICS = frozenset({_BROKER, _BROKER_GONE, _BROKER_CHANGE, _TOPIC, _CONFIG, _REMOVE_TOPIC})
_OF_TOPICS |= {_CONTROLLER, _CONTROLLER_GONE}
_OF_PARTITIONS = frozenset({_TOPIC, _PARTITION, _PARTITION_CHANGE, _REMOVE_TOPIC})
_BROKER_RESOURCE = 4
"""Resource types of a config record (ConfigResource.Type)."""


@dataclass
class TopicSettings:
    """``image``: topics, settings and registered nodes. ``lacking``: why records are missing or unreadable, so that
    topics may be unknown; "" if all are there."""

    image: MetadataImage
    lacking: str
    _files: list[SegmentFile]
    _whole: LoadedImage | None = None
    """The same with partitions, if it was loaded."""

    @property
    def is_complete(self) -> bool:
        return not self.lacking

    @property
    def ids(self) -> Mapping[str, str]:
        """Topic ids by name."""
        return self.image.topic_ids

    def setting(self, topic: str, name: str) -> str | None:
        """A topic's own setting, else the cluster's default; None if neither is set (a broker's file may set it)."""
        configs = self.image.configs
        own = configs.get((TOPIC_RESOURCE, topic), {}).get(name)
        if own is not None or name not in SYNONYMS:
            return own
        return configs.get((_BROKER_RESOURCE, ""), {}).get(SYNONYMS[name][0].name)

    @cached_property
    def _of_partitions(self) -> tuple[LoadedImage, list[KsegError]]:
        if self._whole is not None:
            return self._whole, []
        return load_readable(self._files, kinds=_OF_PARTITIONS)  # few readers need them

    @property
    def knows_partitions(self) -> bool:
        """Whether no record of a topic or partition is missing or unreadable."""
        return self.is_complete and not self._of_partitions[1]

    @cached_property
    def partitions(self) -> dict[tuple[str, int], PartitionImage]:
        """The partitions by topic id and number, as far as they can be read."""
        topics = self._of_partitions[0].image.topics.values()
        return {(topic.topic_id, number): one for topic in topics for number, one in topic.partitions.items()}

    def at_start(self) -> "TopicSettings | None":
        """Returns what is left at the start of a node that has its log from no other, and cuts it off at damage; None
        if that is not known."""
        try:
            loaded = load_image(self._files)
        except KsegError:
            return None
        return TopicSettings(loaded.image, "", self._files, loaded) if loaded.is_cut else None


def read_topic_settings(directory: str) -> TopicSettings | None:
    """Returns the settings in a __cluster_metadata directory; None if there are no files, more than MAX_BYTES, or they
    cannot be read."""
    try:
        files = list_segments(directory)
        snapshots, logs = snapshots_among(files), [file for file in files if file.kind == LOG and not file.leftover]
        start = snapshots[-1].base_offset or 0 if snapshots else 0
        ends = [file.base_offset or 0 for file in logs[1:]]
        read = [*snapshots[-1:], *(file for i, file in enumerate(logs) if i >= len(ends) or ends[i] > start)]
        if not read or sum(trees.getsize(file.path) for file in read) > MAX_BYTES:
            return None
        loaded, errors = load_readable(files, kinds=_OF_TOPICS)
    except (KsegError, OSError):
        return None  # verification of the metadata partition itself reports the error
    lacking = str(errors[0]) if errors else "" if logs else "no .log file is left"
    return TopicSettings(loaded.image, lacking, files)
