"""Plans conversions in place for the partitions that a command names."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from kseg.changes.apply import MARGIN_BYTES, check_free, free_bytes
from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Messages, Reporter
from kseg.changes.journal import Known
from kseg.changes.plan import Plan
from kseg.changes.staging import staging
from kseg.conversion.options import ConversionRequest, ConvertOptions
from kseg.conversion.partition import convert_segments
from kseg.conversion.rewriting import Conversion, Rewritten, copy_owner_to_files, plan_rewriting, rewrite, segments_of
from kseg.logdir.index_interval import IntervalMessages, TopicIntervals
from kseg.logdir.topics import KnownTopics, Topics
from kseg.segment.files import METADATA_TOPIC, SegmentFile, own_name, own_partitions
from kseg.stores import trees

# Checks that the output of a conversion fits on the disk: by an estimate, and if that is too large, by a dry run.

_SAME, _OTHER_FORMAT, _EXPANDED = 1.25, 4, 30
"""Estimated largest growth of segments: with a worse codec, from messages to batches, without compression."""


def check_space_to_rewrite(
    path: str, name: str, files: list[SegmentFile], directory: str | None, request: ConversionRequest
) -> None:
    """Raises KsegError if new segments for all of ``files`` do not fit into the file system of ``path``.

    The other arguments are those of `rewrite`, whose errors can be raised, too.
    """
    growth: float = _SAME if request.magic is None and request.batch_bytes is None else _OTHER_FORMAT
    if request.target is not None and not request.target.codec:
        growth = _EXPANDED
    size = sum(trees.getsize(file.path) for file in files if trees.isfile(file.path))
    if size * growth + MARGIN_BYTES <= free_bytes(path):
        return
    check_free(path, sum(rewrite(name, files, directory, request, None).files.values()))


_MAX_DAMAGES = 20


class ConversionPlanner(Planner):
    """Makes the plans of `kseg convert --in-place`. ``conversion``: converts segments, here or elsewhere."""

    command = "convert"

    def __init__(
        self,
        options: ConvertOptions,
        change: ChangeOptions,
        reporter: Reporter,
        conversion: Conversion = convert_segments,
    ) -> None:
        super().__init__(reporter)
        self._options, self._conversion, self._is_dry = options, conversion, change.is_dry
        self._requests = Requests(options, reporter)

    def plan_partition(self, directory: str, known: Known) -> Iterator[Plan]:
        with ExitStack() as staged:
            yield self._plan(directory, staged)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        named = Topics(self._options.topics).named(directory, own_partitions(directory))
        parts = [path for path in named if not is_left_alone(path, self.reporter)]
        parts = [path for path in parts if os.path.basename(path) not in done]
        request = self._options.request
        if not self._is_dry and request.magic in (0, 1) and not request.is_lossy:
            for path in parts:  # if one is refused for loss of information, none is changed
                rewrite(path, segments_of(path), path, request, None, self._conversion)
        for path in parts:
            with self.failures.of(path), ExitStack() as staged:
                yield self._plan(path, staged)

    def _plan(self, directory: str, staged: ExitStack) -> Plan:
        files, folder, request = segments_of(directory), None, self._requests.of(directory)
        if not self._is_dry:
            check_space_to_rewrite(directory, directory, files, directory, request)
            folder = staged.enter_context(staging(directory)).make_folder()
        made = rewrite(directory, files, directory, request, folder, self._conversion)
        report_losses(directory, made, self.reporter)
        if folder is not None:
            copy_owner_to_files(folder, directory)
        return plan_rewriting(directory, made, folder, self._options.reason)


class Requests:
    """The request for each partition. If no index interval is given, it is that of the topic or the indexes."""

    def __init__(self, options: ConvertOptions, messages: Messages) -> None:
        self._options = options
        self._intervals = TopicIntervals(
            options.interval_bytes, KnownTopics(), IntervalMessages(messages.warning, messages.detail)
        )

    def of(self, directory: str | None) -> ConversionRequest:
        request = self._options.request
        return request if directory is None else replace(request, interval_bytes=self._intervals.of(directory))


def report_losses(name: str, made: Rewritten, messages: Messages) -> None:
    """Reports what was left out or lost."""
    found = made.converted
    for file, damage in found.skipped[:_MAX_DAMAGES]:
        messages.warning(
            f"{file}: {damage.code} at position {damage.position}, {damage.length} bytes left out: {damage.message}"
        )
    if len(found.skipped) > _MAX_DAMAGES:
        messages.warning(f"{name}: {len(found.skipped) - _MAX_DAMAGES} more damaged ranges are left out")
    if found.left_out:
        messages.warning(f"{name}: {found.left_out} batches left out that a read_committed consumer does not see")
    if found.losses:
        messages.warning(f"{name}: lost: {found.losses.sentence()}")
    messages.detail(f"{name}: {found.batches} batches, {found.old_bytes} bytes before, {found.new_bytes} after")


def is_left_alone(path: str, messages: Messages) -> bool:
    """Whether a partition of a log directory is not converted with the others. Reports why."""
    name = os.path.basename(os.path.abspath(path))
    if name.startswith(METADATA_TOPIC + "-"):
        messages.warning(f"{path}: left alone: the log of the cluster's metadata; name it to convert it")
        return True
    if name != own_name(path):
        messages.warning(f"{path}: left alone: a broker has moved or deleted it; name it to convert it")
        return True
    return False
