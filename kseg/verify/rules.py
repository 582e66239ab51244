"""The rules that a partition is shown to, or files of one."""

from functools import cache

from kseg.verify.batches import BatchRule
from kseg.verify.housekeeping import CleanerRule
from kseg.verify.indexes import IndexRule
from kseg.verify.partition import Partition
from kseg.verify.producers import ProducerRule
from kseg.verify.rule import Rule


def rules_of(partition: Partition) -> list[Rule]:
    """In the order in which they are shown each segment: `BatchRule` fills in what the others read off a `Segment`."""
    rules = _of_whole_partitions() if partition.is_whole else (BatchRule, IndexRule, ProducerRule, CleanerRule)
    return [rule(partition) for rule in rules]


@cache
def _of_whole_partitions() -> tuple[type[Rule], ...]:
    """What has to do with a partition as a whole is imported for one alone."""
    from kseg.verify.checkpoints import CheckpointRule
    from kseg.verify.epochs import EpochRule
    from kseg.verify.leftovers import LeftoverRule
    from kseg.verify.metadata_log import MetadataLogRule
    from kseg.verify.pending import PendingChangeRule
    from kseg.verify.topic_ids import TopicIdRule

    return (
        BatchRule, IndexRule, ProducerRule, EpochRule, CleanerRule, CheckpointRule, LeftoverRule, TopicIdRule,
        MetadataLogRule, PendingChangeRule,
    )  # fmt: skip
