"""Builds new partitions from JSON Lines: all that the lines describe, or none."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import BinaryIO

from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.driver.reporter import Messages
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import Plan
from kseg.conversion.importing import Import
from kseg.conversion.new_partitions import plan_of_new
from kseg.conversion.request import ConversionRequest
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.export.json_lines import JsonLines
from kseg.stores.source import STANDARD_INPUT


def import_lines(
    paths: Sequence[str], output: str, request: ConversionRequest, change: ChangeOptions, messages: Messages
) -> list[Plan]:
    """Writes partitions below ``output``, or in a dry run only counts. Returns a plan for each. Raises KsegError."""
    is_dry = change.is_dry
    with new_directories(output, change.takes_lock, is_dry) as made:

        def folder(name: str) -> str | None:
            path = made.add(name, is_dry)
            return None if is_dry else path

        work = Import(request, folder)
        try:
            for path in paths:
                with ExitStack() as opened:
                    name = "standard input" if path == STANDARD_INPUT else path
                    _add_lines(work, JsonLines(_open(path, opened), name, 4 * request.max_batch_bytes), name)
            work.finish()
        except BaseException:
            work.discard()
            raise
    for skipped in work.skipped:
        messages.warning(f"left out: {skipped}")
    for name, partition in work.partitions.items():
        messages.detail(f"{name}: {partition.records} records")
    return [plan_of_new(os.path.join(output, name), partition.files, "") for name, partition in work.partitions.items()]


def _add_lines(work: Import, lines: JsonLines, path: str) -> None:
    for line in lines:
        try:
            work.add(line)
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            raise KsegError(f"{path}: line {lines.first_line}: {error}; nothing was written") from error


def _open(path: str, opened: ExitStack) -> BinaryIO:
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise PathError("standard input is closed")
        return sys.stdin.buffer
    try:
        return opened.enter_context(open(path, "rb"))
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
