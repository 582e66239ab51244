"""The scripts of kseg-python-recipes(7) run as they are printed, on files with known answers."""

import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA
from kseg.cli.main import main

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("polars", reason="polars is not installed")
pytest.importorskip("duckdb", reason="duckdb is not installed")

COMMITTED = TESTDATA / "kafka-4.3.1/committed"
PAGE = (TESTDATA.parent / "man/kseg-python-recipes.7").read_text("utf-8")
SCRIPTS = dict(re.findall(r"^\.Ss (.*)\n(?:.*\n)*?\.Bd -literal\n((?:.*\n)*?)\.Ed$", PAGE, re.MULTILINE))
HOUR = 3_600_000
START = 1_790_000_000_000 // HOUR * HOUR
COUNT = 40
POISON = 30

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of orders, with a record that is not JSON, a dead-letter topic, and the commits of a broker."""
    archive = tmp_path_factory.mktemp("archive")
    logs = archive / "kafka-logs"
    for partition in COMMITTED.glob("__consumer_offsets-*"):
        shutil.copytree(partition, logs / partition.name)
    for number in (0, 1):
        with kseg.writer(logs / f"orders-{number}") as w:
            for i in range(COUNT):
                order = json.dumps({"id": i, "customer": f"c{i % 5}", "email": f"c{i % 5}@example.org"}).encode()
                is_poison = (number, i) == (0, POISON)
                w.append(key=b"%d" % i, value=b"\xff?" if is_poison else order, timestamp=START + i * HOUR // 10)
    with kseg.writer(logs / "orders-dlq-0") as w:
        for name in (b"DataException", b"DataException", b"SerializationException"):
            error = b"org.apache.kafka.connect.errors." + name
            w.append(
                value=b"{", headers=[("__connect.errors.topic", b"orders"),
                                     ("__connect.errors.exception.class.name", error)],
            )  # fmt: skip
    with kseg.writer(logs / "_schemas-0") as w:
        fields = [{"name": "amount", "type": "long"}, {"name": "who", "type": "string"}]
        schema = json.dumps({"type": "record", "name": "Payment", "fields": fields})
        subject = {"subject": "payments-value", "version": 1}
        w.append(
            key=json.dumps({"keytype": "SCHEMA", "magic": 1} | subject).encode(),
            value=json.dumps(subject | {"id": 7, "schema": schema, "deleted": False}).encode(),
        )
    with kseg.writer(logs / "payments-0") as w:
        for i in range(3):
            w.append(value=b"\0\0\0\0\7" + bytes([2 * i]) + b"\6ann")
    for day, orders in (("monday", "orders-0"), ("tuesday", "orders-1")):
        with tarfile.open(archive / f"{day}.tar.gz", "w:gz") as made:
            made.add(logs / orders, "logs/orders-0")
    return archive


@pytest.fixture
def run(archive: Path) -> Run:
    def run(title: str, at: Path | None = None) -> dict[str, Any]:
        code = SCRIPTS[title].replace("\\e", "\\").replace("\\-", "-").replace("/archive/", f"{at or archive}/")
        names: dict[str, Any] = {}
        exec(compile(code, title, "exec"), names)
        return names

    return run


def test_lag_report(run: Run) -> None:
    report = {(row["group"], row["topic"]): row for row in run("Lag report")["report"].to_dicts()}
    truth = [json.loads(line) for line in (COMMITTED / "truth/committed-offsets.jsonl").read_text("utf-8").splitlines()]
    assert set(report) == {(row["group"], row["topic"]) for row in truth}
    for group in {row["group"] for row in truth if row["topic"] == "orders"}:
        offsets = [row["offset"] for row in truth if (row["group"], row["topic"]) == (group, "orders")]
        assert report[group, "orders"]["lag"] == sum(max(0, COUNT - offset) for offset in offsets)
    assert report["late", "again"]["unknown"] == 1


def test_group_history(run: Run) -> None:
    history = run("Group history")["history"]
    last = {(topic, partition): offset for _, topic, partition, offset in history}
    assert {place for place, offset in last.items() if offset is None} == {("gone", 0), ("again", 0)}
    truth = map(json.loads, (COMMITTED / "truth/committed-offsets.jsonl").read_text("utf-8").splitlines())
    assert {place: offset for place, offset in last.items() if offset is not None} == {
        (row["topic"], row["partition"]): row["offset"] for row in truth if row["group"] == "billing"
    }
    assert len(history) > len(last)


def test_poison_pill(run: Run) -> None:
    ((partition, offset, value, why),) = run("Poison pill")["pills"]
    assert (partition, offset, value) == (0, POISON, b"\xff?")
    assert "decode" in why


def test_dead_letter_audit(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("Dead-letter audit")
    assert capsys.readouterr().out.splitlines() == [
        "2 orders org.apache.kafka.connect.errors.DataException",
        "1 orders org.apache.kafka.connect.errors.SerializationException",
    ]


def test_comparison_of_archives(run: Run) -> None:
    lost = run("Comparison of archives")["lost"]
    assert [(topic, partition, offset, value) for topic, partition, offset, _, value in lost] == [
        ("orders", 0, POISON, b"\xff?")
    ]


def test_test_fixture(run: Run, kseg_log: Any, assert_clean: Any) -> None:
    names = run("Test fixture")
    names["test_total"](names["orders"].__wrapped__(kseg_log), assert_clean)


def test_gate_of_a_ci_server(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def status_of(*at: Path) -> Any:
        with pytest.raises(SystemExit) as ended:
            run("Gate of a CI server", *at)
        return ended.value.code

    assert status_of() == 0
    shutil.copytree(TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0", tmp_path / "kafka-logs/dplain-0")
    assert status_of(tmp_path) == 1
    assert re.search(r"^::error file=.*/dplain-0/.*\.log::crc-mismatch: ", capsys.readouterr().out, re.MULTILINE)


def test_personal_data(run: Run) -> None:
    found = run("Personal data")["found"]
    assert found["orders", "value"] == 2 * COUNT - 1
    assert not any(count for (topic, place), count in found.items() if topic == "orders-dlq" or place != "value")


def test_personal_data_in_keys_and_headers(run: Run, archive: Path) -> None:
    with kseg.writer(archive / "kafka-logs/people-0") as writer:
        writer.append(key=b"ann@example.com", value=b"x")
        writer.append(key=b"k", value=None, headers=[("user", b"ann@example.com"), ("copy", b"bob@example.com")])
        writer.append(key=None, value=b"x", headers=[("ann@example.com", None)])
    found = run("Personal data")["found"]
    assert {place: count for (topic, place), count in found.items() if topic == "people"} == {
        "key": 1, "value": 0, "header": 2,
    }  # fmt: skip


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A topic whose keys are written, deleted, and written again, an hour apart."""
    rows = [(b"7", b"a"), (b"8", b"x"), (b"7", None), (b"9", b"y"), (b"7", b"b"), (b"8", None), (None, b"no key")]
    start = int(datetime(2026, 9, 21, 11, tzinfo=UTC).timestamp() * 1000)
    with kseg.writer(tmp_path / "kafka-logs/orders-0") as writer:
        for hour, (key, value) in enumerate(rows):
            writer.append(key=key, value=value, timestamp=start + hour * HOUR)
    with kseg.writer(tmp_path / "kafka-logs/orders-1") as writer:
        writer.append(key=b"7", value=b"of another partition", timestamp=start)
    return tmp_path


def test_state_at_a_time(run: Run, history: Path) -> None:
    """At 15:00 key 7 is written again, at 14:59 it is deleted; key 8 is deleted at 16:00."""
    other = (b"7", b"of another partition", 0)
    assert sorted(run("State at a time", history)["state"]) == sorted(
        [other, (b"7", b"b", 4), (b"8", b"x", 1), (b"9", b"y", 3)]
    )
    early = SCRIPTS["State at a time"].replace("T15:00", "T14:59").replace("/archive/", f"{history}/")
    names: dict[str, Any] = {}
    exec(early, names)
    assert sorted(names["state"]) == sorted([other, (b"8", b"x", 1), (b"9", b"y", 3)])


def test_versions_of_a_key(run: Run, history: Path) -> None:
    versions = run("Versions of a key", history)["versions"]
    assert [(partition, offset, value) for partition, offset, _, _, value in versions] == [
        (0, 0, b"a"), (0, 2, None), (0, 4, b"b"), (1, 0, b"of another partition"),
    ]  # fmt: skip
    assert [until for *_, until, _ in versions[:3]] == [versions[1][2], versions[2][2], None]


def test_new_keys(run: Run, archive: Path) -> None:
    run("New keys")
    before = [record.value for record in kseg.open(archive / "kafka-logs/orders-1").records()]
    after = list(kseg.open(archive / "rekeyed").records())
    assert sorted(record.value for record in after) == sorted(before)
    assert {record.key for record in after} == {b"c%d" % i for i in range(5)}
    assert all(record.partition == zlib.crc32(record.key) % 4 for record in after)
    assert kseg.verify(archive / "rekeyed").ok


def test_rebuild_from_parquet(run: Run, archive: Path) -> None:
    tables = ["--to", "parquet", "--partition-by", "topic,partition", "-o", str(archive / "tables")]
    arguments = ["convert", *tables, *map(str, (archive / "kafka-logs").glob("orders-[01]"))]
    assert main.main(arguments, standalone_mode=False) in (None, 0)
    run("Rebuild from Parquet")
    assert_same_orders(archive / "kafka-logs", archive / "rebuilt")


def test_delta_lake(run: Run, archive: Path) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    run("Delta Lake")
    assert_same_orders(archive / "kafka-logs", archive / "from-delta")


@pytest.mark.slow
def test_iceberg(run: Run, archive: Path) -> None:
    pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg[sql-sqlite] is not installed")
    run("Iceberg")
    assert_same_orders(archive / "kafka-logs", archive / "from-iceberg")


def assert_same_orders(logs: Path, others: Path) -> None:
    for name in ("orders-0", "orders-1"):
        before, after = (list(kseg.open(place / name).records()) for place in (logs, others))
        assert after == before


def test_avro_into_polars(run: Run) -> None:
    pytest.importorskip("fastavro", reason="fastavro is not installed")
    payments = run("Avro into polars")["payments"]
    assert payments.columns == ["offset", "amount", "who"]
    assert payments["amount"].to_list() == [0, 1, 2]


def test_histogram(run: Run, archive: Path) -> None:
    hours = run("Histogram")["hours"]
    assert {hour: count for hour, (count, _) in hours.items()} == {
        datetime.fromtimestamp(START / 1000 + 3600 * n, UTC): 20 for n in range(4)
    }
    records = kseg.open(f"{archive}/kafka-logs/orders-[01]").records()
    assert sum(size for _, size in hours.values()) == sum(len(record.value or b"") for record in records)


def test_every_script_has_a_test() -> None:
    assert len(SCRIPTS) == PAGE.count(".Ss ")
    assert [title for title in SCRIPTS if "test_" + re.sub(r"\W", "_", title.lower()) not in globals()] == []
