"""Log directories and partitions as wholes: names, checkpoints, topic ids, leftovers, and what a cleaner would meet."""

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kseg.kernel.scan.checksums import crc32c
from verification.findings_cases.bases import LOGS, SHORT, log_directory, metadata, name, short, short_batches
from verification.findings_cases.case import Made, Section, Told
from verification.findings_cases.log import quarantine
from verification.log_directories import OTHER_ID, checkpoint, edited
from verification.partitions import TESTDATA, batch_of, changed, tar_of

CASES = case = Section()
PARTITION = "logs/dplain-0"
KRAFT = "kafka-4.3.1/internal/__cluster_metadata-0"
OFFSETS = "kafka-4.3.1/internal/__consumer_offsets-0"
METADATA = "logs/__cluster_metadata-0"
SNAPSHOT = f"{METADATA}/00000000000000000455-0000000002.checkpoint"
FOOTER_BYTES = 75
G_IN_ID = "5fWvOFbBTmuE3g0phSshGw"
META_0_ID = "3MZi8Ev1STehMd1PgsK-ZA"


def in_logs(*found: Told) -> Made:
    return Made("logs", LOGS, list(found))


def in_partition(*found: Told) -> Made:
    return Made("dplain-0", SHORT, list(found))


def of_checkpoint(folder: Path, file: str, code: str, offset: int = 117) -> Made:
    """A checkpoint that gives the partition, which ends at 116, an offset."""
    (log_directory(folder) / file).write_text(checkpoint(f"dplain 0 {offset}"))
    return in_logs(Told(code, PARTITION, offset=offset))


@case
def pending_change(folder: Path) -> Made:
    """A change in the quarantine that was committed and has not been done."""
    quarantine(short(folder), "committed", [], "recover")
    return in_partition(Told("pending-change", "dplain-0/.kseg-quarantine"))


@case
def broker_would_not_start(folder: Path) -> Made:
    """An empty file called abc.log."""
    (short(folder) / "abc.log").write_bytes(b"")
    return in_partition(Told("broker-would-not-start", "dplain-0/abc.log"))


@case
def segments_missing(folder: Path) -> Made:
    """All files of the partition are gone but partition.metadata; the high watermark is 116."""
    logs = log_directory(folder)
    for path in (logs / "dplain-0").iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    (logs / "replication-offset-checkpoint").write_text(checkpoint("dplain 0 116"))
    return in_logs(Told("segments-missing", PARTITION, offset=116))


@case
def unreadable_file(folder: Path) -> Made:
    """A directory has the name of the segment that would follow."""
    (short(folder) / name(116)).mkdir()
    (folder / "dplain-0" / name(116) / "note.txt").write_text("No segment.\n")
    return in_partition(Told("unreadable-file", f"dplain-0/{name(116)}"))


@case
def packed_segment(folder: Path) -> Made:
    """A copy of a segment lies there in a tar file."""
    partition = short(folder)
    (partition / name(97, ".log.tar")).write_bytes(tar_of({"copy.log": (partition / name(97)).read_bytes()}))
    return in_partition(Told("packed-segment", f"dplain-0/{name(97, '.log.tar')}"), Told("unknown-file", "dplain-0"))


@case
def damaged_archive(folder: Path) -> Made:
    """The partition in a tar file; the header of the last member, a note, is overwritten."""
    files = packed(folder)
    at = len(tar_of(files, ends=False))
    data = bytearray(tar_of({**files, "note.txt": b"A note."}))
    data[at : at + 100] = b"x" * 100
    (folder / "backup.tar").write_bytes(data)
    return Made("backup.tar", SHORT, [Told("damaged-archive", "backup.tar", at)])


@case
def redpanda_segment(folder: Path) -> Made:
    """A batch made by hand under the header that Redpanda writes."""
    kafka = batch_of(range(3))
    base, length, _, _, crc, *rest = struct.unpack_from(">qiibIhiqqqhii", kafka)
    header = struct.pack("<iqbIhiqqqhii", length + 12, base, 1, crc, *rest)
    (folder / "0-1-v1.log").write_bytes(struct.pack("<I", crc32c(header, 0)) + header + kafka[61:])
    return Made("0-1-v1.log", "", [Told("redpanda-segment", "0-1-v1.log")])


@case
def archive_member_skipped(folder: Path) -> Made:
    """The partition in a tar file; one more member is called ../escape.log."""
    files = packed(folder)
    (folder / "backup.tar").write_bytes(tar_of({**files, "../escape.log": b"A note."}))
    at = len(tar_of(files, ends=False))
    return Made("backup.tar", SHORT, [Told("archive-member-skipped", "backup.tar", at)])


def packed(folder: Path) -> dict[str, bytes]:
    """The files of a partition by their names in an archive; they are gone from the folder."""
    partition = short(folder)
    files = {f"dplain-0/{path.name}": path.read_bytes() for path in sorted(partition.iterdir())}
    shutil.rmtree(partition)
    return files


@case
def segment_too_large(folder: Path) -> Made:
    """Nothing to the bytes: segments of more than 1000 bytes count as too large."""
    short(folder)
    return replace(
        in_partition(Told("segment-too-large", f"dplain-0/{name(101)}")), settings={"condition": "segments-are-small"}
    )


@case
def unreadable_checkpoint(folder: Path) -> Made:
    """A line of three words in recovery-point-offset-checkpoint has two."""
    file = "recovery-point-offset-checkpoint"
    (log_directory(folder) / file).write_text("0\n1\ndplain 0\n")
    return in_logs(Told("unreadable-checkpoint", f"logs/{file}", 4, 8))


@case
def bad_meta_properties(folder: Path) -> Made:
    """The version in meta.properties is 2."""
    path = log_directory(folder) / "meta.properties"
    text = path.read_bytes()
    path.write_bytes(text.replace(b"version=1", b"version=2"))
    return in_logs(Told("bad-meta-properties", "logs/meta.properties", text.index(b"version=1"), 9))


@case
def bad_quorum_state(folder: Path) -> Made:
    """quorum-state is empty."""
    (metadata(folder) / "quorum-state").write_text("")
    return Made("logs", KRAFT, [Told("bad-quorum-state", f"{METADATA}/quorum-state", 0, 0)])


@case
def node_identity_mismatch(folder: Path) -> Made:
    """directory.id is 63, as which Kafka reserves it."""
    edited(log_directory(folder), directory_id="AAAAAAAAAAAAAAAAAAAAPw")
    return in_logs(Told("node-identity-mismatch", "logs/meta.properties"))


def of_known_topic(folder: Path, number: int) -> Path:
    """A log directory with __cluster_metadata-0, and a partition of that number of a topic that it has with one."""
    logs = metadata(folder).parent
    partition = short(logs).rename(logs / f"meta-0-{number}")
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {META_0_ID}")
    return logs


@case
def unknown_node(folder: Path) -> Made:
    """node.id is 99; the cluster has broker 1."""
    edited(of_known_topic(folder, 0), node_id="99")
    unassigned = Told("unassigned-replica", "logs/meta-0-0/partition.metadata")
    return Made("logs", KRAFT, [Told("unknown-node", "logs/meta.properties"), unassigned])


@case
def unassigned_replica(folder: Path) -> Made:
    """Partition 7 of a topic that has one, according to the cluster's metadata."""
    of_known_topic(folder, 7)
    return Made("logs", KRAFT, [Told("unassigned-replica", "logs/meta-0-7/partition.metadata")])


@case
def metadata_lost(folder: Path) -> Made:
    """Of __cluster_metadata-0 only a snapshot is left."""
    for path in metadata(folder).glob(f"{name(322, '')}*"):
        path.unlink()
    return Made("logs", KRAFT, [Told("metadata-lost", METADATA)])


@case
def bad_metadata_snapshot(folder: Path) -> Made:
    """The newest snapshot is cut by its last 75 bytes, which are a control batch with its footer."""
    path = folder / SNAPSHOT
    metadata(folder)
    data = path.read_bytes()
    path.write_bytes(data[:-FOOTER_BYTES])
    found = [
        Told("bad-metadata-snapshot", SNAPSHOT, len(data) - FOOTER_BYTES),
        Told("broker-would-not-start", METADATA, offset=322),  # where the log begins without a snapshot now
    ]
    return Made("logs", KRAFT, found)


@case
def metadata_log_behind(folder: Path) -> Made:
    """The segment of offsets 322 to 457 is emptied, its indexes and the snapshot of producers at its end removed."""
    partition = metadata(folder)
    for suffix in (".log", ".index", ".timeindex"):
        (partition / name(322, suffix)).write_bytes(b"")
    (partition / name(458, ".snapshot")).unlink()
    return Made("logs", KRAFT, [Told("metadata-log-behind", SNAPSHOT, offset=455)])


@case
def unclean_shutdown(folder: Path) -> Made:
    """.kafka_cleanshutdown removed."""
    (log_directory(folder) / ".kafka_cleanshutdown").unlink()
    return in_logs(Told("unclean-shutdown", "logs"))


@case
def partition_missing(folder: Path) -> Made:
    """replication-offset-checkpoint has a high watermark for a partition that is not there."""
    file = "replication-offset-checkpoint"
    (log_directory(folder) / file).write_text(checkpoint("dplain 0 116", "dgzip 0 250"))
    return in_logs(Told("partition-missing", f"logs/{file}"))


def moved(folder: Path, ending: str) -> Made:
    """A second copy of the partition under the name that a broker gives it on its way."""
    logs = log_directory(folder)
    target = f"dplain-0.0123456789abcdef0123456789abcdef-{ending}"
    short(folder / "made").rename(logs / target)
    (folder / "made").rmdir()
    return in_logs(Told(f"{ending}-directory", f"logs/{target}"))


@case
def delete_directory(folder: Path) -> Made:
    """A copy of the partition under a name that ends in -delete."""
    return moved(folder, "delete")


@case
def future_directory(folder: Path) -> Made:
    """A copy of the partition under a name that ends in -future."""
    return moved(folder, "future")


@case
def stray_directory(folder: Path) -> Made:
    """A copy of the partition under a name that ends in -stray."""
    return moved(folder, "stray")


@case
def unknown_file(folder: Path) -> Made:
    """A file of notes beside the segments."""
    (short(folder) / "notes.txt").write_text("x")
    return in_partition(Told("unknown-file", "dplain-0"))


@case
def high_watermark_beyond_end(folder: Path) -> Made:
    """replication-offset-checkpoint tells of offset 117, the log ends at 116."""
    return of_checkpoint(folder, "replication-offset-checkpoint", "high-watermark-beyond-end")


@case
def log_start_beyond_end(folder: Path) -> Made:
    """log-start-offset-checkpoint tells of offset 117, the log ends at 116."""
    return of_checkpoint(folder, "log-start-offset-checkpoint", "log-start-beyond-end")


@case
def recovery_point_beyond_end(folder: Path) -> Made:
    """recovery-point-offset-checkpoint tells of offset 117, the log ends at 116."""
    return of_checkpoint(folder, "recovery-point-offset-checkpoint", "recovery-point-beyond-end")


@case
def cleaner_checkpoint_beyond_end(folder: Path) -> Made:
    """cleaner-offset-checkpoint tells of offset 117, the log ends at 116."""
    return of_checkpoint(folder, "cleaner-offset-checkpoint", "cleaner-checkpoint-beyond-end")


def with_commits(folder: Path) -> Made:
    partition = log_directory(folder) / "dplain-0"
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {G_IN_ID}")
    partition.rename(partition.with_name("g-in-0"))
    shutil.copytree(TESTDATA / OFFSETS, folder / "logs" / "__consumer_offsets-0")
    beyond = Told("commit-beyond-end", "logs/g-in-0", offset=148)
    return Made("logs", OFFSETS, [beyond, Told("commit-below-start", "logs/g-in-0", offset=7)])


@case
def commit_beyond_end(folder: Path) -> Made:
    """A log that ends at 116 has the name of a partition for which groups have committed 148."""
    return with_commits(folder)


@case
def commit_below_start(folder: Path) -> Made:
    """A log that starts at 97 has the name of a partition for which a group has committed 7."""
    return with_commits(folder)


@case
def segments_below_log_start(folder: Path) -> Made:
    """log-start-offset-checkpoint tells of offset 102, the first segment ends at 100."""
    (log_directory(folder) / "log-start-offset-checkpoint").write_text(checkpoint("dplain 0 102"))
    return in_logs(Told("segments-below-log-start", f"{PARTITION}/{name(97)}", offset=97))


@case
def no_partition_metadata(folder: Path) -> Made:
    """partition.metadata removed in the log directory of a KRaft node."""
    (log_directory(folder) / "dplain-0" / "partition.metadata").unlink()
    return in_logs(Told("no-partition-metadata", PARTITION))


@case
def bad_partition_metadata(folder: Path) -> Made:
    """partition.metadata has no topic id."""
    (short(folder) / "partition.metadata").write_text("version: 0")
    return in_partition(Told("bad-partition-metadata", "dplain-0/partition.metadata", 0, 10))


@case
def topic_id_mismatch(folder: Path) -> Made:
    """Three partitions of a topic, the last of which has another topic id."""
    logs = log_directory(folder)
    for number in (1, 2):
        shutil.copytree(logs / "dplain-0", logs / f"dplain-{number}")
    (logs / "dplain-2" / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    return in_logs(Told("topic-id-mismatch", "logs/dplain-2/partition.metadata"))


@case
def unknown_topic(folder: Path) -> Made:
    """A partition of another cluster beside __cluster_metadata-0, which does not know its topic."""
    logs = metadata(folder).parent
    short(logs)
    return Made("logs", KRAFT, [Told("unknown-topic", f"{PARTITION}/partition.metadata")])


@case
def bad_clean_shutdown(folder: Path) -> Made:
    """.kafka_cleanshutdown holds a brace and nothing else; judged by itself."""
    (folder / ".kafka_cleanshutdown").write_text("{")
    return Made(".kafka_cleanshutdown", LOGS, [Told("bad-clean-shutdown", ".kafka_cleanshutdown", 0, 1)])


@case
def unpadded_name(folder: Path) -> Made:
    """The segment of offset 101 is called 101.log; bare."""
    partition = short(folder, bare=True)
    (partition / name(101)).rename(partition / "101.log")
    return in_partition(Told("unpadded-name", "dplain-0/101.log"))


@case
def leftover_deleted(folder: Path) -> Made:
    """The segment of offset 97 is marked as deleted, as retention does; bare."""
    partition = short(folder, bare=True)
    (partition / name(97)).rename(partition / name(97, ".log.deleted"))
    return in_partition(Told("leftover-deleted", f"dplain-0/{name(97, '.log.deleted')}"))


@case
def leftover_cleaned(folder: Path) -> Made:
    """A copy of the segment of offset 97 that the cleaner has not finished; bare."""
    partition = short(folder, bare=True)
    (partition / name(97, ".log.cleaned")).write_bytes(short_batches()[0])
    return in_partition(Told("leftover-cleaned", f"dplain-0/{name(97, '.log.cleaned')}"))


def swap(partition: Path) -> Told:
    """The first segment once more, as .swap beside it."""
    shutil.copy(partition / name(97), partition / name(97, ".log.swap"))
    return Told("unfinished-swap", f"dplain-0/{name(97, '.log.swap')}", offset=97)


@case
def unfinished_swap(folder: Path) -> Made:
    """A copy of the segment of offset 97 waits to take its place, with an index."""
    partition = short(folder)
    (partition / name(97, ".index.swap")).write_bytes(b"")
    return in_partition(swap(partition))


@case
def swap_without_index(folder: Path) -> Made:
    """A copy of the segment of offset 97 waits to take its place, without an index."""
    found = swap(short(folder))
    return in_partition(found, Told("swap-without-index", found.file, offset=97))


@case
def leftover_holds_data(folder: Path) -> Made:
    """The last segment, of offset 101, is marked as deleted, as a recovery does that meets damage; bare."""
    partition = short(folder, bare=True)
    (partition / name(101)).rename(partition / name(101, ".log.deleted"))
    file = f"dplain-0/{name(101, '.log.deleted')}"
    return in_partition(Told("leftover-deleted", file), Told("leftover-holds-data", file, offset=101))


def cleaned(folder: Path, edit: Callable[[Path], object]) -> None:
    """The cleaner's checkpoint at the second segment, and the first one changed."""
    logs = log_directory(folder)
    (logs / "cleaner-offset-checkpoint").write_text(checkpoint("dplain 0 101"))
    edit(logs / "dplain-0" / name(97))


@case
def cleaner_blocked(folder: Path) -> Made:
    """100 bytes 7 behind the batches of a segment where the cleaner works."""
    cleaned(folder, lambda path: path.write_bytes(path.read_bytes() + b"\7" * 100))
    file = f"{PARTITION}/{name(97)}"
    return in_logs(Told("nonsense-block", file, 540, 100), Told("cleaner-blocked", file, 540))


@case
def cleaner_hides_damage(folder: Path) -> Made:
    """One byte of the records of the first batch changed, in a segment where the cleaner works."""
    cleaned(folder, lambda path: changed(path, 80, b"\xff"))
    file = f"{PARTITION}/{name(97)}"
    return in_logs(Told("crc-mismatch", file, 0, 448, 97), Told("cleaner-hides-damage", file, 0, 448, 97))


@case
def record_without_key(folder: Path) -> Made:
    """An empty segment behind the last batch, which has records without keys, and the cleaner's checkpoint there."""
    logs = log_directory(folder)
    for suffix in (".log", ".index", ".timeindex"):
        (logs / "dplain-0" / name(116, suffix)).write_bytes(b"")
    (logs / "cleaner-offset-checkpoint").write_text(checkpoint("dplain 0 116"))
    return in_logs(Told("record-without-key", f"{PARTITION}/{name(101)}", 94, 1972, 103))
