"""Collects in one walk the facts about a batch that only its records give."""

from dataclasses import dataclass

from kseg.formats import record_batch
from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.layout.rows import ROW_KEY_SIZE, ROW_WIDTH
from kseg.kernel.records.records import FLAG_ATTRIBUTES, FLAG_NULL_KEY
from kseg.segment.batches import Batch, Message, RecordBatch, Survey
from kseg.segment.items import Problem


@dataclass(slots=True)
class Inspection:
    """``problems`` of the records; ``first_offset`` (None if there are none) and ``count`` of the readable ones.

    ``last_offset`` is given for a compressed v0 message: its inner offsets are absolute and covered by its checksum.
    """

    problems: list[Problem]
    first_offset: int | None
    count: int
    has_null_key: bool
    last_offset: int | None = None


def inspect(batch: Batch, scratch: Scratch) -> Inspection:
    """Decompresses a batch with a valid checksum and reads all its records. Never raises for malformed records."""
    batch.scratch = scratch
    if isinstance(batch, RecordBatch):
        return _inspect_v2(batch)
    survey, has_null_key, problems = Survey(), False, []
    try:
        for rows in batch.rows():
            survey.add(rows)
            has_null_key = has_null_key or min(rows.rows[ROW_KEY_SIZE : rows.count * ROW_WIDTH : ROW_WIDTH]) < 0
    except UndecodableError as error:
        problems.append(Problem(error.problem, str(error)))
    problems += batch.passed()
    found = survey.problems(bool(batch.header.codec))
    # All inner offsets of a 0.7 set equal the set's own.
    problems += [problem for problem in found if isinstance(batch, Message) or problem.code == "inner-crc-mismatch"]
    last_offset = None
    if isinstance(batch, Message) and batch.magic == 0 and batch.header.codec and not problems:
        last_offset = survey.last_offset
        if last_offset != batch.last_offset:
            text = f"its offset is {batch.last_offset}, that of the last message in it {last_offset}"
            problems.append(Problem("wrong-base-offset", text))
    return Inspection(problems, survey.first_offset, survey.count, has_null_key, last_offset)


def _inspect_v2(batch: RecordBatch) -> Inspection:
    header = batch.header
    try:
        max_bytes = batch.scratch.max_batch_bytes
        payload, start = record_batch.open_records(batch.data, header, max_bytes, remarks=batch.remarks)
    except UndecodableError as error:
        return Inspection([Problem(error.problem, str(error))], None, 0, False)
    found, walk = record_batch.survey_records(payload, start, header)
    problems = [Problem(*problem) for problem in found]
    if walk.flags & FLAG_ATTRIBUTES:
        problems.append(Problem("record-attributes", "a record has attributes, which no release sets"))
    if not problems and header.record_count and walk.largest_timestamp != header.max_timestamp:
        text = (
            f"the largest timestamp of the records is {walk.largest_timestamp}, the header says {header.max_timestamp}"
        )
        problems.append(Problem("max-timestamp-mismatch", text))
    problems += batch.passed()
    return Inspection(problems, header.base_offset, walk.index, bool(walk.flags & FLAG_NULL_KEY))
