"""Partition directories that a broker has renamed (-delete, -stray, -future), and the names that they get back.

A broker removes -delete directories when it starts. It renames a log to -stray if its topic id is not in the cluster's
metadata, and creates an empty log if there is a topic of that name. Of a long name it cuts the topic, to 255 letters in
all. Source: LocalLog.logDirNameWithSuffixCappedLength of Kafka 4.4.0.
"""

import os
from contextlib import suppress

from kseg.decoders import decoder
from kseg.errors import KsegError
from kseg.node.coordinators import topic_id_at
from kseg.node.log_directory import METADATA_PARTITION
from kseg.node.node import Nodes
from kseg.segment.files import MAX_NAME_BYTES, list_segments, own_name, parse_partition_name
from kseg.segment.reader import open_segment
from kseg.stores.place import Place


def has_records(path: str) -> bool:
    """Whether a partition directory has a segment that is not empty, deleted ones included."""
    return any(Place(file.path).status().st_size for file in list_segments(path, everything=True))


def restored_name(path: str, nodes: Nodes) -> str:
    """Returns the name that a renamed directory had; "" if a broker has cut it, and no metadata log has its topic."""
    name, number = own_name(path), parse_partition_name(Place(path).absolute.name)
    if len(os.fsencode(Place(path).absolute.name)) < MAX_NAME_BYTES or number is None:
        return name
    topic_id, metadata = topic_id_at(path), nodes.at(Place(path).absolute.parent).metadata
    topic = None if topic_id is None or metadata is None else _topic_of(topic_id, metadata.path)
    return "" if topic is None else f"{topic}-{number[1]}"


def holder_of(path: str, name: str, nodes: Nodes) -> str | None:
    """Returns the other log directory of the node that has a partition; None if there is none."""
    parent = os.path.realpath(Place(path).absolute.parent)
    others = (one for one in nodes.at(parent).directories if os.path.realpath(one.path) != parent)
    return next((one.path for one in others if name in one.directories), None)


def _topic_of(topic_id: str, log_directory: str) -> str | None:
    """Returns the name of a topic, of a deleted one too, as the metadata log has it."""
    path, read = Place(log_directory) / METADATA_PARTITION, decoder("cluster-metadata")
    for file in list_segments(path):
        with suppress(KsegError, OSError), open_segment(file) as reader:
            for batch in reader.intact():
                for record in () if batch.is_control else batch:
                    found = read.decode(record.key, record.value, record.offset).value
                    data = found.get("data", {}) if isinstance(found, dict) else {}
                    if data.get("topicId") == topic_id and "name" in data:
                        return str(data["name"])
    return None
