"""Compares the two kernels: the outcomes of seeded calls in this process, and in a process with the other kernel.

A case is a function of a random generator. It calls the kernel with bytes and numbers that the generator chooses, many
of them at limits, and returns everything that a caller can see: results, errors, buffers and state.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kseg import kernel

Case = Callable[[Random], object]
OTHER = "python" if kernel.COMPILED else "compiled"
ERRORS = (ValueError, IndexError, OverflowError, TypeError)
LIMITS = (-(1 << 63), -2, -1, 0, 1, 2, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 1 << 62, (1 << 63) - 1)


def number(chance: Random, *near: int) -> int:
    """An int64: one of the limits, or a neighbour of the given numbers."""
    found = chance.choice([*LIMITS, *(value + by for value in near for by in (-1, 0, 1))])
    return min(max(found, -(1 << 63)), (1 << 63) - 1)


def tried(function: Callable[..., object], *arguments: object) -> object:
    """The result of a call, or its error."""
    try:
        return function(*arguments)
    except ERRORS as error:
        return f"{type(error).__name__}: {error}"


def plain(value: object) -> object:
    """The value without differences that no caller depends on: a truth is a number, a buffer its contents."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, memoryview):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def printed_by_other(code: str) -> str:
    """Runs Python code, which can import modules of tests, with the other kernel. Returns what it prints."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "KSEG_KERNEL": OTHER, "PYTHONPATH": os.pathsep.join(paths)}
    checked = f"from kseg import kernel; assert kernel.COMPILED is {not kernel.COMPILED}\n{code}"
    done = subprocess.run([sys.executable, "-c", checked], env=environment, capture_output=True, text=True, check=False)
    if "KernelError" in done.stderr and not kernel.COMPILED:
        pytest.skip("the kernel is not compiled here: there is nothing to compare with")
    assert done.returncode == 0, done.stderr
    return done.stdout
