"""``kseg convert --from jsonl``: partitions built from lines of JSON."""

import os
import sys
from contextlib import ExitStack
from typing import Any, BinaryIO

from kseg.changes.new_directories import new_directories
from kseg.changes.plan import CREATE, Plan, Step
from kseg.cli.convert_options import asked
from kseg.conversion.importing import Import
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.export.json_lines import JsonLines
from kseg.output.change_reporter import Presentation
from kseg.output.notices import Notices
from kseg.output.plans import plan_printer
from kseg.output.sink import open_report


def import_lines(options: dict[str, Any], presentation: Presentation, notices: Notices) -> int:
    """Writes all partitions that the lines tell of below ``--output``, or none; the exit status."""
    request, is_dry, output = asked(options), options["dry_run"], options["output"]
    with open_report(is_dry, notices.error) as sink:
        printer = plan_printer(presentation.form, sink, presentation.color, is_dry, keeps=False)
        with new_directories(output, not options["no_lock"], is_dry) as made:

            def folder(name: str) -> str | None:
                path = made.add(name, is_dry)
                return None if is_dry else path

            work = Import(request, folder)
            try:
                for path in options["paths"]:
                    with ExitStack() as opened:
                        name = "standard input" if path == "-" else path
                        _add_lines(work, JsonLines(_open(path, opened), name, 4 * request.max_batch_bytes), name)
                work.finish()
            except BaseException:
                work.discard()
                raise
        for skipped in work.skipped:
            notices.warning(f"left out: {skipped}")
        for name, partition in work.partitions.items():
            notices.detail(f"{name}: {partition.records} records")
            plan = Plan(os.path.join(output, name))
            plan.steps = [Step(CREATE, file, "", None, size) for file, size in sorted(partition.files.items())]
            printer.show(plan)
        printer.done()
        printer.finish(notices)
    return int(is_dry and bool(work.partitions))


def _add_lines(work: Import, lines: JsonLines, path: str) -> None:
    for line in lines:
        try:
            work.add(line)
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            raise KsegError(f"{path}: line {lines.first_line}: {error}; nothing was written") from error


def _open(path: str, opened: ExitStack) -> BinaryIO:
    if path == "-":
        if sys.stdin is None:
            raise PathError("standard input is closed")
        return sys.stdin.buffer
    try:
        return opened.enter_context(open(path, "rb"))
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
