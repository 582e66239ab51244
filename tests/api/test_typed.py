"""A caller of the Python interface passes mypy --strict."""

import ast
import itertools
import os
import pickle
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
from kseg.errors import errors_at

# Arguments of a wrong type are errors of kseg that name them; what is like a right one is taken as such.

FUNCTIONS = (
    kseg.open, kseg.scan, kseg.verify, kseg.recover, kseg.reindex, kseg.compact, kseg.retain, kseg.convert, kseg.undo,
    kseg.carve, kseg.redact, kseg.quorum, kseg.restore, kseg.writer, kseg.log_writer, kseg.erase, kseg.stats,
    kseg.groups, kseg.transactions, kseg.cluster,
)  # fmt: skip
NEEDED = {
    kseg.carve: {"output": "never"},
    kseg.redact: {"output": "never"},
    kseg.quorum: {"rewrite": True},
    kseg.restore: {"undelete": True},
    kseg.convert: {"codec": "zstd"},
    kseg.erase: {"key": b"never"},
}
HEALTHY = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
WRONG = (5, 2.8, object(), [5], {}, b"x", "x", {"x": 5}, [None])


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HEALTHY, tmp_path / "dplain-0"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_only_errors_of_kseg_are_raised(function: Callable[..., Any], partition: Path) -> None:
    if function is kseg.scan:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for name, value in itertools.product(signature(function).parameters, WRONG):
        try:
            function(**{"path": partition, **NEEDED.get(function, {}), name: value})
        except kseg.KsegError as error:
            assert str(error)  # noqa: PT017 - some of the values are right for some of the arguments


@pytest.mark.parametrize("function", [*FUNCTIONS, kseg.Log.records], ids=lambda each: each.__name__)
def test_every_argument_has_a_name_and_a_default(function: Callable[..., Any]) -> None:
    parameters = [each for each in signature(function).parameters.values() if each.name not in ("self", "path")]
    assert all(each.kind == Parameter.KEYWORD_ONLY and each.default is not Parameter.empty for each in parameters)
    names = {each.name for each in parameters}
    assert {
        "scan": {"live", "max_batch_bytes", "offsets", "key", "topics"}, "records": {"offsets", "on_damage"},
        "recover": {"now", "era", "output", "keep", "topics"}, "compact": {"until_clean", "era"},
        "convert": {"output", "lock", "codec"},
    }.get(function.__name__, set()) <= names  # fmt: skip
    with pytest.raises(TypeError, match="no_such_name"):
        function(no_such_name=1)


@pytest.mark.parametrize("wrong", [5, b"x", {1: "x"}, [5]])
def test_the_error_names_the_argument(wrong: object, partition: Path) -> None:
    topics: Any = wrong
    with pytest.raises(kseg.RequestError, match=r"^topics="):
        kseg.retain(partition, topics=topics)


def records(path: Path, **selection: Any) -> None:
    kseg.open(path).records(**selection)


def scanned(path: Path, **arguments: Any) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    kseg.scan(path, **arguments)


def scanned_and_read(path: Path, **arguments: Any) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    kseg.scan(path, **arguments).to_arrow()


def split(path: Path, size: int) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    kseg.scan(path).splits(size)


@pytest.mark.parametrize(("function", "arguments", "message"), [
    (records, {"offsets": (5, 4)}, "offsets"), (records, {"offsets": 5}, "offsets"),
    (records, {"offsets": ("1", None)}, "offsets"), (records, {"time": ("some day", None)}, "time"),
    (records, {"time": (2, 1)}, "time"), (records, {"key": "text"}, "key"),
    (records, {"isolation": "none"}, "isolation"),
    (records, {"on_damage": "ignore"}, "on_damage"), (split, {"size": 0}, "splits"),
    (scanned, {"columns": ["offsets"]}, "columns"), (scanned, {"columns": []}, "columns"),
    (scanned, {"columns": ["key", "key"]}, "columns"), (scanned, {"isolation": "x"}, "isolation"),
    (scanned, {"on_damage": "show"}, "none of raise, skip, include"), (scanned, {"mode": "rows"}, "mode='rows'"),
    (scanned, {"on_damage": "include", "isolation": "read_committed"}, "read_committed"),
    (scanned, {"on_damage": "include", "mode": "batches"}, "on_damage"),
    (scanned, {"on_damage": "skip", "columns": ["proven"]}, "no column 'proven'"),
    (scanned, {"mode": "commits", "columns": ["value"]}, "no column 'value'; there are group"),
    (scanned, {"mode": "findings", "level": "deeep"}, "level='deeep'"),
    (scanned, {"mode": "entries", "offsets": (1, 2)}, "offsets: not in mode entries"),
    (scanned, {"mode": "batches", "key": b"k"}, "key: not in mode batches"),
    (scanned, {"mode": "commits", "isolation": "read_committed"}, "isolation: not in mode commits"),
    (scanned_and_read, {"mode": "findings", "topics": "nope"}, "nope"),
    (scanned, {"level": "deep"}, "level: not in mode records"),
    (scanned, {"mode": "batches", "now": 3}, "now: not in mode batches"),
    (scanned, {"schemas": "schemas"}, "schemas: needs keys or values"),
    (kseg.verify, {"level": "shallow"}, "level"), (kseg.verify, {"ignore": "no-such-code"}, "no-such-code"),
    (kseg.recover, {"mode": "all"}, "mode"), (kseg.recover, {"drop_undecodable": True}, "salvage"),
    (kseg.recover, {"era": "1999"}, "1999"),
    (kseg.convert, {}, "give to"), (kseg.convert, {"to": "v9"}, "to='v9'"),
    (kseg.convert, {"codec": "brotli"}, "brotli"),
    (kseg.convert, {"codec": "zstd", "to": "v1"}, "zstd"), (kseg.convert, {"to": "parquet"}, "give an output"),
    (kseg.convert, {"from_": "parquet"}, "give an output"), (kseg.convert, {"to": "jsonl"}, "give an output"),
    (kseg.convert, {"to": "csv", "partition_by": "topic", "output": "x"}, "partition-by needs"),
    (kseg.convert, {"to": "parquet", "partition_by": ["topic", "day"], "output": "x"}, "not some of"),
    (kseg.convert, {"to": "parquet", "lossy": True, "output": "x"}, "lossy does not go"),
    (kseg.convert, {"to": "jsonl", "codec": "zstd", "output": "x"}, "does not go"),
    (kseg.convert, {"offsets": (1, 2), "codec": "zstd"}, "needs --output"),
    (kseg.convert, {"offsets": (2, 1), "output": "x"}, "ends before it begins"),
    (kseg.convert, {"to": "parquet", "output": "-"}, "give a path"),
    (kseg.convert, {"to": "v2", "output": "-"}, "give a path"),
    (kseg.convert, {"from_": "xml", "output": "x"}, "is none of"),
    (kseg.convert, {"from_": "parquet", "skip_damage": True, "output": "x"}, "does not go"),
    (kseg.writer, {"codec": "brotli"}, "codec"), (kseg.writer, {"codec": "zstd:99"}, "codec"),
    (kseg.writer, {"segment_bytes": 0}, "segment_bytes=0"), (kseg.writer, {"batch_bytes": 0}, "batch_bytes=0"),
    (kseg.writer, {"first_offset": -1}, "first_offset=-1"),
], ids=lambda each: str(getattr(each, "__name__", each)))  # fmt: skip
def test_arguments_that_mean_nothing_are_refused(
    function: Callable[..., Any], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(kseg.RequestError, match=message) as raised:
        function(HEALTHY, **arguments)
    assert raised.value.exit_status == 2


def test_a_number_may_be_of_another_library(partition: Path) -> None:
    class Number:
        def __index__(self) -> int:
            return 2**62

    number: Any = Number()
    assert kseg.retain(partition, retention_bytes=number, policy="delete").actions == []


def test_a_glob_of_several_paths_is_not_redacted(partition: Path, tmp_path: Path) -> None:
    with pytest.raises(kseg.RequestError, match=r"path=.*matches [0-9]+ paths"):
        kseg.redact(f"{partition}/*", output=tmp_path / "twin")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_path_with_a_lone_surrogate_is_no_path(function: Callable[..., Any]) -> None:
    with pytest.raises(kseg.RequestError, match="path="):
        function(**{**NEEDED.get(function, {}), "path": "\ud800"})


def test_paths_may_come_from_a_generator(partition: Path) -> None:
    once = kseg.open(partition).files
    assert kseg.open(path for path in [partition, str(partition)]).files == once + once
    assert kseg.verify(each for each in [partition]).summary == kseg.verify(partition).summary


def test_flags_and_large_integers_are_no_numbers(partition: Path) -> None:
    flag: Any = True
    with pytest.raises(kseg.RequestError, match="index_interval_bytes=True: is no whole number"):
        kseg.reindex(partition, index_interval_bytes=flag)
    with pytest.raises(kseg.RequestError, match=f"max_batch_bytes={2**63}: is no whole number of 64 bits"):
        kseg.open(partition, max_batch_bytes=2**63)


def test_integers_of_numpy_are_integers(partition: Path, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    integer: Any = numpy.int64
    log, ends = kseg.open(partition), (integer(1), integer(2))
    assert [record.offset for record in log.records(offsets=ends)] == [1, 2]
    first = next(log.records()).timestamp
    assert next(log.records(time=(integer(first), None))).timestamp == first
    with kseg.log_writer(tmp_path / "new") as writer:
        offset = writer.append(topic="a", partition=integer(0), timestamp=integer(5), offset=integer(7))
        assert (type(offset), offset) == (int, 7)
        text: Any = "0"
        with pytest.raises(kseg.RequestError, match="partition='0'"):
            writer.append(topic="a", partition=text)
    scan = kseg.scan(partition)
    assert scan.head(integer(2)).num_rows == 2
    for wrong in (None, 1 << 70, "2", True):
        with pytest.raises(kseg.RequestError, match="num_rows="):
            scan.head(wrong)
        if wrong is not None:
            with pytest.raises(kseg.RequestError, match="batch_size="):
                scan.scanner(batch_size=wrong)


def test_columns_and_filters_of_a_scanner_are_checked(partition: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    scan = kseg.scan(partition)
    for columns in ("offset", ("offset",), iter(["offset"])):
        assert scan.to_table(columns=columns).schema.names == ["offset"]  # type: ignore[arg-type]
    for wrong in ("offset > 3", [("offset", ">", 3)], partition):  # a path is not opened
        with pytest.raises(kseg.RequestError, match="filter="):
            scan.count_rows(filter=wrong)
        with pytest.raises(kseg.RequestError, match="filter="):
            next(scan.get_fragments(filter=wrong))
    with pytest.raises(kseg.RequestError, match="columns="):
        scan.to_table(columns=[5])  # type: ignore[list-item]


# Errors are of the kinds that Python has for them, and survive a pickle.


def kinds_of(kind: type[kseg.KsegError]) -> Iterator[type[kseg.KsegError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from kinds_of(each)


def test_errors_are_those_of_python_too(partition: Path) -> None:
    with pytest.raises(OSError, match="no-such-path"):
        kseg.open(partition / "no-such-path")
    with pytest.raises(ValueError, match="ends before it begins"):
        next(kseg.open(partition).records(offsets=(2, 1)))
    assert issubclass(kseg.UnreadableError, OSError)


def test_every_error_survives_a_pickle() -> None:
    from kseg.cleaner.log import DamagedError
    from kseg.node.cluster_metadata import RefusedRecordError
    from kseg.recovery.replica import ReplicasDivergeError

    errors: list[kseg.KsegError] = [DamagedError("a", 5), RefusedRecordError("a", 5, "why"), ReplicasDivergeError("x")]
    errors += [kseg.DamageError("text", {"an": "item"}), kseg.PathError.with_command("text", "kseg undo x")]
    errors += [kind("text") for kind in kinds_of(kseg.KsegError) if kind.__init__ is kseg.KsegError.__init__]
    for error in [*errors, kseg.PathError("text"), kseg.RequestError("text"), kseg.KsegError()]:
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.args, vars(copy)) == (type(error), str(error), error.args, vars(error))
        assert copy.exit_status == error.exit_status


def test_an_error_of_kseg_is_not_taken_for_one_of_the_system() -> None:
    with pytest.raises(kseg.PathError, match=r"^missing$"), errors_at("place", kseg.StoppedHalfwayError):
        raise kseg.PathError("missing")
    with (
        pytest.raises(kseg.StoppedHalfwayError, match=r"^place: missing$"),
        errors_at("place", kseg.StoppedHalfwayError),
    ):
        raise OSError("missing")
    with (
        pytest.raises(kseg.KsegError, match=r"^place: missing$"),
        errors_at("place", kseg.KsegError, of=kseg.KsegError),
    ):
        raise kseg.PathError("missing")


# The public names of `kseg`: all are there, and importing the package costs nothing.

PLAIN = {**os.environ, "PYTHONPATH": str(Path(kseg.__file__).parent.parent)}


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import kseg; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True, env=PLAIN)
    assert done.stdout.split() == ["kseg"]


def test_the_public_names_are_listed_before_their_first_use() -> None:
    script = "import kseg; print(*(name for name in dir(kseg) if name[0] != '_'))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True, env=PLAIN)
    assert done.stdout.split() == sorted({*kseg._HOMES, "TYPE_CHECKING"})
    assert sorted(kseg.__all__) == sorted({*kseg._HOMES, "__version__"})


def test_type_checkers_see_the_names_that_are_resolved_on_use() -> None:
    """Both are written down by hand: the imports for type checkers, and the table for `__getattr__`."""
    tree = ast.parse(Path(kseg.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
    assert {alias.asname: each.module for each in imports for alias in each.names} == kseg._HOMES
    assert all(alias.asname == alias.name for each in imports for alias in each.names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'scam'"):
        kseg.scam  # noqa: B018


@pytest.mark.parametrize("call", [kseg.open, kseg.scan, kseg.verify, kseg.recover, kseg.undo])
def test_a_path_that_cannot_be_is_a_path_error(call: Callable[[str], object]) -> None:
    with pytest.raises(kseg.PathError, match="no file has such a name"):
        call("orders\0-0")


OUTPUTS: list[Callable[[Any], object]] = [
    kseg.writer, kseg.log_writer, lambda path: kseg.convert(HEALTHY, codec="gzip", output=path),
    lambda path: kseg.reindex(HEALTHY, output=path), lambda path: kseg.compact(HEALTHY, keep=path),
    lambda path: kseg.recover(HEALTHY, mode="salvage", from_replica=path),
    lambda path: kseg.verify(HEALTHY, against=path),
]  # fmt: skip


@pytest.mark.parametrize("call", OUTPUTS)
@pytest.mark.parametrize("path", ["", "a\0-0"], ids=["empty", "nul"])
def test_what_names_no_file_is_no_path(call: Callable[[Any], object], path: str) -> None:
    with pytest.raises(kseg.RequestError, match="is no path"):
        call(path)


def test_an_output_may_be_a_url_of_a_file(tmp_path: Path) -> None:
    kseg.convert(HEALTHY, codec="gzip", output=(tmp_path / "converted").as_uri()).apply()
    kseg.reindex(HEALTHY, index_interval_bytes=100, output=(tmp_path / "indexed").as_uri()).apply()
    with kseg.log_writer((tmp_path / "written").as_uri()) as log:
        log.append(topic="a", partition=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["converted", "indexed", "written"]
    with pytest.raises(kseg.UnsupportedError, match="object stores"):
        kseg.writer("s3://bucket/a-0")


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
live: kseg.Scan = kseg.scan("orders-0", topics="orders*", isolation="read_committed", live=True, time=("-2h", None))
count: int = live.count_rows()
live.to_table(columns=["offset"], filter=None)
live.head(5)
kept: bool = bool(kseg.retain("orders-0", now=5, keep=False, output="new", era="3.9"))
"""
WRONG_WORDS = """
kseg.verify("x", level="deeep")
kseg.recover("x", mode="nonsense")
kseg.scan("x", isolation="read")
kseg.open("x").records(on_damage="raises")
kseg.convert("x", to="v3")
kseg.writer("x-0", codec="zip")
kseg.recover("x", no_such_name=5)
kseg.no_such_name
"""


@pytest.mark.slow
def test_a_caller_passes_mypy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    path = tmp_path / "caller.py"
    path.write_text(CALLER)
    monkeypatch.chdir(TESTDATA.parent)
    out, err, status = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])
    assert (status, err) == (0, ""), out
    path.write_text("import kseg\n" + WRONG_WORDS)
    out = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])[0]
    lines = {int(line.split(":")[1]) for line in out.splitlines() if ": error:" in line}
    assert lines == {2 + number for number in range(1, len(WRONG_WORDS.splitlines()))}, out
