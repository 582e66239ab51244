"""Exports records as JSON Lines: those of ``kseg dump``, with all fields."""

import os
from collections.abc import Sequence

from kseg.changes.driver.command import ChangeOptions, Messages
from kseg.changes.plan import Plan
from kseg.conversion.options import ConvertOptions
from kseg.conversion.planner import plan_of_new
from kseg.conversion.record_files import SKIP_HINT
from kseg.dump.options import DumpOptions
from kseg.dump.run import Dump
from kseg.errors import DamageError, PathError
from kseg.formats.rows import BytesLike
from kseg.options.declaration import JSON
from kseg.output.notices import Presentation
from kseg.output.sink import MemorySink, Sink, open_sink
from kseg.stores.place import Place


def write_json_lines(
    paths: Sequence[str], options: ConvertOptions, sink: Sink, presentation: Presentation | None = None
) -> None:
    """Writes the records of all paths. ``presentation`` of messages on standard error; None for no messages.

    Raises PathError if a path cannot be read, DamageError for damage that is not to be skipped.
    """
    wanted = DumpOptions(
        paths=paths,
        is_export=True,
        hides_deleted=not options.ignores_log_start,
        form=JSON,
        contents=True,
        offsets=options.offsets,
        times=options.times,
        key_format="avro" if options.decodes_keys else None,
        value_format="avro" if options.decodes_values else None,
        schemas=options.schemas,
        read_committed=options.read_committed,
        max_batch_bytes=options.max_batch_bytes,
        jobs=options.jobs,
        output=options.output,
        color="never" if presentation is None else presentation.color,
        quiet=presentation is None or presentation.quiet,
    )
    run = Dump(sink, wanted)
    status = run.run()
    if run.status:
        raise PathError("some paths could not be read")
    if status and not options.skips_damage:
        raise DamageError(f"damage found: kseg verify shows where; {SKIP_HINT}")


class _CountingSink(MemorySink):
    """Counts what a dry run would write."""

    size = 0

    def _write_all(self, view: BytesLike) -> None:
        self.size += len(view)


def json_lines_to_new(
    paths: Sequence[str], output: str, options: ConvertOptions, change: ChangeOptions, _messages: Messages
) -> list[Plan]:
    """Writes the records to a new file, completely or not at all. Returns the plan.

    Raises PathError if there is such a file, and as `write_json_lines`.
    """
    if Place(output).lexists():
        raise PathError(f"{output}: already exists; nothing was written")
    folder, name = os.path.split(output)
    if change.is_dry:
        sink = _CountingSink()
        write_json_lines(paths, options, sink)
        sink.flush()
        size = sink.size
    else:
        with open_sink(output) as written:
            write_json_lines(paths, options, written)
        size = Place(output).size()
    return [plan_of_new(folder, {name: size}, options.reason)]
