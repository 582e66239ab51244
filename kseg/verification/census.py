"""Collects facts about a whole partition while it is checked: sizes, formats, codecs, times, and the backlog of the log
cleaner."""

from typing import Any

from kseg.cleaner.active_producers import Producers
from kseg.cleaner.ranges import backlog_of
from kseg.formats.compression import codec_name
from kseg.formats.json_values import name_value
from kseg.formats.rows import int64s
from kseg.kernel.state.tally import CODECS, FORMS_WIDTH, count_forms
from kseg.segment.items import Damage
from kseg.segment.summary import FORMATS
from kseg.segment.survey import QUICK, BatchProblem, HeaderRows
from kseg.verification.partition import CheckedSegment, Partition, Rule


class Census(Rule):
    """`as_object` returns the facts for JSON, with those fields of ``dump --summary`` that verification knows."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self._forms = int64s(FORMS_WIDTH)
        self._damaged_bytes = 0
        self._blocked = ""
        totals = self.report.totals
        self._before = totals.errors, totals.warnings

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        count_forms(headers.rows, headers.count, segment.file.is_07, self._forms)

    def damage(self, segment: CheckedSegment, damage: Damage) -> None:
        self._damaged_bytes += damage.length
        self._block(segment, damage.code)

    def problem(self, segment: CheckedSegment, problem: BatchProblem) -> None:
        if problem.code == "undecodable-records":
            self._block(segment, problem.code)

    def _block(self, segment: CheckedSegment, code: str) -> None:
        if not segment.is_last and not self._blocked:
            self._blocked = f"{code} in {segment.file.name}"

    def as_object(self) -> dict[str, Any]:
        """Returns the facts, after all findings of the partition."""
        segments, totals = self.partition.segments, self.report.totals
        return {
            "type": "partition",
            "path": name_value(self.partition.name),
            "files": len(segments),
            "bytes": sum(segment.size for segment in segments),
            "batches": sum(segment.batches for segment in segments),
            "records": sum(segment.records for segment in segments),
            "forms": self._form_objects(),
            "damagedBytes": self._damaged_bytes,
            "leastBaseTimestamp": min((s.least_timestamp for s in segments if s.least_timestamp >= 0), default=None),
            "maxTimestamp": max((s.largest_timestamp for s in segments if s.largest_timestamp >= 0), default=None),
            "errors": totals.errors - self._before[0],
            "warnings": totals.warnings - self._before[1],
            "cleaner": self._cleaner(),
        }

    def _form_objects(self) -> list[dict[str, Any]]:
        found = []
        for form, name in enumerate(FORMATS):
            for codec in range(CODECS):
                batches, size = self._forms[2 * (form * CODECS + codec) :][:2]
                if batches:
                    compression = codec_name(codec)
                    found.append({"format": name, "compression": compression, "batches": batches, "bytes": size})
        return found

    def _cleaner(self) -> dict[str, Any] | None:
        partition = self.partition
        if partition.directory is None or not partition.segments:
            return None
        producers, last = None, partition.segments[-1]
        if partition.level != QUICK and not last.is_damaged and last.next_offset is not None:
            producers = Producers(last.next_offset, partition.first_open_offset)
        found = backlog_of(partition.directory, partition.broker, partition.now_ms, self._blocked, producers)
        return None if found is None else found.as_object()
