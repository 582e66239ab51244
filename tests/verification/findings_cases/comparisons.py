"""Manifests, and replicas beside each other."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from kseg.segment.survey import FULL
from kseg.verification.manifest import write_manifest
from kseg.verification.partition import CheckSettings
from verification.findings_cases.bases import SHORT, name, short, short_batches
from verification.findings_cases.case import Made, Section, Told
from verification.partitions import TESTDATA, changed

CASES = case = Section()
LOG, SECOND = f"dplain-0/{name(97)}", f"dplain-0/{name(101)}"
REPLICAS = "kafka-1.1.1/replicas"


def since_manifest(folder: Path, edit: Callable[[Path], object], *found: Told) -> Made:
    """The manifest of the whole partition, which is changed then."""
    partition = short(folder, bare=True)
    with (folder / "manifest").open("wb") as stream:
        write_manifest([str(partition)], CheckSettings(FULL, 0), stream.write)
    edit(partition)
    return Made("dplain-0", SHORT, list(found), {"manifest": "manifest"})


@case
def manifest_changed(folder: Path) -> Made:
    """The leader epoch of the second batch changed, which no checksum covers."""
    return since_manifest(
        folder,
        lambda partition: changed(partition / name(97), 448 + 12, b"\0\0\0\1"),
        Told("manifest-changed", LOG, 448, 92, 100),
    )


@case
def manifest_missing(folder: Path) -> Made:
    """The first batch of the second segment cut out."""
    return since_manifest(
        folder,
        lambda partition: (partition / name(101)).write_bytes(short_batches()[3]),
        Told("manifest-missing", SECOND, 0, 94, 102),
    )


@case
def manifest_added(folder: Path) -> Made:
    """A batch like the second, but of another leader epoch, put in front of it."""

    def edit(partition: Path) -> None:
        first, second = short_batches()[:2]
        twin = second[:12] + b"\0\0\0\1" + second[16:]
        (partition / name(97)).write_bytes(first + twin + second)

    return since_manifest(folder, edit, Told("manifest-added", LOG, 448, 92, 100))


@case
def manifest_grown(folder: Path) -> Made:
    """The first batch of the segment once more at its end, as if it had been written since."""

    def edit(partition: Path) -> None:
        with (partition / name(101)).open("ab") as stream:
            stream.write(short_batches()[0])

    return since_manifest(folder, edit, Told("manifest-grown", SECOND, 94 + 1972, 448))


@case
def manifest_expired(folder: Path) -> Made:
    """The first segment removed, as retention does."""
    return since_manifest(
        folder,
        lambda partition: (partition / name(97)).unlink(),
        Told("manifest-expired", LOG, 0, 540),
    )


def against(folder: Path, edit: Callable[[Path], object], *found: Told) -> Made:
    """Two copies of a partition, of which the one compared with, in other/, is changed."""
    short(folder, (97,), bare=True)
    edit(short(folder / "other", (97,), bare=True) / name(97))
    return Made("dplain-0", SHORT, list(found), {"against": "other/dplain-0"})


def without(*numbers: int) -> Callable[[Path], object]:
    """Leaves out some of the four batches."""
    return lambda path: path.write_bytes(b"".join(b for k, b in enumerate(short_batches()) if k not in numbers))


@case
def replicas_diverge(folder: Path) -> Made:
    """The third of four batches is of leader epoch 1 in the other replica."""
    return against(
        folder, lambda path: changed(path, 540 + 12, struct.pack(">i", 1)),
        Told("replicas-diverge", LOG, 540, None, 101),
    )  # fmt: skip


@case
def replica_lacks_records(folder: Path) -> Made:
    """The second of four batches is missing in the other replica."""
    return against(folder, without(1), Told("replica-lacks-records", "other/dplain-0", None, None, 100))


@case
def replica_not_compared(folder: Path) -> Made:
    """One bit of the records of the second of four batches is flipped in the other replica."""
    return against(
        folder, lambda path: changed(path, 448 + 91, bytes([path.read_bytes()[448 + 91] ^ 1])),
        Told("replica-not-compared", f"other/{LOG}", 448, 92),
    )  # fmt: skip


@case
def replicas_cleaned_apart(folder: Path) -> Made:
    """Nothing: one segment of each of two replicas of 1.1.1 as their cleaners left them."""
    for broker, base in ((0, 2011), (1, 0)):
        target = folder / ("other" if broker else ".") / "ep-compact-0"
        target.mkdir(parents=True)
        shutil.copy(TESTDATA / REPLICAS / f"broker{broker}" / "ep-compact-0" / name(base), target)
    found = [  # by Kafka's dumps: 2128 is only there, the last offset there is 2193
        Told("replicas-cleaned-apart", "ep-compact-0", offset=2128),
        Told("replica-starts-later", "ep-compact-0", offset=2011),
        Told("replica-ends-earlier", "other/ep-compact-0", offset=2194),
    ]
    return Made("ep-compact-0", REPLICAS, found, {"against": "other/ep-compact-0"})


@case
def replica_starts_later(folder: Path) -> Made:
    """The first of four batches is missing in the other replica, whose segment is named after the second."""

    def edit(path: Path) -> None:
        without(0)(path)
        path.rename(path.with_name(name(100)))

    return against(folder, edit, Told("replica-starts-later", "other/dplain-0", None, None, 100))


@case
def replica_ends_earlier(folder: Path) -> Made:
    """The last of four batches is missing in the other replica."""
    return against(folder, without(3), Told("replica-ends-earlier", "other/dplain-0", None, None, 103))


@case
def replica_missing(folder: Path) -> Made:
    """Two log directories, of which only the first has a partition ghost-0 as well."""
    for place in ("here", "there"):
        short(folder / place, bare=True)
    shutil.copytree(folder / "here/dplain-0", folder / "here/ghost-0")
    return Made("here", SHORT, [Told("replica-missing", "here/ghost-0")], {"against": "there"})
