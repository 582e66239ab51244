"""The base class of all changing commands: a planner makes the plans, `kseg.changes.driver.path_run` applies them."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kseg.changes.apply import Keeping
from kseg.changes.driver.reporter import Failures, Reporter
from kseg.changes.journal import Known
from kseg.changes.plan import Plan
from kseg.errors import KsegError
from kseg.segment.files import own_name


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options that all changing commands share.

    ``is_dry``: plans are made and reported, and nothing is changed. ``output``: directory for the resulting partitions;
    the PATHs themselves are only read then. ``links``: as in `write_copy`.
    """

    is_dry: bool = False
    takes_lock: bool = True
    keeping: Keeping = field(default_factory=Keeping)
    output: str | None = None
    links: bool = False


class Planner:
    """Makes the plans of one command, for all of its PATHs. Plans are made from ``known``, not from the log directory's
    own files.
    """

    command = ""
    """Name in manifests and lists, such as ``recover --mode broker``. Its first word identifies the command."""
    root_names: tuple[str, ...] = ()
    """Files of a log directory that plans depend on or change."""
    at_once = 1
    """How many partitions of a log directory may be changed together."""
    reads_all_files = False
    """Whether segments under names that brokers do not give are read as well."""
    with_root = False
    """Whether `plan_root` also applies to the log directory of a single partition given as PATH."""
    keeps_marker = False
    """Whether the clean shutdown marker stays, because no .log changes."""
    damage_errors: tuple[type[KsegError], ...] = ()
    """Errors by which a damaged partition stays as it is."""
    damage_remains = False
    """Whether damage was found that the plans do not repair."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.failures = Failures(reporter)
        """Partitions of a log directory that could not be planned or changed: `plan_root` must leave them out."""
        self.left_alone: list[str] | None = None
        """Partitions that stay as they are because they are not damaged, if the command looks for such."""

    def plan_partition(self, directory: str, known: Known) -> Plan | Iterator[Plan]:
        """Plans a single partition given as PATH; ``known``: the files of its log directory.

        Several plans, or a plan that needs staged files until it is applied, are returned as an iterator; each is
        applied before the next is requested.
        """
        raise NotImplementedError

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        """Yields a plan for each partition; each is applied before the next is requested, but with `at_once` above 1,
        so many may be unfinished.

        ``done``: names of partitions that an interrupted run has changed. A partition that cannot be planned, or whose
        plan cannot be applied, is added to `failures`; the others are still planned.
        """
        raise NotImplementedError

    @contextmanager
    def attempt(self, path: str) -> Iterator[None]:
        """Reports the errors of planning a partition of a log directory, so that the others are planned."""
        with self.failures.of(path):
            try:
                yield
            except self.damage_errors as error:
                self.reporter.error(error)
                self.damage_remains = True

    def planned(self, paths: Iterable[str], plan: Callable[[str], Plan | None]) -> Iterator[Plan]:
        """Yields the plans of partitions of a log directory, None for one left alone. All are made before the first is
        applied: an unreadable partition must not stop the others half-way."""
        plans = []
        for path in paths:
            with self.attempt(path):
                plans.append(plan(path))
        yield from (found for found in plans if found is not None)

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        """Plans the files of the log directory, after all partitions: new contents only, and not the marker."""
        return Plan(directory)

    def name_of_copy(self, directory: str, is_single: bool) -> str:
        """Returns the name of a partition in the output. ``is_single``: the user named the partition."""
        return own_name(directory) if is_single else os.path.basename(directory)

    def root_of_copy(self) -> dict[str, bytes] | None:
        """Returns the contents of the files beside the partitions in the output, None if they are as in the source."""
        return None

    def conclusion(self) -> list[str]:
        """Returns sentences about all partitions together, after the last path."""
        return []
