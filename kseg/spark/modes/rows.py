"""The modes that Spark has in common with `kseg.scan`: batches, findings, entries and commits."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kseg.api.modes import module_of
from kseg.export.arrow import record_batches
from kseg.export.scanning import Offsets, ScanPart, ScanRequest, grouped
from kseg.formats.rows import Scratch
from kseg.spark import planning
from kseg.spark.modes.records import opened_for, report_of, request_of
from kseg.spark.options import Options
from kseg.spark.planning import TaskPart
from kseg.spark.stores import expanded_paths

if TYPE_CHECKING:
    import pyarrow


def plan(options: Options) -> list[Sequence[Any]]:
    """Returns the tasks: parts of segments, partitions, or side files."""
    if options.mode == "batches":
        return list(planning.plan(options))
    works = list(module_of(options.mode).works(_request(options)))
    return grouped(works, options.task_bytes(sum(size for size, _ in works)))


def read(works: Sequence[Any], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields the rows of one task."""
    if options.mode == "batches":
        rows = _batch_rows(works, options)
    else:
        rows = module_of(options.mode).rows(works, _request(options), report_of(options))
    yield from record_batches(rows, schema)


def _request(options: Options) -> ScanRequest:
    return replace(request_of(options), paths=tuple(expanded_paths(options.paths)))


def _batch_rows(parts: Sequence[TaskPart], options: Options) -> Iterator[dict[str, Any]]:
    from kseg.api.modes.batches import rows_of_part

    scratch, request, report = Scratch(options.max_batch_bytes), request_of(options), report_of(options)
    for part in parts:
        with opened_for(part, options) as source:
            offsets = Offsets(part.first_offset, part.last_offset)
            yield from rows_of_part(ScanPart(part.file, part.slice, None, offsets), source, scratch, request, report)
