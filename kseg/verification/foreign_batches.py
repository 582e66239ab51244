"""Reports segments whose batches belong to another partition (`kseg.logdir.belonging`).

All files of the partition are read again for it, so this is done only after another finding that such batches cause.
"""

from typing import TYPE_CHECKING

from kseg.formats.suffixes import LOG
from kseg.segment.survey import QUICK
from kseg.verification.rule import Rule

if TYPE_CHECKING:
    from kseg.verification.partition import Partition

_CAUSED = (
    "segments-overlap", "offset-outside-segment", "batch-out-of-order", "wrong-base-offset", "gap-unexplained",
    "leader-epoch-falls", "leader-epochs-mismatch", "leader-epochs-beyond-end", "producer-sequence-gap",
    "producer-epoch-falls", "producer-snapshot-mismatch", "producer-snapshot-beyond-end", "batch-outside-transaction",
    "transaction-index-incomplete", "transaction-index-wrong-entry", "index-misleads", "index-beyond-log",
    "time-index-mismatch", "time-index-beyond-log", "time-index-incomplete", "high-watermark-beyond-end",
    "recovery-point-beyond-end",
)  # fmt: skip
"""Findings that foreign batches cause."""


class ForeignBatchRule(Rule):
    """Weighs the evidence after all other rules."""

    def __init__(self, partition: "Partition") -> None:
        super().__init__(partition)
        self._before = self._caused()

    def _caused(self) -> int:
        codes = self.report.totals.codes
        return sum(codes.get(code, 0) for code in _CAUSED) if codes else 0

    def finish(self) -> None:
        partition = self.partition
        is_log = partition.directory is not None and all(one.file.kind == LOG for one in partition.segments)
        if partition.level == QUICK or not is_log or self._caused() == self._before:
            return
        from kseg.logdir.belonging import FOREIGN_BATCHES, foreign_segments  # few partitions have such findings

        for one in foreign_segments(partition.directory or "", partition.broker):
            if partition.is_live and one.path == partition.segments[-1].path:
                continue  # its side files were read at other moments
            text = f"{one.records} records, offsets {one.first} to {one.last}: {one.reason}"
            self.report.add(FOREIGN_BATCHES, one.path, text, offset=one.first, details=one.details())
