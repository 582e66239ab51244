"""The cores of this process, not those of the machine."""

import os

import pytest

from kseg.runtime.threads import usable_cores


def test_only_cores_that_the_scheduler_gives_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("the system knows no affinity")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {3, 7})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert usable_cores() == 2


def test_elsewhere_all_cores_count_and_one_if_the_number_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
