"""Many partitions: one line each from ``kseg verify`` and ``kseg dump --summary``."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

ROUNDS = TESTDATA / "log-directories/4.3.1-rounds/clean"
DAMAGED = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0"
TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
COMPACTED = TESTDATA / "compaction/4.3.1/before/e-idem-0"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A log directory with a damaged partition, and a compacted one that its cleaner has not reached."""
    logs = tmp_path / "logs"
    shutil.copytree(DAMAGED, logs / DAMAGED.name)
    shutil.copytree(COMPACTED, logs / COMPACTED.name)
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\ne-idem 0 0\n")
    return logs


def table(lines: list[str]) -> list[str]:
    """The lines of the table, from its titles on."""
    start = next(i for i, line in enumerate(lines) if line.startswith("PARTITION "))
    return lines[start:]


def test_verify_prints_a_line_for_each_partition(kseg: Kseg, few: Path) -> None:
    outcome = kseg("verify", "--sort", "errors", few)
    title, first, second, total, _, forms, *_ = table(outcome.lines)
    assert title.split() == [
        "PARTITION", "SIZE", "SEGMENTS", "BATCHES", "RECORDS", "FORMATS", "DAMAGED", "ERRORS", "WARNINGS", "OLDEST",
        "NEWEST", "CLEANER",
    ]  # fmt: skip
    assert [first.split()[0], second.split()[0]] == ["dplain-0", "e-idem-0"]
    assert second.rstrip().endswith("due, dirty 100%")
    assert total.startswith("2 partitions ")
    assert forms.split() == ["FORMAT", "CODEC", "BATCHES", "SIZE", "PARTITIONS"]


@pytest.mark.parametrize("level", ["quick", "full", "deep"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_verify_and_summaries_count_the_same(kseg: Kseg, few: Path, level: str, jobs: int) -> None:
    shutil.copytree(TRANSACTIONS, few / TRANSACTIONS.name)
    rows = kseg("verify", "--level", level, "--jobs", jobs, "--sort", "name", "--format", "json", few).objects
    found = [row for row in rows if row["type"] == "partition"]
    assert rows[-1]["type"] == "summary"
    summaries = kseg("dump", "--summary", "--format", "json", few).objects
    assert [row["path"] for row in found] == [row["path"] for row in summaries]
    assert any(summary["controlRecords"] for summary in summaries)
    for row, summary in zip(found, summaries, strict=True):
        for name in (
            "files", "bytes", "batches", "records", "damagedBytes", "leastBaseTimestamp", "maxTimestamp", "cleaner"
        ):  # fmt: skip
            assert row[name] == summary[name], name
        assert row["leastBaseTimestamp"] >= summary["leastTimestamp"], "headers have that of the first record only"
        counted = [(form["format"], form["compression"], form["batches"], form["bytes"]) for form in summary["forms"]]
        assert [tuple(form.values()) for form in row["forms"]] == counted


def test_findings_are_counted_for_each_partition(kseg: Kseg, few: Path) -> None:
    rows = kseg("verify", "--sort", "errors", "--format", "json", few).objects
    counts = {Path(row["path"]).name: (row["errors"], row["warnings"]) for row in rows if row["type"] == "partition"}
    severities = [row["severity"] for row in rows if row["type"] == "finding" and "/dplain-0/" in row["file"]]
    assert counts["dplain-0"] == (severities.count("error"), severities.count("warning"))
    assert counts["dplain-0"][0] > 0


def test_more_than_ten_partitions_are_a_table_at_once(kseg: Kseg, few: Path) -> None:
    assert not any(line.startswith("PARTITION") for line in kseg("verify", few).lines)
    for number in range(1, 10):
        shutil.copytree(COMPACTED, few / f"e-idem-{number}")
    lines = table(kseg("verify", few).lines)
    assert [line.split()[0] for line in lines if line][:4] == ["PARTITION", "dplain-0", "10", "11"]
    assert "10 partitions have no problem: --sort lists them" in lines
    assert len(table(kseg("verify", "--severity", "info", few).lines)) > 12
    min((few / "e-idem-1").glob("*.index")).unlink()
    for severity, listed in (("warning", 1), ("error", 0)):
        assert sum("e-idem" in line for line in table(kseg("verify", "--severity", severity, few).lines)) == listed
    assert not any(row["type"] == "partition" for row in kseg("verify", "--format", "json", few).objects)


def test_damage_before_the_last_segment_makes_a_partition_uncleanable(kseg: Kseg, few: Path) -> None:
    first = min((few / COMPACTED.name).glob("*.log"))
    data = bytearray(first.read_bytes())
    data[8:12] = bytes(4)
    first.write_bytes(data)
    states = []
    for command in (("verify", "--sort", "name"), ("dump", "--summary")):
        rows = kseg(*command, "--format", "json", few).objects
        states += [row["cleaner"]["state"] for row in rows if row.get("cleaner")]
    assert states == [f"uncleanable: bad-length in {first.name}"] * 2


def test_the_clock_decides_on_lags(kseg: Kseg, few: Path) -> None:
    properties = few.parent / "server.properties"
    properties.write_text("log.cleanup.policy=compact\nlog.cleaner.min.compaction.lag.ms=3600000\n")
    (few / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    states = []
    for now in ("2000-01-01", "2100-01-01"):
        options = ("--server-properties", properties, "--now", now, "--sort", "name", "--format", "json")
        rows = kseg("verify", *options, few / COMPACTED.name).objects
        states += [row["cleaner"]["state"] for row in rows if row["type"] == "partition"]
    assert states == ["min.compaction.lag.ms 1 h 0 min", "due, dirty 100%"]


def test_a_summary_tells_what_the_cleaner_waits_for(kseg: Kseg, few: Path) -> None:
    assert "log cleaner" not in kseg("dump", "--summary", few / DAMAGED.name).out.decode()
    assert any(
        line.split() == ["log", "cleaner", "due,", "dirty", "100%"]
        for line in kseg("dump", "--summary", few / COMPACTED.name).lines
    )


@pytest.mark.parametrize("form", ["junit", "html"])
def test_sorting_needs_a_table(kseg: Kseg, few: Path, form: str) -> None:
    assert kseg("verify", "--sort", "name", "--format", form, few).status == 2


@pytest.mark.parametrize("level", ["quick", "full"])
def test_an_open_transaction_holds_the_cleaner(kseg: Kseg, tmp_path: Path, level: str) -> None:
    shutil.copytree(ROUNDS / "txn-5", tmp_path / "txn-5")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ntxn 5 0\n")
    first = kseg("dump", "--open-transactions", "--format", "json", tmp_path).objects[0]["firstOffset"]
    rows = kseg("verify", "--level", level, "--sort", "cleaner", "--format", "json", tmp_path).of_type("partition")
    (row,) = rows
    assert f"open transaction at {first}" in row["cleaner"]["state"]
