"""Worker processes: what they send, how they end, and the numbers that they share."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kseg.runtime import process_pool
from kseg.runtime.process_pool import Child, Put, Tickets, Work, in_processes, shared_numbers, wait_for_any

METHODS = ["fork", "spawn"] if sys.platform == "linux" else ["spawn"]


@pytest.fixture(params=METHODS, autouse=True)
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "START_METHOD", request.param)


class Taking:
    """Takes all tickets it can get, sends them, and adds them to a shared number."""

    def __init__(self, tickets: Tickets, total: Any, row: int) -> None:
        self.tickets, self.total, self.row = tickets, total, row

    def __call__(self, send: Callable[[Any], None]) -> None:
        while (number := self.tickets.take()) is not None:
            self.total[self.row] += number
            send(number)


def send_and_fail(send: Callable[[Any], None]) -> None:
    send("half")
    raise SystemExit(3)


def send_and_die(send: Callable[[Any], None]) -> None:
    send(os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


def send_without_end(send: Callable[[Any], None]) -> None:
    while True:
        send(bytes(1 << 16))


def messages(child: Child) -> list[Any]:
    found = []
    while True:
        try:
            found.append(child.receive())
        except EOFError:
            return found


def test_each_ticket_is_taken_once() -> None:
    tickets, totals = Tickets(100), shared_numbers(2)
    children: list[Child] = []
    for row in range(2):
        children.append(Child(Taking(tickets, totals, row), children))
    sent = [messages(child) for child in children]
    assert sorted(sent[0] + sent[1]) == list(range(100))
    assert list(totals) == [sum(sent[0]), sum(sent[1])]
    assert [child.has_failed() for child in children] == [False, False]
    assert tickets.take() is None
    for child in children:
        child.end()


def put_twice(_: int) -> Work:
    def work(task: int, put: Put) -> None:
        put((task, "first"))
        put((task, "second"))

    return work


@pytest.mark.parametrize("tasks", [0, 1, 3, 131, 2001])  # one a chunk, several, and the most
def test_items_come_in_the_order_of_the_tasks(tasks: int) -> None:
    items = list(in_processes(2, tasks, put_twice, "ended"))
    assert items == [(task, text) for task in range(tasks) for text in ("first", "second")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("work", [send_and_fail, send_and_die])
def test_a_process_that_fails_says_so_after_what_it_sent(work: Callable[[Callable[[Any], None]], None]) -> None:
    child = Child(work, [])
    assert wait_for_any([child], 60) == [child]
    assert len(messages(child)) == 1
    assert child.has_failed()
    child.end()


def test_a_process_is_ended_while_it_sends() -> None:
    child = Child(send_without_end, [])
    assert len(child.receive()) == 1 << 16
    child.end()
    with pytest.raises(ProcessLookupError):
        os.kill(child.process_id, 0)
