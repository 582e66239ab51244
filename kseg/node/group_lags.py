"""What `kseg groups` adds to the committed offsets: records in a lag, partitions of __consumer_offsets, share groups.

Source: ShareCoordinatorShard of Kafka 4.4.0; KIP-932.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from kseg.decoders.keyed import coordinator_decoder
from kseg.errors import KsegError
from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.suffixes import LOG
from kseg.node.cluster_metadata import TopicSettings, read_topic_settings
from kseg.node.log_directory import METADATA_PARTITION
from kseg.segment.files import LAST_OFFSET, OFFSETS_TOPIC, between, list_segments
from kseg.segment.reader import open_segment
from kseg.segment.seek import seek_offset
from kseg.stores.place import Place

MAX_LAG = 10_000
"""The records of a longer lag are not counted: they would have to be read."""
SHARE_STATE_TOPIC = "__share_group_state"


def metadata_in(log_directories: Iterable[str]) -> Iterator[TopicSettings]:
    """Yields what the metadata logs in log directories tell of topics."""
    for directory in sorted(log_directories):
        path = Place(directory) / METADATA_PARTITION
        if path.is_dir() and (found := read_topic_settings(path)) is not None:
            yield found


def offsets_partition_count(log_directories: Iterable[str]) -> int | None:
    """Returns the number of partitions of __consumer_offsets by the first metadata log; None if none tells."""
    for found in metadata_in(log_directories):
        topic_id = found.ids.get(OFFSETS_TOPIC) if found.knows_partitions else None
        if topic_id is not None:
            return sum(each == topic_id for each, _ in found.partitions) or None
    return None


def records_in_lags(
    rows: list[dict[str, Any]], path_of: Callable[[dict[str, Any]], str | None], scratch: Scratch
) -> None:
    """Adds ``lagRecords`` to rows of committed offsets: how many offsets of the lag hold records, and not markers; None
    if that is unknown, or the lag is above MAX_LAG."""
    of_partition: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        row["lagRecords"] = 0 if row["lag"] == 0 else None
        path = path_of(row) if 0 < (row["lag"] or 0) <= MAX_LAG else None
        if path is not None:
            of_partition[path].append(row)
    for path, found in of_partition.items():
        with suppress(KsegError, OSError, UndecodableError):
            offsets = _offsets_from(path, min(_first(row) for row in found), scratch)
            for row in found:
                row["lagRecords"] = len(offsets) - bisect_left(offsets, _first(row))


def _first(row: dict[str, Any]) -> int:
    """Returns the first offset of a lag."""
    return int(max(row["offset"], row["logStartOffset"]))


def _offsets_from(path: str, first: int, scratch: Scratch) -> list[int]:
    """Returns the offsets of a partition's records from an offset on, without control records."""
    found: list[int] = []
    for file in between([file for file in list_segments(path) if file.kind == LOG], first, LAST_OFFSET):
        with open_segment(file, scratch) as reader:
            reader.begin_at(seek_offset(reader, file, first).position)
            for batch in reader.intact():
                if not batch.is_control and batch.last_offset >= first:
                    found += (record.offset for record in batch if record.offset >= first)
    return sorted(found)


def share_groups(records: Iterable[tuple[int, bytes | None, bytes | None]]) -> Iterator[dict[str, Any]]:
    """Yields where share groups stand, by offset, key and value of the records of __share_group_state: ``group``,
    ``topicId``, ``partition``, ``startOffset`` (all records before it are acknowledged), ``stateEpoch`` and
    ``recordOffset``."""
    read, found = coordinator_decoder("share-group-state"), dict[tuple[str, str, int], dict[str, Any]]()
    for offset, key, value in records:
        _replay(found, read.decode_fields(key, value, offset), offset)
    yield from (found[key] for key in sorted(found))


def _replay(found: dict[tuple[str, str, int], dict[str, Any]], decoded: Any, offset: int) -> None:
    key = decoded.key.get("data", {}) if isinstance(decoded.key, dict) else {}
    if "groupId" not in key:
        return
    place = key["groupId"], key["topicId"], key["partition"]
    if decoded.value is None:
        found.pop(place, None)
        return
    data = decoded.value.get("data", {}) if isinstance(decoded.value, dict) else {}
    row = found.setdefault(
        place, {"group": place[0], "topicId": place[1], "partition": place[2], "startOffset": -1, "stateEpoch": None}
    )
    row["recordOffset"] = offset
    if data.get("startOffset", -1) >= 0:  # an update need not have it
        row["startOffset"] = data["startOffset"]
    row["stateEpoch"] = data.get("stateEpoch", row["stateEpoch"])
