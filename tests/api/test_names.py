"""The public names of `kseg`: all are there, and importing the package costs nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kseg

PLAIN = {**os.environ, "PYTHONPATH": str(Path(kseg.__file__).parent.parent)}


@pytest.mark.parametrize("name", kseg.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    found = getattr(kseg, name)
    assert name in dir(kseg)
    if name != "__version__":
        assert found.__doc__


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import kseg; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True, env=PLAIN)
    assert done.stdout.split() == ["kseg"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'scam'"):
        kseg.scam  # noqa: B018


@pytest.mark.parametrize("call", [kseg.open, kseg.scan, kseg.verify, kseg.recover, kseg.undo])
def test_a_path_that_cannot_be_is_a_path_error(call: Callable[[str], object]) -> None:
    with pytest.raises(kseg.PathError, match="no file has such a name"):
        call("orders\0-0")
