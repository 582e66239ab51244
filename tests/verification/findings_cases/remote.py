"""Remote storage: real segments of a few batches, with objects removed, changed or added."""

import json
import shutil
from pathlib import Path

from verification.findings_cases.case import Made, Section, Told
from verification.partitions import TESTDATA

CASES = case = Section()
REMOTE = TESTDATA / "remote"
LOCAL, ENCRYPTED = "remote/local/remote", "remote/enc/remote"
TOPIC_ID = "Nu3P-bpbQueCeOCT0cfoAg"
PLACE = f"kafka-tiered-storage/t-txn-0-{TOPIC_ID}"
FIRST, LATER = f"{0:020}-fIWkQ_BPTnu0FzBn-WWWEg", f"{104:020}-wJw_vrwfQF23sS-hKCpSvg"
SECOND_COPY = f"{104:020}-AAAAAAAAAAAAAAAAAAAAAA"
SECRET_PLACE, SECRET = "t-txn-H_B1OdrMTKCitRk-N3vtYA/0", f"{213:020}-znL4ahNmS8-aTvpbnuTr9w"
FIRST_EVENT_BYTES = 179
SECRET_BYTES = 910
"""Of the log object: an IV, 882 bytes, and a tag."""
KEYS = {"privateKeys": {"k1": "remote/keys/k1-private.pem", "k2": "remote/keys/k2-private.pem"}}


def stored(folder: Path, *stems: str) -> Path:
    """Segments of Kafka's LocalTieredStorage; returns their folder."""
    place = folder / "remote" / PLACE
    place.mkdir(parents=True)
    for stem in stems:
        for path in (REMOTE / "local" / "remote" / PLACE).glob(f"{stem}.*"):
            shutil.copyfile(path, place / path.name)
    return place


def encrypted(folder: Path) -> Path:
    """One encrypted segment of Aiven's plugin; returns its folder."""
    place = folder / "remote" / SECRET_PLACE
    place.mkdir(parents=True)
    for path in (REMOTE / "enc" / "remote" / SECRET_PLACE).glob(f"{SECRET}.*"):
        shutil.copyfile(path, place / path.name)
    return place


def second_copy(place: Path) -> None:
    for path in sorted(place.glob(f"{LATER}.*")):
        shutil.copyfile(path, place / (SECOND_COPY + path.suffix))


def secret(suffix: str) -> str:
    return f"remote/{SECRET_PLACE}/{SECRET}{suffix}"


@case
def remote_metadata_incomplete(folder: Path) -> Made:
    """The first event of the first segment is cut out of __remote_log_metadata-0."""
    source = "kafka-4.3.1/tiered/__remote_log_metadata-0"
    data = (TESTDATA / source / f"{0:020}.log").read_bytes()
    partition = folder / "__remote_log_metadata-0"
    partition.mkdir()
    (partition / f"{1:020}.log").write_bytes(data[FIRST_EVENT_BYTES:])
    return Made(partition.name, source, [Told("remote-metadata-incomplete", partition.name)])


@case
def remote_copy_unfinished(folder: Path) -> Made:
    """Indexes and manifest of a segment removed."""
    place = encrypted(folder)
    (place / f"{SECRET}.indexes").unlink()
    (place / f"{SECRET}.rsm-manifest").unlink()
    return Made("remote", ENCRYPTED, [Told("remote-copy-unfinished", secret(".log"), offset=213)])


@case
def remote_orphan_object(folder: Path) -> Made:
    """Log and manifest of a segment removed."""
    place = encrypted(folder)
    (place / f"{SECRET}.log").unlink()
    (place / f"{SECRET}.rsm-manifest").unlink()
    return Made("remote", ENCRYPTED, [Told("remote-orphan-object", secret(".indexes"), offset=213)])


@case
def remote_other_objects(folder: Path) -> Made:
    """A file of another name added."""
    (stored(folder, FIRST) / "notes.txt").write_text("Copied by hand.\n")
    return Made("remote", LOCAL, [Told("remote-other-objects", "remote")])


@case
def remote_objects_missing(folder: Path) -> Made:
    """The log of a segment removed."""
    (encrypted(folder) / f"{SECRET}.log").unlink()
    return Made("remote", ENCRYPTED, [Told("remote-objects-missing", secret(".rsm-manifest"), offset=213)])


@case
def remote_manifest_damaged(folder: Path) -> Made:
    """The manifest cut off in the middle."""
    path = encrypted(folder) / f"{SECRET}.rsm-manifest"
    path.write_bytes(path.read_bytes()[:400])
    return Made("remote", ENCRYPTED, [Told("remote-manifest-damaged", secret(".rsm-manifest"), offset=213)])


@case
def remote_size_mismatch(folder: Path) -> Made:
    """A byte appended to the log, behind its last chunk."""
    path = encrypted(folder) / f"{SECRET}.log"
    path.write_bytes(path.read_bytes() + b"\0")
    return Made("remote", ENCRYPTED, [Told("remote-size-mismatch", secret(".log"), offset=213)], KEYS)


@case
def remote_chunk_damaged(folder: Path) -> Made:
    """A bit of the log's only chunk flipped: it is not authentic, so that no batch is left."""
    path = encrypted(folder) / f"{SECRET}.log"
    data = bytearray(path.read_bytes())
    data[400] ^= 1
    path.write_bytes(data)
    found = [
        Told("remote-chunk-damaged", secret(".log"), 0, SECRET_BYTES, 213),
        Told("unreadable-bytes", secret(".log"), 0, SECRET_BYTES - 28),
    ]
    return Made("remote", ENCRYPTED, found, KEYS)


@case
def remote_offsets_mismatch(folder: Path) -> Made:
    """The end offset in the manifest's metadata set one lower."""
    path = encrypted(folder) / f"{SECRET}.rsm-manifest"
    manifest = json.loads(path.read_text())
    manifest["remoteLogSegmentMetadata"]["endOffset"] = 214
    path.write_text(json.dumps(manifest, separators=(",", ":")))
    return Made("remote", ENCRYPTED, [Told("remote-offsets-mismatch", secret(".log"), offset=215)], KEYS)


@case
def remote_lineage_conflict(folder: Path) -> Made:
    """A copy of the segment under another id, whose leader epoch file has epoch 1 from its first offset on."""
    place = stored(folder, LATER)
    second_copy(place)
    (place / f"{SECOND_COPY}.leader_epoch_checkpoint").write_text("0\n2\n0 0\n1 104\n")
    return Made("remote", LOCAL, [Told("remote-lineage-conflict", f"remote/{PLACE}/{LATER}.log", offset=104)])


@case
def remote_segment_superseded(folder: Path) -> Made:
    """A copy of the segment under another id."""
    place = stored(folder, LATER)
    second_copy(place)
    return Made("remote", LOCAL, [Told("remote-segment-superseded", f"remote/{PLACE}/{SECOND_COPY}.log", offset=104)])


@case
def remote_lineage_hole(folder: Path) -> Made:
    """Two segments without the one between them."""
    stored(folder, FIRST, LATER)
    return Made("remote", LOCAL, [Told("remote-lineage-hole", f"remote/{PLACE}", offset=12)])


@case
def remote_local_gap(folder: Path) -> Made:
    """One segment in the store, and a log directory whose log begins with the segment after the next one."""
    stored(folder, FIRST)
    partition = folder / "logs" / "t-txn-0"
    partition.mkdir(parents=True)
    (folder / "logs" / "log-start-offset-checkpoint").write_text("0\n0\n")
    shutil.copyfile(REMOTE / "local" / "remote" / PLACE / f"{LATER}.log", partition / f"{104:020}.log")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    return Made("remote", LOCAL, [Told("remote-local-gap", f"remote/{PLACE}", offset=12)], {"logs": "logs"})
