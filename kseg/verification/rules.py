"""The rules for a partition, or for some of its files."""

from functools import cache

from kseg.verification.batches import BatchRule
from kseg.verification.indexes import IndexRule
from kseg.verification.log_cleaning import CleanerRule
from kseg.verification.partition import Partition
from kseg.verification.rule import Rule
from kseg.verification.transactions import ProducerRule


def rules_of(partition: Partition) -> list[Rule]:
    """Returns the rules in the order of their calls: `BatchRule` fills in the fields of `Segment` that others read."""
    rules = _of_whole_partitions() if partition.is_whole else (BatchRule, IndexRule, ProducerRule, CleanerRule)
    return [rule(partition) for rule in rules]


@cache
def _of_whole_partitions() -> tuple[type[Rule], ...]:
    """Returns the rules for whole partitions, imported on first use."""
    from kseg.verification.directories.checkpoints import CheckpointRule
    from kseg.verification.directories.internal_topics import RemoteMetadataRule
    from kseg.verification.directories.metadata_log import MetadataLogRule
    from kseg.verification.directories.pending_changes import PendingChangeRule
    from kseg.verification.directories.topic_ids import TopicIdRule
    from kseg.verification.epochs import EpochRule
    from kseg.verification.foreign_batches import ForeignBatchRule
    from kseg.verification.leftovers import LeftoverRule

    return (
        BatchRule, IndexRule, ProducerRule, EpochRule, CleanerRule, CheckpointRule, LeftoverRule, TopicIdRule,
        MetadataLogRule, RemoteMetadataRule, PendingChangeRule, ForeignBatchRule,
    )  # fmt: skip
