import os
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from kseg.kernel.files import system
from kseg.kernel.files.system import STEP_BYTES, begin_writing
from kseg.output.sink import open_sink
from kseg.runtime.threads import TASK_BYTES, TASKS_AHEAD, Pipeline, Threads, usable_cores

# The cores of this process, not those of the machine.


def test_only_cores_that_the_scheduler_gives_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("the system knows no affinity")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {3, 7})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert usable_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == 64, "where the system knows no affinity"
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


# Tasks on threads: results in the order of submission, in lists of bounded weight, and few of them waiting.


def squared(number: int) -> Callable[[], int]:
    return lambda: number * number


@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize("weight", [0, 1, TASK_BYTES // 3, TASK_BYTES])
def test_results_come_in_order_whatever_the_weights(jobs: int, weight: int) -> None:
    found: list[int] = []
    with Pipeline(jobs) as pipeline:
        for number in range(50):
            for results in pipeline.submit(squared(number), weight):
                found += results
        for results in pipeline.drain():
            found += results
        assert list(pipeline.drain()) == []
    assert found == [number * number for number in range(50)]


def test_light_tasks_are_done_together_and_heavy_ones_alone() -> None:
    with Pipeline(1) as pipeline:
        assert list(pipeline.submit(squared(1), TASK_BYTES - 1)) == []
        assert list(pipeline.submit(squared(2), 1)) == [[1, 4]]
        assert list(pipeline.submit(squared(3), TASK_BYTES)) == [[9]]


def test_no_more_tasks_wait_than_promised() -> None:
    jobs, go_on = 2, Event()
    with Pipeline(jobs) as pipeline:
        for _ in range(jobs * TASKS_AHEAD):
            assert list(pipeline.submit(go_on.wait, TASK_BYTES)) == []
        go_on.set()
        assert list(pipeline.submit(go_on.wait, TASK_BYTES)) == [[True]], "the next one waits for the first"


def test_each_yields_single_results_and_the_error_of_a_task() -> None:
    def failing() -> int:
        raise ZeroDivisionError

    with Pipeline(2) as pipeline:
        results = pipeline.each([squared(2), squared(3), failing, squared(4)])
        assert [next(results), next(results)] == [4, 9]
        with pytest.raises(ZeroDivisionError):
            next(results)


# Writeback during writing: each range is requested once, and a failed request is ignored, because the later sync
# reports the error.


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Returns the positions and sizes whose writeback was requested."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(system, "begin_writing", lambda _, position, size: asked.append((position, size)))
    return asked


def test_a_large_file_is_written_behind(tmp_path: Path, begun: list[tuple[int, int]]) -> None:
    piece = bytes(STEP_BYTES // 4 + 1)
    with open_sink(str(tmp_path / "out")) as sink:
        for _ in range(10):
            sink.write_view(piece)
    assert begun == [(0, 4 * len(piece)), (4 * len(piece), 4 * len(piece))]
    assert (tmp_path / "out").read_bytes() == 10 * piece


def test_a_small_file_is_not(tmp_path: Path, begun: list[tuple[int, int]]) -> None:
    with open_sink(str(tmp_path / "out")) as sink:
        sink.write(b"some")
    assert not begun


def test_a_failed_writeback_request_is_ignored() -> None:
    begin_writing(-1, 0, STEP_BYTES)
    reading, writing = os.pipe()
    begin_writing(writing, 0, STEP_BYTES)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_piece_is_done_once_and_its_result_is_its_own(count: int) -> None:
    done: list[int] = []

    def square(k: int) -> int:
        done.append(k)
        return k * k

    with closing(Threads(count)) as threads:
        outcomes = [threads.begin(partial(square, k)) for k in range(200)]
        assert [outcome.result() for outcome in outcomes] == [k * k for k in range(200)]
    assert sorted(done) == list(range(200))


def test_the_waiting_thread_works_too_and_one_thread_is_the_caller() -> None:
    before = threading.active_count()
    with closing(Threads(1)) as threads:
        pieces = [threads.begin(threading.get_ident) for _ in range(3)]
        assert {piece.result() for piece in reversed(pieces)} == {threading.get_ident()}
        assert threading.active_count() <= before


def test_an_interrupt_while_another_piece_is_worked_on_is_raised_at_once() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    with closing(Threads(1)) as threads:
        threads.begin(interrupted)
        asked = threads.begin(lambda: 7)
        with pytest.raises(KeyboardInterrupt):
            asked.result()


def test_what_was_not_begun_is_dropped() -> None:
    done: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go_on.wait()
        done.append(0)

    threads = Threads(2)
    threads.begin(first)
    begun.wait()
    for _ in range(5):
        threads.begin(lambda: done.append(1))
    threading.Timer(0.05, go_on.set).start()
    threads.close()
    assert done == [0]
