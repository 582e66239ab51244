"""The command line as a fixture."""

import pytest

from .command import Kseg, caller


@pytest.fixture
def kseg(capfdbinary: pytest.CaptureFixture[bytes]) -> Kseg:
    """Runs a command line of kseg in this process: ``kseg("dump", path)``."""
    return caller(capfdbinary)
