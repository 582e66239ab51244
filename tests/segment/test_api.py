"""The documented Python API: `kseg.open`, and the fields of items, batches and records."""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kseg
from kseg.errors import KsegError, PathError, UnsupportedError
from kseg.segment import Header, Problem
from kseg.segment.problems import DAMAGE_CODES, PROBLEM_CODES
from kseg.stores.source import open_source
from segment.segments import SAMPLES, TESTDATA

ROOT = TESTDATA.parent
TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
LENGTH_ZERO = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0"
OLD = TESTDATA / "kafka-0.7.2/direct/nested-0"
ANY = [*(TESTDATA / name for name in SAMPLES.values()), OLD, LENGTH_ZERO]


def batches(path: Path) -> list[kseg.Batch]:
    return [item for item in kseg.open(path) if isinstance(item, kseg.Batch)]


@pytest.mark.parametrize("path", ANY, ids=lambda path: path.parent.name)
def test_attributes_have_the_types_of_the_documentation(path: Path) -> None:
    for item in kseg.open(path):
        assert type(item.position) is type(item.end) is int
        if isinstance(item, kseg.Damage):
            assert item.code in DAMAGE_CODES
            assert type(item.length) is int
            assert item.message
            continue
        assert isinstance(item, kseg.Batch)
        assert type(item.size) is type(item.magic) is type(item.last_offset) is type(item.next_offset) is int
        assert item.base_offset is None or type(item.base_offset) is int
        assert type(item.is_valid) is type(item.is_control) is type(item.is_transactional) is bool
        assert item.compression in ("none", "gzip", "snappy", "lz4", "zstd")
        assert item.timestamp_type in ("NoTimestampType", "CreateTime", "LogAppendTime")
        assert type(item.max_timestamp) is int
        assert all(isinstance(problem, Problem) for problem in item.check())
        assert {problem.code for problem in item.check()} <= PROBLEM_CODES
        assert type(item.data) is bytes
        assert len(item.data) == item.size
        for record in item:
            check_record(record)


def check_record(record: kseg.Record) -> None:
    assert isinstance(record, kseg.Record)
    assert type(record.offset) is int
    assert record.timestamp is None or type(record.timestamp) is int
    assert (record.timestamp is None) == (record.timestamp_type is None)
    assert record.timestamp_type in (None, "CreateTime", "LogAppendTime")
    assert record.key is None or type(record.key) is bytes
    assert record.value is None or type(record.value) is bytes
    assert type(record.headers) is tuple
    assert all(isinstance(header, Header) and type(header.key) is bytes for header in record.headers)
    assert record.sequence is None or record.sequence >= 0
    assert type(record.is_valid) is bool
    assert record.next_offset is None or type(record.next_offset) is int


@pytest.mark.parametrize("path", ANY, ids=lambda path: path.parent.name)
def test_items_tile_each_file_and_hold_its_bytes(path: Path) -> None:
    log = kseg.open(path)
    assert log.files
    for file in log.files:
        data = Path(file.path).read_bytes()
        at = 0
        for item in log.items(file):
            assert item.position == at
            if isinstance(item, kseg.Batch):
                assert item.data == data[at : item.end]
            at = item.end
        assert at == len(data)


def test_records_are_those_of_all_batches_in_order() -> None:
    log = kseg.open(TXN)
    records = list(log.records())
    assert records == [record for batch in batches(TXN) for record in batch]
    assert [record.offset for record in records] == list(range(36))
    assert records[1].value == b""
    assert records[2].value is None
    assert records[3].key is None
    assert records[7].headers == (Header(b"trace", b"1"),)
    assert list(log.records()) == records, "a log can be read again"


def test_path_is_text_or_like_a_path() -> None:
    assert list(kseg.open(str(TXN)).records()) == list(kseg.open(TXN).records())


def test_items_outlive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes((TXN / "00000000000000000000.log").read_bytes())
    (batch,) = batches(path)
    path.unlink()
    assert [record.offset for record in batch] == [0, 1, 2, 3, 4]
    assert [record.offset for record in batch] == [0, 1, 2, 3, 4]


def test_what_cannot_be_read_raises(tmp_path: Path) -> None:
    (tmp_path / "0.index").write_bytes(b"")
    for path, error in (
        (tmp_path / "missing", PathError),
        (tmp_path, PathError),
        (tmp_path / "0.index", UnsupportedError),
    ):
        with pytest.raises(error) as raised:
            kseg.open(path)
        assert isinstance(raised.value, KsegError)
        assert str(path) in str(raised.value)


def test_bad_bytes_raise_nothing() -> None:
    damaged = sorted(path for path in TESTDATA.glob("damaged/*/*-[0-9]*/*") if path.suffix in (".log", ".kafka"))
    assert len(damaged) > 30
    for path in damaged:
        for item in kseg.open(path):
            if isinstance(item, kseg.Batch):
                item.check()
                list(item)


def test_a_batch_too_large_has_a_problem_and_no_records() -> None:
    path = TESTDATA / SAMPLES["v0-gzip"]
    items = list(kseg.open(path, max_batch_bytes=10))
    assert {problem.code for item in items for problem in item.check()} == {"decompression-limit"}
    assert [list(item) for item in items] == [[]] * len(items)


def test_live_leaves_out_a_partial_batch_at_the_end() -> None:
    path = TESTDATA / "damaged/4.3.1-last-trunc-half-batch/dplain-0"
    quiet, live = list(kseg.open(path)), list(kseg.open(path, live=True))
    assert isinstance(quiet[-1], kseg.Damage)
    assert [item.position for item in live] == [item.position for item in quiet[:-1]]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_iteration_that_is_given_up_holds_no_file() -> None:
    before = open_descriptors()
    for _ in range(10):
        next(iter(kseg.open(TXN)))
    gc.collect()
    assert open_descriptors() == before


def test_a_source_may_be_closed_while_its_bytes_are_looked_at(tmp_path: Path) -> None:
    """As the frames of a raised exception hold them."""
    path = tmp_path / "0.log"
    path.write_bytes(b"k" * 100)
    with open_source(str(path)) as source:
        view = source.buffer[10:20]
    assert bytes(view) == b"k" * 10
    del view
    with open_source(str(path)) as source:
        assert len(source.buffer) == 100


def test_more_segments_may_be_open_than_can_be_guarded(tmp_path: Path) -> None:
    script = """
import resource, sys
import kseg
limit = 1200
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * limit), hard))
readers = [iter(kseg.open(sys.argv[1])) for _ in range(limit)]
assert {next(reader).last_offset for reader in readers} == {4}
assert {next(reader).last_offset for reader in readers} == {5}
"""
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(segment.read_bytes() for segment in sorted(TXN.glob("*.log"))))
    environment = {**os.environ, "PYTHONPATH": str(Path(kseg.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", script, str(path)], env=environment, check=True, timeout=120)


def test_the_lines_of_the_readme_run_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (ROOT / "README.md").read_text("utf-8").split("\n## Python\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "orders-0").symlink_to(LENGTH_ZERO)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert "bad-length 7129 305" in shown
    assert len(shown) == 6
    assert shown[0].startswith("116 [(116, 1790000")
