"""The rules that a partition is shown to, or files of one."""

from kseg.verify.batches import BatchRule
from kseg.verify.housekeeping import CleanerRule
from kseg.verify.indexes import IndexRule
from kseg.verify.partition import Partition
from kseg.verify.producers import ProducerRule
from kseg.verify.rule import Rule


def rules_of(partition: Partition) -> list[Rule]:
    """In the order in which they are shown each segment: `BatchRule` fills in what the others read off a `Segment`.

    What has to do with a partition as a whole is imported for one alone.
    """
    rules: tuple[type[Rule], ...] = (BatchRule, IndexRule, ProducerRule, CleanerRule)
    if partition.is_whole:
        from kseg.verify.checkpoints import CheckpointRule
        from kseg.verify.epochs import EpochRule
        from kseg.verify.leftovers import LeftoverRule
        from kseg.verify.metadata_log import MetadataLogRule
        from kseg.verify.pending import PendingChangeRule
        from kseg.verify.topic_ids import TopicIdRule

        rules = (
            BatchRule, IndexRule, ProducerRule, EpochRule, CleanerRule, CheckpointRule, LeftoverRule, TopicIdRule,
            MetadataLogRule, PendingChangeRule,
        )  # fmt: skip
    return [rule(partition) for rule in rules]
