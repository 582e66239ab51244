"""Names on a broker's disk: segment files, partition directories, log directories.

Rules: Kafka's LogFileUtils, LocalLog and Snapshots; a stem is read as any run of digits, and written with 20.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kseg.errors import PathError

LOG_SUFFIXES = (".log", ".kafka", ".checkpoint")
LEFTOVER_SUFFIXES = (".deleted", ".cleaned", ".swap")
SIDE_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")
METADATA_TOPIC = "__cluster_metadata"

_CHECKPOINT = re.compile(r"(\d+)-(\d+)\.checkpoint")
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_MOVED_PARTITION = re.compile(r"(?P<name>.+)\.[0-9a-f]{32}-(?:delete|future|stray)")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """What a segment's name and place tell, before a byte is read.

    ``kind`` is its suffix without leftovers (".log", ".kafka", ".checkpoint", ".index", …, "" where there is none that
    kseg knows); ``base_offset`` the number its name begins with (0.7: the byte position of its start in the whole log),
    None without one; ``epoch`` is that of a KRaft snapshot; ``topic`` and ``partition`` come from its directory's name.
    """

    path: str
    kind: str
    leftover: str
    base_offset: int | None
    epoch: int | None
    topic: str | None
    partition: int | None

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_segment(self) -> bool:
        return self.kind in LOG_SUFFIXES


def parse_partition_name(name: str) -> tuple[str, int] | None:
    """("orders", 3) for "orders-3" and for its -delete, -future and -stray forms; None for any other name."""
    moved = _MOVED_PARTITION.fullmatch(name)
    found = _PARTITION.fullmatch(moved["name"] if moved else name)
    return (found["topic"], int(found["partition"])) if found else None


def segment_file(path: str) -> SegmentFile:
    """Reads what the name of ``path`` says. Touches nothing on disk."""
    name = os.path.basename(path)
    stem, leftover = name, ""
    for suffix in LEFTOVER_SUFFIXES:
        if stem.endswith(suffix):
            stem, leftover = stem.removesuffix(suffix), suffix
    kind = next((s for s in LOG_SUFFIXES + SIDE_SUFFIXES if stem.endswith(s)), "")
    digits = re.match(r"[0-9]{1,19}(?![0-9])|0*[0-9]{1,19}(?![0-9])", stem)
    base_offset = int(digits[0]) if digits else None
    epoch = None
    if kind == ".checkpoint" and (snapshot := _CHECKPOINT.fullmatch(stem)):
        epoch = int(snapshot[2])
    place = parse_partition_name(os.path.basename(os.path.dirname(os.path.abspath(path))))
    return SegmentFile(path, kind, leftover, base_offset, epoch, *(place or (None, None)))


def list_segments(directory: str, everything: bool = False) -> list[SegmentFile]:
    """The segments of a partition directory by base offset: .log and .kafka, .checkpoint for cluster metadata.

    With ``everything``, leftovers (.deleted .cleaned .swap) as well. Raises PathError if the directory cannot be read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_file())
    except OSError as error:
        raise PathError(f"{directory}: {error.strerror}") from error
    is_metadata = os.path.basename(os.path.abspath(directory)).startswith(METADATA_TOPIC + "-")
    found = []
    for name in names:
        file = segment_file(os.path.join(directory, name))
        if not file.is_segment or (file.base_offset is None and file.kind != ".checkpoint"):
            continue
        if (file.leftover or (file.kind == ".checkpoint" and not is_metadata)) and not everything:
            continue
        found.append(file)
    return sorted(
        found, key=lambda file: (file.kind == ".checkpoint", file.base_offset or 0, file.epoch or 0, file.name)
    )


def list_partitions(directory: str) -> list[str]:
    """Paths of the partition directories inside a log directory, by topic and number."""
    try:
        names = [entry.name for entry in os.scandir(directory) if entry.is_dir()]
    except OSError as error:
        raise PathError(f"{directory}: {error.strerror}") from error
    parsed = [(parse_partition_name(name), name) for name in names]
    return [os.path.join(directory, name) for place, name in sorted((p, n) for p, n in parsed if p)]


def walk_path(path: str, everything: bool = False) -> Iterator[SegmentFile]:
    """The segments that a PATH of the command line stands for: a file, a partition directory or a log directory.

    Raises PathError where there is nothing at ``path``, or no segment in it.
    """
    if not os.path.isdir(path):
        if path != "-" and not os.path.lexists(path):
            raise PathError(f"{path}: no such file or directory")
        yield segment_file(path)
        return
    segments = list_segments(path, everything)
    partitions = [] if segments else list_partitions(path)
    if not segments and not partitions and parse_partition_name(Path(path).resolve().name) is None:
        raise PathError(f"{path}: neither a partition nor a log directory (no .log, .kafka or .checkpoint file in it)")
    yield from segments
    for partition in partitions:
        yield from list_segments(partition, everything)
