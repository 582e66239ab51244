"""Partitions to recover: copies of real ones, and such as are made of a real batch with other offsets."""

import shutil
from dataclasses import replace
from pathlib import Path

from kernel.rendering import batch, record
from kseg.changes.apply import Keeping, apply
from kseg.recovery.broker.loading import plan_partition
from kseg.recovery.options import BrokerStart
from kseg.recovery.result import Recovery, Salvage
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.recovery.salvage.segment_scan import BatchFilter
from recovery.damages import write
from segment.segments import entries, sealed

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
TRANSACTIONS = TESTDATA / "verify" / "4.3.1-transactions" / "dtxn-0"
NOW_MS = 1_790_000_000_000
START = BrokerStart(now_ms=NOW_MS, interval_bytes=1024)


def copy_of(partition: Path, target: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(partition, target / partition.name))


def recover(directory: Path, start: BrokerStart = START, **changes: object) -> Recovery:
    """Plans and carries out, keeping nothing."""
    found = plan_partition(str(directory), replace(start, **changes))  # type: ignore[arg-type]
    apply(found.plan, "recover", Keeping(keeps=False))
    return found


def salvage(directory: Path, batch_filter: BatchFilter | None = None, start: BrokerStart = START) -> Salvage:
    """Plans and carries out."""
    found = plan_salvage(str(directory), start, batch_filter=batch_filter)
    apply(found.plan, "recover --mode salvage", Keeping())
    return found


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def real_batches(base: int) -> list[bytes]:
    """The batches of a real segment, each with its own offsets; that at 46 follows the one at 0."""
    return entries((PLAIN / f"{base:020d}.log").read_bytes())


def keyed_batch(first: int, keys: bytes) -> bytes:
    """A v2 batch from an offset on, of one record a key, each of a byte."""
    records = [record(delta, key=bytes([key]), value=b"v") for delta, key in enumerate(keys)]
    return batch(records, first, max_timestamp=1000)


def at_offset(batch: bytes, offset: int) -> bytes:
    """The batch with another base offset, which lies outside its checksum."""
    return offset.to_bytes(8, "big", signed=True) + batch[8:]


def up_to(batch: bytes, last: int) -> bytes:
    """The batch with another last offset in its header."""
    return sealed(batch, 23, (last - int.from_bytes(batch[:8], "big")).to_bytes(4, "big"))


def make(directory: Path, segments: dict[int, list[bytes]]) -> Path:
    """A partition of segments with these batches, without any side file."""
    directory.mkdir(parents=True, exist_ok=True)
    write(directory, segments)
    return directory
