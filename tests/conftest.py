"""What all tests share: where the test data lies, which kernel runs, and what the machine can do."""

import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from failing_disk import fail_disk as fail_disk  # a fixture of all tests
from kseg import __version__, kernel

if TYPE_CHECKING:
    from cli.command import Kseg

REPOSITORY = Path(__file__).resolve().parent.parent
TESTDATA = REPOSITORY / "testdata"

# Tests do not wait for the disk: a descriptor is only checked. Those of power failures record the calls themselves.
os.fsync = os.fstat  # type: ignore[assignment]

# No test depends on how fast the machine is at the moment. CI (--hypothesis-profile=repeated) draws the same examples
# each time, so that a red run is about the change; whoever runs the tests by hand draws others. CI also draws many
# (--hypothesis-profile=thorough -m hypothesis).
settings.register_profile("kseg", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
settings.register_profile("repeated", settings.get_profile("kseg"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("repeated"), max_examples=200)
settings.load_profile("kseg")


def pytest_report_header() -> str:
    """The first lines of a run name the kernel, so that a log of CI shows what was tested."""
    return f"kseg {__version__} ({kernel.description()} kernel)"


def pytest_configure(config: pytest.Config) -> None:
    """KSEG_EXPECT_KERNEL=compiled|interpreted stops a run that would test the other one."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A run in the background ignores interrupts, and so would the programs that tests interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # the programs that tests start compile kseg once, elsewhere
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(tempfile.gettempdir(), "kseg-tests-compiled")
    expected = os.environ.get("KSEG_EXPECT_KERNEL")
    if expected not in (None, kernel.description()):
        raise pytest.UsageError(f"KSEG_EXPECT_KERNEL={expected}, but the {kernel.description()} kernel is running")


_OPTIONAL = re.compile(
    r"(?:tests|kseg/spark)/\S+:\d+: in <module>\n(?: .*\n)+E +ModuleNotFoundError: No module named '"
    r"(pyspark|pyarrow|fsspec|s3fs|moto|boto3)[.']"
)
"""An import by a test, or by the source of Spark. Of other modules of kseg none needs these packages to be imported."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Modules of tests that import an optional package are skipped, with the reason, where it is not installed."""
    report = yield
    missing = _OPTIONAL.search(str(report.longrepr)) if report.failed else None
    if missing is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {missing[1]} is not installed")
    return report


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests against real brokers are skipped, with the reason, where Java or Maven is missing. Of a test that is marked
    as sampled(n), only each n-th case is quick: if n has a factor in common with the number of values of a parameter,
    some of these are in no quick case.
    """
    seen = Counter[str]()
    for item in items:
        if (sampled := item.get_closest_marker("sampled")) is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] % sampled.args[0]:
                item.add_marker("slow")
            seen[name] += 1
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if not missing:
        return
    skip = pytest.mark.skip(reason=f"a broker test needs {' and '.join(missing)} on PATH")
    for item in items:
        if item.get_closest_marker("broker"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def testdata() -> Path:
    """The folder of real segments; see testdata/README.md."""
    return TESTDATA


@pytest.fixture
def kseg(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> "Kseg":
    """Runs a command line of kseg in this process: ``kseg("dump", path)``."""
    from cli.command import caller  # Windows has no pty

    monkeypatch.delenv("COLUMNS", raising=False)  # of the terminal that the tests are run in
    return caller(capfdbinary)
