"""The command line as a fixture."""

import pytest

from cli.command import Kseg, caller


@pytest.fixture
def kseg(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Kseg:
    """Runs a command line of kseg in this process: ``kseg("dump", path)``."""
    monkeypatch.delenv("COLUMNS", raising=False)  # of the terminal that the tests are run in
    return caller(capfdbinary)
