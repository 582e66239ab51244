import threading
from collections.abc import Callable

import pytest

from kseg.runtime.threads import Future, Threads


def squares(threads: Threads[list[int]], count: int) -> list[Future[int]]:
    def square(k: int) -> Callable[[list[int]], int]:
        def work(own: list[int]) -> int:
            own.append(k)
            return k * k

        return work

    return [threads.begin(square(k)) for k in range(count)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_piece_is_done_once_and_its_result_is_its_own(count: int) -> None:
    made: list[list[int]] = []

    def make() -> list[int]:
        made.append([])
        return made[-1]

    with Threads(count, make) as threads:
        assert [outcome.result() for outcome in squares(threads, 200)] == [k * k for k in range(200)]
    assert len(made) == count
    assert sorted(k for own in made for k in own) == list(range(200))


def test_the_waiting_thread_works_too_and_one_thread_is_the_caller() -> None:
    before = threading.active_count()
    with Threads(1, threading.get_ident) as threads:
        pieces = [threads.begin(lambda own: own) for _ in range(3)]
        assert {piece.result() for piece in reversed(pieces)} == {threading.get_ident()}
        assert threading.active_count() <= before


def test_the_error_of_a_task_is_raised_by_its_result() -> None:
    def fails(_own: None) -> int:
        raise ZeroDivisionError

    with Threads(1, lambda: None) as threads:
        bad, good = threads.begin(fails), threads.begin(lambda _: 7)
        assert good.result() == 7
        with pytest.raises(ZeroDivisionError):
            bad.result()


def test_an_interrupt_while_another_piece_is_worked_on_is_raised_at_once() -> None:
    def interrupted(_own: None) -> int:
        raise KeyboardInterrupt

    with Threads(1, lambda: None) as threads:
        threads.begin(interrupted)
        asked = threads.begin(lambda _: 7)
        with pytest.raises(KeyboardInterrupt):
            asked.result()


def test_what_was_not_begun_is_dropped() -> None:
    done: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def first(_own: None) -> None:
        begun.set()
        go_on.wait()
        done.append(0)

    threads: Threads[None] = Threads(2, lambda: None)
    threads.begin(first)
    begun.wait()
    for _ in range(5):
        threads.begin(lambda _: done.append(1))
    threading.Timer(0.05, go_on.set).start()
    threads.close()
    assert done == [0]
