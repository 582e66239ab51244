"""Arguments of a wrong type are errors of kseg that name them; what is like a right one is taken as such."""

import shutil
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA

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
