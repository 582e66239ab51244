"""Checks metadata: __cluster_metadata and its snapshots, records of other internal topics, partition.metadata.

Sources: KafkaRaftLog, Snapshots, FileQuorumStateStore of Kafka 4.3.1.
"""

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kseg.errors import KsegError, PathError
from kseg.findings.table import DOUBTFUL, INFO, OFFLINE, REFUSED, WARNING
from kseg.formats.record_batch import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.node.log_directory import is_moved
from kseg.quantities import plural
from kseg.releases.metadata import NEWEST_RULES, MetadataRules
from kseg.releases.release import NEWEST
from kseg.segment import files as segment_files
from kseg.segment.files import BOOTSTRAP, SegmentFile
from kseg.segment.items import Damage, Record, RecordBatch
from kseg.segment.reader import open_segment
from kseg.segment.survey import DEEP, QUICK, HeaderRows
from kseg.sidefiles.problems import SideFileProblem, problems_of
from kseg.sidefiles.text_files import MAX_TEXT_BYTES, PARTITION_METADATA, PartitionMetadata, read_partition_metadata
from kseg.stores.place import Place
from kseg.verification.partition import CheckedSegment, PartitionCheck, Rule, add_unread
from kseg.verification.report import Report

if TYPE_CHECKING:
    from kseg.node.metadata_image import MetadataImage


def is_snapshot(file: SegmentFile) -> bool:
    """Whether the name is one of a snapshot of a KRaft node."""
    return not file.leftover and file.kind == CHECKPOINT and (file.epoch is not None or file.name == BOOTSTRAP)


def judge_snapshot(path: str, report: Report, level: int) -> bool:
    """Checks a snapshot of the cluster metadata (.checkpoint, bootstrap.checkpoint), at level deep each record. Returns
    whether it is complete, as a KRaft node needs it:

        a control batch that begins with SNAPSHOT_HEADER, data batches, a control batch that ends with SNAPSHOT_FOOTER

    Sources: Snapshots, RecordsSnapshotReader and KafkaRaftLog.recoverSnapshots of Kafka 4.3.1; KIP-630.
    """
    from kseg.formats.control import parse_control  # few log directories have snapshots

    def refuse(message: str, position: int | None = None, **more: Any) -> bool:
        report.add("bad-metadata-snapshot", path, message, position, **more)
        return False

    first, last, totals = list[Record](), list[Record](), report.totals
    try:
        with open_segment(path) as reader:
            totals.files += 1
            totals.bytes += reader.source.size
            for item in reader:
                if isinstance(item, Damage):
                    return refuse(item.message, item.position, length=item.length)
                totals.batches += 1
                if problems := item.check() if level == DEEP else item.problems:
                    return refuse(problems[0].message, item.position, length=item.size, offset=item.base_offset)
                if not item.is_control:
                    totals.records += item.header.record_count if isinstance(item, RecordBatch) else 1
                records = list(item) if item.is_control else []
                first, last = first or records[:1], records[-1:]
            size = reader.source.size
    except PathError as error:  # what cannot be opened is not judged: Kafka makes snapshots that only its user reads
        add_unread(path, report, error)
        return False
    except KsegError as error:
        return refuse(str(error))
    for found, wanted, name in ((first, SNAPSHOT_HEADER, "header"), (last, SNAPSHOT_FOOTER, "footer")):
        if wanted not in [parse_control(record.key, record.value).type_id for record in found]:
            position = size if wanted == SNAPSHOT_FOOTER else 0
            # Kafka 4.4.0 was seen to start on a snapshot that lacks nothing but its footer.
            details = {"reason": DOUBTFUL} if wanted == SNAPSHOT_FOOTER else {}
            return refuse(f"no {name}: it is not complete", position, details=details)
    return True


def is_newest(snapshot: str) -> bool:
    """Whether no snapshot follows this one."""
    try:
        names = [name for name in Place(Place(snapshot).parent or ".").names() if name.endswith(CHECKPOINT)]
    except (KsegError, OSError):
        return True
    return os.path.basename(snapshot) >= max(names, default="")


def start_without(snapshot: str) -> str:
    """Returns what a node starts from if a snapshot were not there: another one, or its log; "" if they do not reach
    far enough."""
    from kseg.node.cluster_metadata import load_snapshot, snapshots_among

    files = segment_files.list_segments(Place(snapshot).parent or ".")
    start = next((file.base_offset or 0 for file in files if file.kind == LOG and not file.leftover), None)
    for other in reversed(snapshots_among(files)):
        if other.name != os.path.basename(snapshot) and start is not None and start <= (other.base_offset or 0):
            with suppress(KsegError):
                load_snapshot(other.path)
                return other.name
    return "the beginning of its log" if start == 0 else ""


_MAX_BYTES = 1 << 16


def judge_partition_metadata(partition: PartitionCheck) -> None:
    """Checks partition.metadata, and stores its topic id in ``partition``: a broker that finds another topic's id there
    renames the partition and starts an empty one.

    Sources: PartitionMetadataFile, UnifiedLog.initializeTopicId, LogManager.isStrayReplica of Kafka 4.3.1.
    """
    report, path = partition.report, partition.path(PARTITION_METADATA)
    if is_moved(partition.own_name):
        return
    if PARTITION_METADATA not in partition.names:
        if partition.broker.is_kraft and any(segment.size for segment in partition.segments):
            text, severity = f"the log holds records, but there is no {PARTITION_METADATA}", None
            if partition.topic == segment_files.METADATA_TOPIC:
                text, severity = f"there is no {PARTITION_METADATA}: the next start writes it", INFO
            report.add("no-partition-metadata", partition.name, text, severity=severity)
        return
    found: PartitionMetadata | SideFileProblem | None = None
    try:
        for found in read_partition_metadata(path.head(_MAX_BYTES)):
            if isinstance(found, SideFileProblem):
                # Kafka's reader foresees malformed lines, but neither missing ones nor ids that are no UUID.
                stops = found.code == "missing-field" or (
                    found.code == "bad-value" and segment_files.ZERO_UUID_TEXT not in found.message
                )
                place, details = (found.position, found.length), {"reason": REFUSED if stops else OFFLINE}
                report.add("bad-partition-metadata", path, found.message, *place, details=details)
    except PermissionError as error:
        add_unread(path, report, error)
    except OSError as error:
        report.add("bad-partition-metadata", path, str(error.strerror))
    if not isinstance(found, PartitionMetadata):
        return
    partition.topic_id = found.topic_id
    # What __cluster_metadata says.
    topic, topic_id, state, own = partition.topic, found.topic_id, partition.broker, {"topicId": found.topic_id}
    wanted = state.topic_id
    if topic == segment_files.METADATA_TOPIC:
        if topic_id != (wanted := segment_files.METADATA_TOPIC_ID):
            text = f"topic id {topic_id}; that of {topic} is {wanted} in each cluster"
            own |= {"expectedTopicId": wanted, "reason": REFUSED}
            report.add("bad-partition-metadata", path, text, details=own)
    elif wanted == "":
        report.add("unknown-topic", path, f"__cluster_metadata has no topic {topic}", details=own)
    elif wanted is not None and wanted != topic_id:
        text = f"topic id {topic_id}; in __cluster_metadata {topic} has {wanted}"
        report.add("topic-id-mismatch", path, text, details=own | {"expectedTopicId": wanted})
    elif state.is_assigned is False:
        text = f"__cluster_metadata does not assign this partition of {topic} to the node"
        report.add("unassigned-replica", path, text, details=own)


def judge_features(path: str, image: "MetadataImage", rules: MetadataRules, report: Report) -> None:
    """Reports levels of features that a release does not accept, unless no release does."""
    features = image.metadata_version, image.features
    of_no_release = {name for name, _ in NEWEST_RULES.unknown_features(*features)}  # findings of their own
    for name, text in rules.unknown_features(*features):
        if name not in of_no_release:
            report.add("release-mismatch", path, text)


class MetadataLogRule(Rule):
    """Checks quorum-state and snapshots of __cluster_metadata after its log was read."""

    _epoch: int | None = None
    """That of the last batch."""

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        self._epoch = headers[-1].epoch

    def finish(self) -> None:
        partition = self.partition
        files = segment_files.segments_among(partition.name, partition.names)
        level = partition.settings.level
        snapshots = [file for file in files if is_snapshot(file) and judge_snapshot(file.path, self.report, level)]
        self._compare_with_log(snapshots)
        self._quorum_state()
        if level != QUICK:
            self._replay(files, snapshots)
        if partition.settings.era.release < NEWEST:
            self._judge_release([file for file in files if file.kind != CHECKPOINT or file in snapshots])

    def _judge_release(self, files: list[SegmentFile]) -> None:
        """Reports what keeps a node of an older release from starting with these files."""
        from kseg.node.cluster_metadata import load_readable, quorum_state_in, unaccepted_records
        from kseg.node.metadata_image import FEATURE_RECORD

        rules, path = MetadataRules(self.partition.settings.era.release), self.partition.name
        if not rules.are_known:
            text = f"Kafka {rules.name} may not read a metadata log: its rules are known from 3.3 on"
            self.report.add("release-mismatch", path, text, details={"reason": DOUBTFUL})
            return
        try:
            image = load_readable(files, kinds=frozenset({FEATURE_RECORD}))[0].image
            judge_features(path, image, rules, self.report)
            for file, offset, text in unaccepted_records(files, rules):
                self.report.add("release-mismatch", file, text, offset=offset)
        except KsegError:
            return  # reported for the segment
        version = quorum_state_in(path).data_version
        if version and not rules.has_voted_directory:
            text = f"Kafka {rules.name} does not know version {version} of quorum-state"
            self.report.add("release-mismatch", os.path.join(path, segment_files.QUORUM_STATE), text)

    def _replay(self, files: list[SegmentFile], snapshots: list[SegmentFile]) -> None:
        """Replays the records of the log, and compares the snapshots with what they make."""
        from kseg.decoders.framed import redact, type_name
        from kseg.decoders.schemas import CLUSTER_METADATA
        from kseg.formats.schema import json_text
        from kseg.node.cluster_metadata import replay_log
        from kseg.node.metadata_image import topics_of_two_ids, unstartable

        whole = {file.name for file in snapshots}
        try:
            found = replay_log([file for file in files if file.kind != CHECKPOINT or file.name in whole])
        except KsegError:
            return  # reported for the segment
        # A node begins with its newest snapshot, and does not read what that replaces.
        newest = max((file.base_offset or 0 for file in snapshots), default=0)
        refusals = [(error, is_newest(error.path)) for error in found.refused_snapshots.values()]
        if found.refused is not None:
            refusals.append((found.refused, found.refused.offset >= newest))
        for refused, is_read in refusals:
            details = {"reason": REFUSED} if is_read else {}
            text = f"no node can replay the record: {refused.why}"
            self.report.add("metadata-record-refused", refused.path, text, offset=refused.offset, details=details)
        if found.image is not None:
            # A log without its node may be that of a broker.
            doubtful = {} if self.partition.broker.is_known else dict(topics_of_two_ids(found.image))
            for text, _ in unstartable(found.image):
                severity, details = (WARNING, {}) if text in doubtful else (None, {"reason": REFUSED})
                path = self.partition.name
                self.report.add("metadata-record-refused", path, text, severity=severity, details=details)
        for name, (only_there, only_log) in found.different.items():
            kind, _, text_of_fields = next(iter(only_there or only_log))
            fields = json.loads(text_of_fields)
            redact(kind, fields)  # findings are shown to others
            text = (
                f"{plural(sum(only_there.values()), 'record', 'records')} that the log does not give, "
                f"{sum(only_log.values())} of the log missing, "
                f"as {type_name(CLUSTER_METADATA[kind])} {json_text(fields)[:80]}"
            )
            self.report.add("metadata-snapshot-mismatch", self.partition.path(name), text)

    def _quorum_state(self) -> None:
        if segment_files.QUORUM_STATE not in self.partition.names:
            return
        from kseg.sidefiles.text_files import QuorumState, read_quorum_state

        path = self.partition.path(segment_files.QUORUM_STATE)
        try:
            with path.open() as stream:
                state, *problems = read_quorum_state(stream.read(MAX_TEXT_BYTES))
        except OSError as error:
            self.report.add("bad-quorum-state", path, str(error.strerror))
            return
        for problem in problems_of([state, *problems]):
            self.report.add("bad-quorum-state", path, problem.message, problem.position, problem.length)
        last = self._epoch or 0  # a snapshot alone, as kseg quorum writes it, is above all that any voter has seen
        if isinstance(state, QuorumState) and not problems and (state.leader_epoch or 0) < last:
            text = f"leaderEpoch is {state.leader_epoch}, the log has records of epoch {last}"
            self.report.add("quorum-mismatch", path, text)

    def _compare_with_log(self, snapshots: list[SegmentFile]) -> None:
        segments = self.partition.segments
        if not segments and any(file.base_offset for file in snapshots):  # a new node has that of offset 0
            text = "no .log file is left: a node begins an empty log, without what the snapshots hold"
            self.report.add("metadata-lost", self.partition.name, text, details={"hasSnapshots": True})
        start = segments[0].base_offset or 0 if segments else 0
        newest = max(snapshots, key=lambda file: (file.base_offset or 0, file.epoch or 0), default=None)
        if start > 0 and (newest is None or (newest.base_offset or 0) < start):
            text = f"the log starts at offset {start}, and no complete snapshot reaches that offset"
            self.report.add("broker-would-not-start", self.partition.name, text, offset=start)
        end = segments[-1].next_offset if segments else None
        if newest is not None and end is not None and (newest.base_offset or 0) > end:
            text = f"the snapshot replaces all records below offset {newest.base_offset}, the log ends at {end}"
            details = {"offset": newest.base_offset, "logEndOffset": end}
            self.report.add("metadata-log-behind", newest.path, text, offset=newest.base_offset, details=details)
