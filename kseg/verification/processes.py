"""Checks the partitions of a log directory in several processes; findings keep the order of the partitions.

Each process takes the next chunk of partitions and sends its findings through its own pipe. The parent reads one pipe
at a time, that of the first unfinished chunk; other processes wait when their pipes are full. So memory is bounded.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from kseg.errors import KsegError
from kseg.runtime.process_pool import Child, Tickets, shared_numbers, wait_for_any
from kseg.stores.buffers import Buffers
from kseg.verification.directories.directory_tree import CheckedPartition, Task, judge_task
from kseg.verification.report import Finding, Report, Totals
from kseg.verification.settings import Advance, CheckSettings

SENT_AT_ONCE = 256
"""Limit of findings and outcomes in one message."""
POLL_SECONDS = 0.2
"""Interval at which the progress of other processes is read."""
LARGEST_CHUNK, CHUNKS_EACH = 32, 8
"""Largest chunk of partitions, and least number of chunks per process; messages cost more than small partitions."""
JudgedItem = Finding | tuple[CheckedPartition, list[tuple[str, str, int]]]
"""An item of a message: a finding, or after those of a partition its outcome with the result of `Report.unshown`."""
ENDED = "a process that judged a partition ended before it was done (was it killed? is there enough memory?)"


def judge_in_processes(
    tasks: list[Task], settings: CheckSettings, report: Report, progress: Advance
) -> Iterator[CheckedPartition]:
    """Yields the outcomes in the order of the tasks, each after its findings were reported. Always ends its
    processes. Raises KsegError if one ended early, and the error of one that failed."""
    count = min(settings.jobs, len(tasks))
    chunk_size = max(1, min(LARGEST_CHUNK, len(tasks) // (count * CHUNKS_EACH)))
    chunks = -(-len(tasks) // chunk_size)
    worker = _Worker(tasks, chunk_size, settings, report.ignored)
    tickets, done = Tickets(chunks), shared_numbers(count)
    if sys.stdout is not None:
        sys.stdout.flush()  # otherwise a forked process would write it again
    processes: list[Child] = []
    reported = 0
    pending = Totals()  # of shown findings of an unfinished partition

    def report_progress() -> None:
        nonlocal reported
        total = sum(done)
        progress(total - reported)
        reported = total

    try:
        for number in range(count):
            processes.append(Child(partial(worker.run, tickets, done, number), processes))
        for item in _collect(chunks, processes, report_progress):
            if isinstance(item, Finding):
                pending.severities[item.severity] += 1
                pending.codes[item.code] += 1
                report.show(item)
                continue
            outcome, unshown = item
            pending = Totals()
            report.take(outcome.totals, unshown)
            yield outcome
        report_progress()
    finally:
        report.take(pending, [])
        for process in processes:
            process.end()


def _collect(chunks: int, processes: list[Child], report_progress: Callable[[], None]) -> Iterator[JudgedItem]:
    """Yields the items in order. A process sends the number of its chunk, then findings and outcomes, and None at its
    end."""
    silent = list(processes)
    announced: dict[int, Child] = {}
    for chunk in range(chunks):
        while chunk not in announced:
            if not silent:
                raise KsegError(ENDED)
            for process in wait_for_any(silent, POLL_SECONDS):
                silent.remove(process)
                try:
                    announced[_received(process)] = process
                except EOFError:  # no chunk was left, or the process was killed
                    if process.has_failed():
                        raise KsegError(ENDED) from None
            report_progress()
        process = announced.pop(chunk)
        try:
            yield from _items_of(process, report_progress)
        except EOFError:
            raise KsegError(ENDED) from None
        silent.append(process)


def _items_of(process: Child, report_progress: Callable[[], None]) -> Iterator[JudgedItem]:
    """Yields the items of one chunk."""
    while True:
        if not wait_for_any([process], POLL_SECONDS):
            report_progress()
            continue
        for item in _received(process):
            if item is None:
                return
            yield item


def _received(process: Child) -> Any:
    """Returns the next message. Raises the error of the process, EOFError if it has ended."""
    message = process.receive()
    if isinstance(message, BaseException):
        raise message
    return message


class _Worker:
    """The work of one process: checks chunks of tasks until none are left."""

    def __init__(self, tasks: list[Task], chunk_size: int, settings: CheckSettings, ignored: frozenset[str]) -> None:
        self._tasks = tasks
        self._chunk_size = chunk_size
        self._settings = settings
        self._ignored = ignored
        self._held: list[JudgedItem | None] = []

    def run(self, tickets: Tickets, done: Any, number: int, send: Callable[[Any], None]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives it too, and ends its processes
        buffers = Buffers(self._settings.max_batch_bytes)

        def progress(count: int) -> None:
            done[number] += count

        def put(item: JudgedItem | None) -> None:
            self._held.append(item)
            if item is None or len(self._held) >= SENT_AT_ONCE:
                send(self._held)
                self._held.clear()

        with suppress(BrokenPipeError):  # the parent has ended
            try:
                while (chunk := tickets.take()) is not None:
                    send(chunk)
                    first = chunk * self._chunk_size
                    # If fewer partitions than processes are left, each process gets several cores.
                    jobs = max(1, self._settings.jobs // min(len(done), len(self._tasks) - first))
                    settings = replace(self._settings, jobs=jobs)
                    for task in self._tasks[first : first + self._chunk_size]:
                        report = Report(put, self._ignored)
                        outcome = judge_task(task, settings, report, progress, buffers)
                        put((outcome, report.unshown()))
                    put(None)
            except (Exception, MemoryError) as error:  # noqa: BLE001 - raised in the parent
                send(error)
