"""A caller of the Python interface passes mypy --strict."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA

# Arguments of a wrong type are errors of kseg that name them; what is like a right one is taken as such.

FUNCTIONS = (
    kseg.open, kseg.scan, kseg.verify, kseg.recover, kseg.reindex, kseg.compact, kseg.retain, kseg.convert, kseg.undo,
    kseg.writer,
)  # fmt: skip
CHANGE = ("era", "now", "keep", "output")
NAMED = {
    kseg.recover: CHANGE, kseg.reindex: CHANGE, kseg.compact: CHANGE, kseg.retain: CHANGE, kseg.convert: CHANGE[2:],
    kseg.scan: ("private_keys", "max_batch_bytes"),
}  # fmt: skip
NEEDED = {kseg.convert: {"codec": "zstd"}}
WRONG = (5, 2.8, object(), [5], {}, b"x", "x", {"x": 5}, [None])


def arguments() -> Iterator[Any]:
    for function in FUNCTIONS:
        parameters = signature(function).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind != Parameter.VAR_KEYWORD]
        for name in (*names, *NAMED.get(function, ())):
            yield pytest.param(function, name, id=f"{function.__name__}-{name}")


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path / "dplain-0"))


@pytest.mark.parametrize(("function", "name"), [*arguments()])
def test_only_errors_of_kseg_are_raised(function: Callable[..., Any], name: str, partition: Path) -> None:
    if function is kseg.scan:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for value in WRONG:
        try:
            function(**{"path": partition, **NEEDED.get(function, {}), name: value})
        except kseg.KsegError as error:
            assert str(error)  # noqa: PT017 - some of the values are right for some of the arguments


@pytest.mark.parametrize("wrong", [5, b"x", {1: "x"}, [5]])
def test_the_error_names_the_argument(wrong: object, partition: Path) -> None:
    topics: Any = wrong
    with pytest.raises(kseg.RequestError, match=r"^topics="):
        kseg.retain(partition, topics=topics)


def test_a_number_may_be_of_another_library(partition: Path) -> None:
    class Number:
        def __index__(self) -> int:
            return 2**62

    number: Any = Number()
    assert kseg.retain(partition, retention_bytes=number, policy="delete").actions == []


def test_paths_may_come_from_a_generator(partition: Path) -> None:
    once = kseg.open(partition).files
    assert kseg.open(path for path in [partition, str(partition)]).files == once + once
    assert kseg.verify(each for each in [partition]).summary == kseg.verify(partition).summary


def test_a_flag_is_no_number(partition: Path) -> None:
    flag: Any = True
    with pytest.raises(kseg.RequestError, match="index_interval_bytes=True: is no whole number"):
        kseg.reindex(partition, index_interval_bytes=flag)


# The public names of `kseg`: all are there, and importing the package costs nothing.

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


CALLER = """
import kseg

with kseg.open("orders-0") as log:
    for item in log:
        place: tuple[str, str | None, int | None, int] = (item.file, item.topic, item.partition, item.position)
    for record in log.records(offsets=(1, None), time=("2026-01-01", None), on_damage="skip"):
        offset: int = record.offset
        key: bytes | None = record.key
scan: kseg.Scan = kseg.scan("orders-0", columns=["offset"])
splits: list[kseg.Scan] = scan.splits(1 << 20)
findings: list[kseg.Finding] = list(kseg.verify(["a", "b"]).findings)
plan: kseg.Plan = kseg.recover("orders-0", mode="salvage")
result: kseg.Result = plan.apply()
with kseg.writer("new/orders-0", codec="zstd:3") as writer:
    written: int = writer.append(key=b"k", value=None, headers=[("h", b"1")])
    writer.extend(scan)
"""


@pytest.mark.slow
def test_a_caller_passes_mypy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    path = tmp_path / "caller.py"
    path.write_text(CALLER)
    monkeypatch.chdir(TESTDATA.parent)
    out, err, status = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])
    assert (status, err) == (0, ""), out
    path.write_text(CALLER + "kseg.no_such_name\n")
    assert api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])[2] == 1
