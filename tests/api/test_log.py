"""`kseg.open`: items that tile each file, and the records that a consumer sees."""

import gc
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import tzset

import pytest

import kseg
from api.consumed import CONSUMED, id_of, partition_of, rows_of
from kseg.errors import KsegError, PathError, UnsupportedError
from kseg.quantities import show_time
from kseg.segment.files import parse_partition_name
from kseg.segment.items import DAMAGE_CODES, PROBLEM_CODES, Problem
from segment.segments import SAMPLES, TESTDATA

ROOT = TESTDATA.parent
TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
LENGTH_ZERO = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0"
MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0"
OLD = TESTDATA / "kafka-0.7.2/direct/nested-0"
ANY = [*(TESTDATA / name for name in SAMPLES.values()), OLD, LENGTH_ZERO]


def batches(path: Path) -> list[kseg.Batch]:
    return [item for item in kseg.open(path) if isinstance(item, kseg.Batch)]


def test_a_log_can_be_pickled() -> None:
    log = kseg.open(TESTDATA / "log-directories/4.3.1/logs/dplain-0", max_batch_bytes=1 << 20)
    copy = pickle.loads(pickle.dumps(log))
    assert copy.files == log.files
    assert [record.offset for record in copy.records()] == [record.offset for record in log.records()]


def test_a_batch_has_the_fields_of_its_header() -> None:
    found = [
        (each.leader_epoch, each.crc, each.producer_id, each.producer_epoch, each.base_sequence, each.record_count)
        for each in batches(TXN)
    ]
    fields = [struct.unpack_from(">8x4xixI2x4x8x8xqhii", each.data) for each in batches(TXN)]
    assert found == [tuple(None if value == -1 else value for value in row) for row in fields]
    assert all(row[2] is not None for row in found)
    (old,) = {(each.producer_id, each.leader_epoch, each.record_count) for each in batches(OLD)}
    assert old == (None, None, None)


@pytest.mark.parametrize("path", ANY, ids=lambda path: path.parent.name)
def test_attributes_have_the_types_of_the_documentation(path: Path) -> None:
    for item in kseg.open(path):
        assert type(item.position) is type(item.end) is int
        assert (item.topic, item.partition) == parse_partition_name(path.parent.name if path.is_file() else path.name)
        assert Path(item.file).is_file()
        assert len(repr(item)) < 200
        assert "\n" not in repr(item)
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
        assert item.timestamp_type in (None, "CreateTime", "LogAppendTime")
        assert item.max_timestamp is None or type(item.max_timestamp) is int
        assert all(isinstance(problem, Problem) for problem in item.check())
        assert {problem.code for problem in item.check()} <= PROBLEM_CODES
        assert type(item.data) is bytes
        assert len(item.data) == item.size
        copy = pickle.loads(pickle.dumps(item))
        assert (repr(copy), list(copy), copy.check()) == (repr(item), list(item), item.check())
        for record in item:
            check_record(record)


def check_record(record: kseg.Record) -> None:
    assert isinstance(record, kseg.Record)
    assert type(record.offset) is int
    assert record.timestamp is None or type(record.timestamp) is int
    assert record.timestamp_type in (None, "CreateTime", "LogAppendTime")
    assert record.key is None or type(record.key) is bytes
    assert record.value is None or type(record.value) is bytes
    assert type(record.headers) is list
    assert all(type(key) in (str, bytes) for key, _ in record.headers)


def test_records_know_their_place_and_their_fields() -> None:
    with kseg.open(TXN) as log:
        records = list(log.records())
        assert list(log.records()) == records, "a log can be read again"
    of_batches = [record for batch in batches(TXN) if not batch.is_control for record in batch]
    assert records == of_batches
    assert {(record.topic, record.partition) for record in records} == {("librdkafka-txn", 0)}
    assert records[1].value == b""
    assert records[2].value is None
    assert records[3].key is None
    headers = [record.headers for record in records if record.headers]
    assert headers[0] == [("trace", b"1")]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("consumed", CONSUMED, ids=id_of)
def test_records_are_those_of_a_consumer(consumed: Path, isolation: str) -> None:
    truth = consumed.with_name(f"{isolation}.jsonl.gz")
    expected = rows_of(truth if truth.exists() else consumed)
    begin = rows_of(consumed)[0]["offset"]
    log = kseg.open(partition_of(consumed))
    found = [
        {name: getattr(record, name) for name in ("offset", "timestamp", "key", "value")}
        | {"headers": [value for _, value in record.headers]}
        for record in log.records(offsets=(begin, None), isolation=isolation)
    ]
    assert found == expected


def test_records_are_filtered() -> None:
    log = kseg.open(MIXED)
    everything = list(log.records())
    stamps = sorted(record.timestamp for record in everything if record.timestamp is not None)
    early, late = stamps[len(stamps) // 3], stamps[2 * len(stamps) // 3]
    timed = [record for record in everything if record.timestamp is not None and early <= record.timestamp <= late]
    assert timed
    assert len(timed) < len(everything)
    moment = datetime.fromtimestamp(early / 1000, UTC)
    for time in ((early, late), (moment, late), (show_time(early), show_time(late))):
        assert list(log.records(time=time)) == timed
    days = tuple(f"{show_time(stamp)[:10]}Z" for stamp in (stamps[0], stamps[-1]))
    assert sorted(record.timestamp or 0 for record in log.records(time=days)) == stamps, "the last day is included"
    assert [record.offset for record in log.records(offsets=(3, 5))] == [3, 4, 5]
    assert [record.offset for record in log.records(offsets=(None, 2))] == [0, 1, 2]
    key = next(record.key for record in everything if record.key)
    assert list(log.records(key=key)) == [record for record in everything if record.key == key]


@pytest.mark.parametrize(
    ("case", "kind"), [("4.3.1-last-flip-body", kseg.Batch), ("4.3.1-last-length-zero", kseg.Damage)]
)
def test_damage_is_raised_with_its_item(case: str, kind: type, caplog: pytest.LogCaptureFixture) -> None:
    log = kseg.open(TESTDATA / "damaged" / case / "dplain-0")
    bad = [item for item in log if isinstance(item, kseg.Damage) or not item.is_valid]
    good = [r for item in log if isinstance(item, kseg.Batch) and item.is_valid for r in item]
    records = log.records()
    with pytest.raises(kseg.DamageError) as raised:
        list(records)
    item = raised.value.item
    assert isinstance(item, kind)
    assert isinstance(item, kseg.Batch | kseg.Damage)
    assert repr(item) == repr(bad[0])
    assert str(item.position) in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), repr(again.item), again.exit_status) == (str(raised.value), repr(item), 3)
    assert not caplog.records
    assert list(log.records(on_damage="skip")) == good
    assert [str(bad[0].position) in entry.message for entry in caplog.records] == [True]


def test_several_paths_and_globs_are_read_in_order(tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        shutil.copytree(TXN, tmp_path / name)
    one = [record.offset for record in kseg.open(TXN).records()]
    several = kseg.open([tmp_path / "a-0", tmp_path / "b-0"])
    assert [record.offset for record in several.records()] == one + one
    assert kseg.open(tmp_path / "*-0").files == several.files
    assert "and 1 more" in repr(several)
    with pytest.raises(PathError, match="matches nothing"):
        kseg.open(tmp_path / "c-*")
    with pytest.raises(kseg.RequestError, match="no path"):
        kseg.open([])


def test_a_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = [record.timestamp for record in kseg.open(TXN).records() if record.timestamp is not None]
    moment = datetime.fromtimestamp(stamps[len(stamps) // 2] / 1000, UTC)
    monkeypatch.setenv("TZ", "America/New_York")
    tzset()
    try:
        here = moment.astimezone().replace(tzinfo=None)
        shown = here.isoformat(" ", "milliseconds")
        counts = [len(list(kseg.open(TXN).records(time=(given, None)))) for given in (moment, here, shown)]
    finally:
        monkeypatch.undo()
        tzset()
    assert counts[0] == counts[1] == counts[2] == sum(each >= round(moment.timestamp() * 1000) for each in stamps)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_the_ends_of_datetime_are_times(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    timed = [record for record in kseg.open(TXN).records() if record.timestamp is not None]
    with monkeypatch.context() as changed:
        changed.setenv("TZ", zone)
        tzset()
        for time in ((datetime.min, None), (None, datetime.max), (datetime.min.replace(tzinfo=UTC), datetime.max)):
            assert [*kseg.open(TXN).records(time=time)] == timed
    tzset()


def test_times_of_pandas() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    times = datetime(2020, 1, 1), pd.Timestamp(2020, 1, 1), pd.Timestamp(datetime(2020, 1, 1).astimezone(UTC))
    counts = [len([*kseg.open(TXN).records(time=(each, None))]) for each in times]
    assert counts[0] == counts[1] == counts[2] > 0
    with pytest.raises(kseg.RequestError, match="NaT is no time"):
        kseg.open(TXN).records(time=(pd.NaT, None))


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


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_iteration_that_is_given_up_holds_no_file() -> None:
    gc.collect()
    before = open_descriptors()
    for _ in range(10):
        next(iter(kseg.open(TXN)))
    gc.collect()
    assert open_descriptors() == before


@pytest.mark.slow
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


def test_readme_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    section = (ROOT / "README.md").read_text("utf-8").split("\n## Python\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "orders-0").symlink_to(LENGTH_ZERO)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert "bad-length 7129 305" in shown
    assert len(shown) == 6
    assert shown[0].startswith("116 [(116, 1790000")


def test_bad_bytes_raise_nothing() -> None:
    for path in sorted(path for path in TESTDATA.glob("damaged/*/*-[0-9]*/*") if path.suffix in (".log", ".kafka")):
        for item in kseg.open(path):
            if isinstance(item, kseg.Batch):
                item.check()
                list(item)
