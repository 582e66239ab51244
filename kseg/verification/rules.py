"""The rules that a partition is shown to, or files of one."""

from functools import cache

from kseg.verification.batches import BatchRule
from kseg.verification.housekeeping import CleanerRule
from kseg.verification.indexes import IndexRule
from kseg.verification.partition import Partition
from kseg.verification.rule import Rule
from kseg.verification.transactions import ProducerRule


def rules_of(partition: Partition) -> list[Rule]:
    """In the order in which they are shown each segment: `BatchRule` fills in what the others read off a `Segment`."""
    rules = _of_whole_partitions() if partition.is_whole else (BatchRule, IndexRule, ProducerRule, CleanerRule)
    return [rule(partition) for rule in rules]


@cache
def _of_whole_partitions() -> tuple[type[Rule], ...]:
    """What has to do with a partition as a whole is imported for one alone."""
    from kseg.verification.directories.checkpoints import CheckpointRule
    from kseg.verification.directories.metadata_log import MetadataLogRule
    from kseg.verification.directories.pending_changes import PendingChangeRule
    from kseg.verification.directories.topic_ids import TopicIdRule
    from kseg.verification.epochs import EpochRule
    from kseg.verification.leftovers import LeftoverRule

    return (
        BatchRule, IndexRule, ProducerRule, EpochRule, CleanerRule, CheckpointRule, LeftoverRule, TopicIdRule,
        MetadataLogRule, PendingChangeRule,
    )  # fmt: skip
