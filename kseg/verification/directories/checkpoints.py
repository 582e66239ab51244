"""Checks the offsets of a partition in the log directory's checkpoints against the start and end of its log.

Sources: LogLoader, UnifiedLog, LogCleanerManager and ReplicaManager of Kafka 4.3.1.
"""

from itertools import pairwise

from kseg.verification.outlook import outlook_of
from kseg.verification.rule import Rule


class CheckpointRule(Rule):
    """Compares after all segments were read."""

    def finish(self) -> None:
        partition, broker = self.partition, self.partition.broker
        if not partition.is_whole or not partition.segments or partition.segments[-1].is_unread:
            return
        end = partition.segments[-1].next_offset
        if end is None:
            return
        for code, name, offset in (
            ("high-watermark-beyond-end", "the high watermark", broker.high_watermark),
            ("log-start-beyond-end", "the log start offset", broker.log_start_offset),
            ("recovery-point-beyond-end", "the recovery point", broker.recovery_point),
            ("cleaner-checkpoint-beyond-end", "the cleaner's checkpoint", broker.cleaner_offset),
        ):
            if offset is not None and offset > end and offset > outlook_of(partition).next_offset:
                details = {"checkpointOffset": offset, "logEndOffset": end}
                self.report.add(
                    code, partition.name, f"{name} is {offset}, the log ends at {end}", offset=offset, details=details
                )
        if broker.log_start_offset is not None and broker.log_start_offset <= end:
            self._below(broker.log_start_offset)

    def _below(self, start: int) -> None:
        """Reports segments below the log start offset."""
        segments = self.partition.segments
        below = [before for before, after in pairwise(segments) if (after.base_offset or 0) <= start]
        if below:
            records = sum(before.records for before in below)
            text = f"the log start offset is {start}; segments below it: {len(below)}"
            details = {"startOffset": start, "segments": len(below), "removedRecords": records}
            self.report.add(
                "segments-below-log-start", below[0].path, text, offset=below[0].base_offset, details=details
            )
