"""Which machines and modes the kernel runs in."""

import os
import subprocess
import sys

import pytest


def imported(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A new process that runs ``code`` and then imports the kernel."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KSEG_")}
    command = [sys.executable, "-c", f"import sys\n{code}\nimport kseg.kernel\nprint(kseg.kernel.description())"]
    return subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_big_endian_machine_is_refused() -> None:
    done = imported("sys.byteorder = 'big'")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("kseg needs a little-endian machine, and this one is big-endian")


def test_a_big_endian_machine_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with a compiler missing, where kseg would otherwise run interpreted."""
    setuptools = pytest.importorskip("setuptools")
    from setuptools.errors import PlatformError

    from kseg._build import BuildKernel

    build = BuildKernel(setuptools.Distribution())
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(PlatformError, match="little-endian"):
        build.run()


def test_a_mode_that_does_not_exist_is_refused() -> None:
    done = imported("", KSEG_KERNEL="fast")
    assert done.returncode == 1
    assert "KSEG_KERNEL is 'fast': it may be compiled or python" in done.stderr
    assert imported("", KSEG_KERNEL="python").stdout == "interpreted\n"
