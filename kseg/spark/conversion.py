"""Conversions on Spark: a segment a task; a partition whose segments hang together is one task.

An attempt of a task writes to a folder of its own, and the driver gathers the files of those that it was told of.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

from kseg.changes.disk import Disk
from kseg.convert.joining import is_divisible, joined
from kseg.convert.partition import Converted, Piece, check_kinds, convert_piece, convert_segments, transactions_of
from kseg.convert.request import Request
from kseg.errors import KsegError
from kseg.segment.files import SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.source import STANDARD_INPUT
from kseg.spark.failures import Failure, failure_of
from kseg.spark.jobs import run


class _Asked(NamedTuple):
    """What all tasks of a partition are told."""

    name: str
    request: Request
    folder: str | None
    transactions: Transactions | None


class SparkConversion:
    """Has segments converted on Spark, as `kseg.convert.partition.convert_segments` does it here."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __call__(self, name: str, files: list[SegmentFile], request: Request, folder: str | None) -> Converted:
        """Raises KsegError, OSError as the local engine would."""
        check_kinds(name, files)
        if any(file.path == STANDARD_INPUT for file in files):
            return convert_segments(name, files, request, folder)  # which no task can read
        asked = _Asked(name, replace(request, jobs=1), folder, None)
        if is_divisible(files, request):
            asked = asked._replace(transactions=transactions_of(files, request))
            pieces = [each for each in run(self._spark, files, _Pieces(asked)) if isinstance(each, Piece)]
            # What has failed somewhere may have to do with what comes before it: the whole tells.
            found = joined(name, files, request, pieces) if len(pieces) == len(files) else None
            if found is not None:
                return _gathered(found, folder)
            if folder is not None:
                _clear(folder)
        [whole] = run(self._spark, [files], _Whole(asked))
        if isinstance(whole, Failure):
            raise whole.error()
        return _gathered(whole, folder)


def _gathered(found: Converted, folder: str | None) -> Converted:
    """With the files of all tasks in one folder, and without what other attempts have left in it."""
    if folder is None:
        return found
    disk = Disk()
    for segment in found.segments:
        for suffix, path in segment.paths.items():
            segment.paths[suffix] = os.path.join(folder, segment.name(suffix))
            disk.rename(path, segment.paths[suffix])
    _clear(folder)
    return found


def _clear(folder: str) -> None:
    """Removes what tasks have made in a folder and is not wanted any more."""
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in left:
        Disk().remove_tree(path)


class _Pieces:
    """Segments one by one."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def __call__(self, files: Iterable[SegmentFile]) -> Iterator[Piece | Failure]:
        name, request, folder, transactions = self._asked
        for file in files:
            attempt = _attempt_folder(folder)
            try:
                yield convert_piece(name, file, request, attempt, transactions)
            except (KsegError, OSError) as error:
                _remove(attempt)
                yield failure_of(error)


class _Whole:
    """All segments of a partition."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def __call__(self, partitions: Iterable[list[SegmentFile]]) -> Iterator[Converted | Failure]:
        name, request, folder, _ = self._asked
        for files in partitions:
            attempt = _attempt_folder(folder)
            try:
                yield convert_segments(name, files, request, attempt)
            except (KsegError, OSError) as error:
                _remove(attempt)
                yield failure_of(error)


def _attempt_folder(folder: str | None) -> str | None:
    if folder is None:
        return None
    path = os.path.join(folder, uuid4().hex)
    Disk().make_directory(path)
    return path


def _remove(folder: str | None) -> None:
    if folder is not None:
        Disk().remove_tree(folder)
