"""Real partitions cut down to a few batches, as whole ones: what the cases change."""

import shutil
import struct
from pathlib import Path

from verification.partitions import TESTDATA, spans

LOGS = "log-directories/4.3.1/logs"
SHORT = f"{LOGS}/dplain-0"
SHORT_BATCHES = ((97, 448), (100, 92), (101, 94), (103, 1972))
"""Base offset and bytes of each batch of `short`; the last offset is 115."""
INDEXED = "kafka-0.11.0.3/txn/lat-gzip-0"
INDEXED_BYTES = 5736
TINY = "kafka-1.1.1/txn/txn-tiny-0"


def name(base: int, suffix: str = ".log") -> str:
    return f"{base:020}{suffix}"


def batches_of(data: bytes) -> list[bytes]:
    return [data[at : at + size] for at, size in spans(data)]


def short_batches() -> list[bytes]:
    """Those of SHORT_BATCHES, of producers 1 and 2."""
    data = (TESTDATA / SHORT / name(76)).read_bytes()
    return batches_of(data)[3:]


def short(folder: Path, bases: tuple[int, ...] = (97, 101), bare: bool = False) -> Path:
    """dplain-0 with the offsets 97 to 115 in segments that begin at ``bases``, and their side files unless ``bare``."""
    partition = folder / "dplain-0"
    partition.mkdir(parents=True)
    contents: dict[int, list[bytes]] = {base: [] for base in bases}
    for batch in short_batches():
        contents[max(base for base in bases if base <= int.from_bytes(batch[:8], "big"))].append(batch)
    for base, batches in contents.items():
        (partition / name(base)).write_bytes(b"".join(batches))
        if not bare:
            last = int.from_bytes(batches[-1][:8], "big") + int.from_bytes(batches[-1][23:27], "big")
            timestamp = int.from_bytes(batches[-1][35:43], "big")
            (partition / name(base, ".index")).write_bytes(b"")  # no batch lies 4096 bytes behind another
            (partition / name(base, ".timeindex")).write_bytes(struct.pack(">qi", timestamp, last - base))
    if not bare:
        shutil.copy(TESTDATA / SHORT / name(116, ".snapshot"), partition)
        shutil.copy(TESTDATA / SHORT / "partition.metadata", partition)
        (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 97\n")
    return partition


def log_directory(folder: Path) -> Path:
    """A log directory of 4.3.1, closed cleanly, with `short` as its only partition."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    for file in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(TESTDATA / LOGS / file, logs)
    short(logs)
    return logs


def metadata(folder: Path, at: str = "logs") -> Path:
    """A log directory whose one partition is __cluster_metadata-0, of its newest snapshot and segment."""
    partition = folder / at / "__cluster_metadata-0"
    partition.mkdir(parents=True)
    source = TESTDATA / "kafka-4.3.1/internal/__cluster_metadata-0"
    for file in (
        "00000000000000000455-0000000002.checkpoint", name(322), name(322, ".index"), name(322, ".timeindex"),
        name(322, ".snapshot"), name(458, ".snapshot"), "leader-epoch-checkpoint", "partition.metadata", "quorum-state",
    ):  # fmt: skip
        shutil.copy(source / file, partition)
    for file in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(TESTDATA / LOGS / file, folder / at)
    return partition


def indexed(folder: Path, closed: bool = False) -> Path:
    """lat-gzip-0 with its first five batches (offsets 0 to 89), four index and time entries; ``closed``: a segment with
    the next batch follows."""
    source, partition = TESTDATA / INDEXED, folder / "lat-gzip-0"
    partition.mkdir(parents=True)
    data = (source / name(0)).read_bytes()
    (partition / name(0)).write_bytes(data[:INDEXED_BYTES])
    (partition / name(0, ".index")).write_bytes((source / name(0, ".index")).read_bytes()[:32])
    (partition / name(0, ".timeindex")).write_bytes((source / name(0, ".timeindex")).read_bytes()[:48])
    shutil.copy(source / "leader-epoch-checkpoint", partition)
    if closed:
        batch = batches_of(data)[5]
        (partition / name(90)).write_bytes(batch)
        (partition / name(90, ".index")).write_bytes(b"")
        (partition / name(90, ".timeindex")).write_bytes(struct.pack(">qi", int.from_bytes(batch[35:43], "big"), 6))
    return partition


def transactions(folder: Path, count: int = 4, bare: bool = False) -> Path:
    """txn-tiny-0 with its first ``count`` batches: one record each, every second one the marker that ends it."""
    source, partition = TESTDATA / TINY, folder / "txn-tiny-0"
    partition.mkdir(parents=True)
    batches = batches_of((source / name(0)).read_bytes())[:count]
    (partition / name(0)).write_bytes(b"".join(batches))
    if not bare:
        whole = (source / name(0, ".txnindex")).read_bytes()
        entries = [whole[at : at + 34] for at in range(0, len(whole), 34)]
        kept = [entry for entry in entries if int.from_bytes(entry[18:26], "big") < count]
        largest = max(range(count), key=lambda k: int.from_bytes(batches[k][35:43], "big"))
        (partition / name(0, ".index")).write_bytes(b"")
        (partition / name(0, ".timeindex")).write_bytes(
            struct.pack(">qi", int.from_bytes(batches[largest][35:43], "big"), largest)
        )
        (partition / name(0, ".txnindex")).write_bytes(b"".join(kept))
        shutil.copy(source / "leader-epoch-checkpoint", partition)
    return partition
