"""The rules for a partition or for some of its files, and the check of a single file."""

from collections.abc import Callable

from kseg.formats.suffixes import CHECKPOINT, LOG_07
from kseg.node.log_directory import state_by_name
from kseg.segment.files import METADATA_TOPIC, SegmentFile, segment_file
from kseg.segment.paths import refuse_empty_pack
from kseg.stores.place import Place
from kseg.stores.windows import Buffers
from kseg.verification.batches import BatchRule, FormatRule
from kseg.verification.gaps import CleanerRule
from kseg.verification.indexes import IndexRule
from kseg.verification.partition import CheckSettings, FinalCheck, PartitionCheck, Rule, judge_segments
from kseg.verification.report import Report
from kseg.verification.transactions import ProducerRule


def rules_of(partition: PartitionCheck) -> list[Rule]:
    """Returns the rules in the order of their calls: `BatchRule` fills in the fields of `Segment` that others read."""
    of_release = () if partition.settings.era.has_zstd else (FormatRule,)
    if not partition.is_whole:
        return [rule(partition) for rule in (BatchRule, IndexRule, ProducerRule, CleanerRule, *of_release)]
    from kseg.verification import internal_topics, metadata, side_files  # most single files need none
    from kseg.verification.log_directories import judge_owner

    topic, judge_topic = partition.topic, internal_topics.judge_internal_topic
    rules: tuple[type[Rule] | Callable[[PartitionCheck], None], ...] = (
        BatchRule, IndexRule, ProducerRule, side_files.EpochRule, CleanerRule, side_files.judge_checkpoints,
        side_files.judge_leftovers, metadata.judge_partition_metadata,
        *((metadata.MetadataLogRule,) if topic == METADATA_TOPIC else ()), side_files.judge_pending_changes,
        side_files.ForeignBatchesRule, *((judge_topic,) if topic in internal_topics.TOPICS else ()), judge_owner,
        *of_release,
    )  # fmt: skip
    return [rule(partition) if isinstance(rule, type) else FinalCheck(partition, rule) for rule in rules]


def judge_file(path: str, settings: CheckSettings, report: Report) -> None:
    """Checks one segment and its indexes, or one side file. Raises PathError if it cannot be read."""
    path = Place(path, is_named=True)
    refuse_empty_pack(path)
    file = segment_file(path)
    if settings.era.is_07 and not file.is_07:
        file = SegmentFile(path, LOG_07, file.leftover, file.base_offset, None, file.topic, file.partition)
    directory = None if path == "-" else path.parent or "."
    partition = PartitionCheck(
        directory, file.topic, file.partition, False, settings, report, state_by_name(file.topic),
        Buffers(settings.max_batch_bytes),
    )  # fmt: skip
    if file.kind == CHECKPOINT:
        from kseg.verification.metadata import is_snapshot, judge_snapshot

        if is_snapshot(file):
            judge_snapshot(path, report, settings.level)
            return
    if not file.is_segment and path != "-":
        from kseg.sidefiles.kinds import side_file
        from kseg.verification.side_files import judge_side_file

        if (side := side_file(path)) is not None:
            judge_side_file(partition, side)
            return
    judge_segments(partition, [file], rules_of(partition))
