"""Tasks on threads: results in the order of submission, in lists of bounded weight, and few of them waiting."""

from collections.abc import Callable
from threading import Event

import pytest

from kseg.runtime.threads import TASK_BYTES, TASKS_AHEAD, Pipeline


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
