"""``kseg verify`` from the command line: exit codes, streams, options, and paths of all kinds."""

import gzip
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cli.command import LOGS_4_4, PLAIN, TESTDATA, ZEROED, Kseg, copying, findings_of, flip, spawned
from kseg import writer
from kseg.cli.main import run
from kseg.findings.table import KINDS

# Many partitions: one line each from ``kseg verify`` and ``kseg stats``.

ROUNDS = TESTDATA / "log-directories/4.3.1-rounds/clean"
TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
COMPACTED = TESTDATA / "compaction/4.3.1/before/e-idem-0"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A log directory with a damaged partition, and a compacted one that its cleaner has not reached."""
    logs = tmp_path / "logs"
    shutil.copytree(ZEROED, logs / ZEROED.name)
    shutil.copytree(COMPACTED, logs / COMPACTED.name)
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\ne-idem 0 0\n")
    return logs


def table(lines: list[str]) -> list[str]:
    """The lines of the table, from its titles on."""
    start = next(i for i, line in enumerate(lines) if line.startswith("PARTITION "))
    return lines[start:]


@pytest.mark.parametrize("spelling", ["", "/", "/.", "/../dplain-0"])
def test_a_line_of_a_partition_begins_with_its_name(kseg: Kseg, spelling: str) -> None:
    assert table(kseg("verify", "--sort", "name", f"{CLEAN}{spelling}").lines)[1].startswith("dplain-0 ")


@pytest.mark.parametrize("level", ["quick", "full", "deep"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_verify_and_summaries_count_the_same(kseg: Kseg, few: Path, level: str, jobs: int) -> None:
    shutil.copytree(TRANSACTIONS, few / TRANSACTIONS.name)
    rows = kseg("verify", "--level", level, "--jobs", jobs, "--sort", "name", "--format", "json", few).objects
    found = [row for row in rows if row["type"] == "partition"]
    assert rows[-1]["type"] == "summary"
    summaries = kseg("stats", "--format", "json", few).objects
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


@pytest.mark.parametrize("command", [("verify", "--sort", "name"), ("stats",)])
@pytest.mark.parametrize("name", ["", COMPACTED.name])
def test_a_place_that_is_named_twice_counts_once(kseg: Kseg, few: Path, command: tuple[str, ...], name: str) -> None:
    once = kseg(*command, "--format", "json", few / name)
    assert kseg(*command, "--format", "json", few / name, f"{few / name}/") == once


def test_more_than_ten_partitions_are_a_table_at_once(kseg: Kseg, few: Path) -> None:
    assert not any(line.startswith("PARTITION") for line in kseg("verify", few).lines)
    for number in range(1, 10):
        shutil.copytree(COMPACTED, few / f"e-idem-{number}")
    lines = table(kseg("verify", few).lines)
    assert [line.split()[0] for line in lines if line][:4] == ["PARTITION", "dplain-0", "10", "11"]
    assert "10 partitions have no problem: --sort lists them" in lines
    assert len(table(kseg("verify", "--severity", "info", few).lines)) > 12
    for command in ("verify", "stats"):  # the directory that holds log directories stands for them
        assert len(table(kseg(command, few.parent).lines)) == len(table(kseg(command, few).lines))
    min((few / "e-idem-1").glob("*.index")).unlink()
    for severity, listed in (("warning", 1), ("error", 0)):
        assert sum("e-idem" in line for line in table(kseg("verify", "--severity", severity, few).lines)) == listed
    of_errors = kseg("verify", "--severity", "error", few).lines
    assert "10 partitions have no error: --sort lists them" in of_errors, "one has a warning"
    assert table(kseg("verify", "--severity", "error", "--sort", "name", few).lines)[11].startswith("e-idem-9")
    assert not any(row["type"] == "partition" for row in kseg("verify", "--format", "json", few).objects)


@pytest.mark.parametrize("ignored", [(), ("--ignore", "zero-block")])
def test_one_cause_is_one_error(kseg: Kseg, ignored: tuple[str, ...]) -> None:
    """The offsets that zeroed bytes have cost are no error of their own, unless nothing else tells of the zeros."""
    damaged = TESTDATA / "damaged/findings/gap-truncated"
    done = kseg("verify", "--format", "json", *ignored, damaged / "dplain-0").expect(1)
    errors = [row["code"] for row in done.objects if row.get("severity") == "error"]
    assert errors == ["gap-truncated" if ignored else "zero-block"]


def test_batches_with_a_wrong_checksum_are_damaged_bytes(kseg: Kseg, few: Path) -> None:
    first = min((few / COMPACTED.name).glob("*.log"))
    flip(first, -1)
    rows = [
        {row["path"]: row["damagedBytes"] for row in kseg(*command, "--format", "json", few).objects if "forms" in row}
        for command in (("verify", "--level", "full", "--sort", "name"), ("stats",))
    ]
    sizes = [row["size"] for row in kseg("dump", "--format", "json", first).objects if row.get("isValid") is False]
    assert rows[0] == rows[1]
    assert rows[0][str(few / COMPACTED.name)] == sum(sizes) > 0


def test_damage_before_the_last_segment_makes_a_partition_uncleanable(kseg: Kseg, few: Path) -> None:
    first = min((few / COMPACTED.name).glob("*.log"))
    data = bytearray(first.read_bytes())
    data[8:12] = bytes(4)
    first.write_bytes(data)
    states = []
    for command in (("verify", "--sort", "name"), ("stats",)):
        rows = kseg(*command, "--format", "json", few).objects
        states += [row["cleaner"]["state"] for row in rows if row.get("cleaner")]
    assert states == [f"uncleanable: bad-length in {first.name}"] * 2


@pytest.mark.parametrize("level", ["quick", "full"])
def test_an_open_transaction_holds_the_cleaner(kseg: Kseg, tmp_path: Path, level: str) -> None:
    shutil.copytree(ROUNDS / "txn-5", tmp_path / "txn-5")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ntxn 5 0\n")
    first = kseg("transactions", "--format", "json", tmp_path).objects[0]["firstOffset"]
    (row,) = kseg("verify", "--level", level, "--sort", "cleaner", "--format", "json", tmp_path).of_type("partition")
    assert f"open transaction at {first}" in row["cleaner"]["state"]


CLEAN = TESTDATA / "damaged/4.3.1-control-clean/dplain-0"
LAST = "00000000000000000116.log"
partition = copying(CLEAN, "dplain-0")


LONG_AGO = ("--now", "1700000000000")


def test_a_clock_at_the_end_of_time(kseg: Kseg, partition: Path) -> None:
    assert kseg("verify", "--now", 2**63 - 1, partition).expect(0).out == kseg("verify", partition).out


def test_explain_all(kseg: Kseg, tmp_path: Path) -> None:
    assert [row["code"] for row in kseg("verify", "--explain", "all", "--format", "json").objects] == list(KINDS)
    kseg("verify", "--explain", "").expect(2, "no finding has the code ''")
    assert kseg("verify", "--explain", "all", "-o", tmp_path / "codes").out == b""
    assert "\nzero-block (error)\n" in (tmp_path / "codes").read_text()
    assert b"\x1b[" in kseg("verify", "--explain", "all", "--color", "always").out


def test_standard_input() -> None:
    packed = gzip.compress((ZEROED / LAST).read_bytes())
    done = spawned("verify", "-", "--format", "json", input=gzip.decompress(packed))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert (rows[0]["file"], rows[0]["code"]) == ("-", "bad-length")
    assert spawned("verify", "-", input=(CLEAN / LAST).read_bytes()).returncode == 0
    assert spawned("verify", "-", input=b"").returncode == 0


def test_output_is_whole_or_not_there(kseg: Kseg, tmp_path: Path) -> None:
    target = tmp_path / "report"
    kseg("verify", "-o", target, ZEROED).expect(1, out=b"")
    assert "bad-length" in target.read_text()
    assert kseg("verify", "-o", tmp_path / "no/report", CLEAN).status == 3
    assert sorted(os.listdir(tmp_path)) == ["report"]


def test_live(kseg: Kseg, partition: Path) -> None:
    path = partition / LAST
    path.write_bytes(path.read_bytes()[:-9])
    assert kseg("verify", path).status == 1
    assert kseg("verify", "--live", path).status == 0


def test_era_07(kseg: Kseg, tmp_path: Path) -> None:
    real = TESTDATA / "kafka-0.7.2/direct/codecs-0/00000000000000000000.kafka"
    assert kseg("verify", "--level", "deep", real).status == 0
    named_otherwise = tmp_path / "old-segment"
    shutil.copy(real, named_otherwise)
    assert kseg("verify", named_otherwise).status == 1
    assert kseg("verify", "--era", "0.7", named_otherwise).status == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(kseg: Kseg, partition: Path) -> None:
    (partition / LAST).chmod(0)
    assert kseg("verify", partition).status == 3


def test_hostile_names(tmp_path: Path) -> None:
    """Control characters and bytes that are no text reach no terminal, and JSON keeps them."""
    folder = os.fsencode(tmp_path) + b"/a\x1b[31m\n\xff-0"
    shutil.copytree(os.fsencode(ZEROED), folder)
    text = spawned("verify", folder)
    assert text.returncode == 1
    assert b"\x1b" not in text.stdout + text.stderr
    assert text.stdout.count(b"\n") == len(text.stdout.splitlines())
    rows = [json.loads(line) for line in spawned("verify", "--format", "json", folder).stdout.splitlines()]
    assert set(rows[0]["file"]) == {"base64"}
    ElementTree.fromstring(spawned("verify", "--format", "junit", folder).stdout)


@pytest.mark.parametrize(
    ("words", "parts"), [(["--topic", "e-*"], [COMPACTED.name]), ([], [ZEROED.name, COMPACTED.name])]
)
@pytest.mark.parametrize("below", ["", ".."])
def test_reports_list_what_was_checked(kseg: Kseg, few: Path, words: list[str], parts: list[str], below: str) -> None:
    """Not partitions of other topics, and those of all log directories of a PATH."""
    report = kseg("verify", "--format", "junit", *words, few / below).out
    suites = {Path(suite.attrib["name"]).name for suite in ElementTree.fromstring(report).iter("testsuite")}
    assert suites - {few.name} == set(parts)
    page = kseg("verify", "--format", "html", *words, few / below).out.decode()
    assert [name for name in (ZEROED.name, COMPACTED.name) if f'"{name}"' in page] == parts


def test_findings_are_bounded_and_counted(kseg: Kseg, tmp_path: Path) -> None:
    """300 batches, each with a timestamp that lies ahead."""
    data = (CLEAN / LAST).read_bytes()
    size = 12 + struct.unpack_from(">i", data, 8)[0]
    one, count = data[:size], struct.unpack_from(">i", data, 23)[0] + 1
    batches = (struct.pack(">q", 116 + i * count) + one[8:] for i in range(300))
    path = tmp_path / LAST
    path.write_bytes(b"".join(batches))
    # The one producer of all of them repeats its sequence numbers.
    options = (*LONG_AGO, "--ignore", "producer-sequence-gap")
    outcome = kseg("verify", "--format", "json", *options, path)
    assert len(outcome.of_type("finding")) == 100
    (omitted,) = outcome.of_type("omitted")
    assert (omitted["code"], omitted["count"]) == ("future-timestamp", 200)
    assert outcome.objects[-1]["warnings"] == 300
    assert kseg("verify", *options, path).lines[-1] == f"{path}: 200 more of future-timestamp"


def test_a_manifest_that_cannot_be(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    assert kseg("verify", "--manifest", partition / "manifest", partition).status == 2
    assert kseg("verify", "--manifest", "-", partition).status == 2
    assert kseg("verify", "--manifest", tmp_path / "manifest", "-").status == 2
    assert kseg("verify", "--manifest", tmp_path / "manifest", tmp_path / "missing").status == 3
    (tmp_path / "nonsense").write_text("nonsense")
    assert kseg("verify", "--manifest", tmp_path / "nonsense", partition).status == 3
    assert sorted(os.listdir(tmp_path)) == ["dplain-0", "nonsense"]
    assert sorted(os.listdir(partition)) == sorted(os.listdir(CLEAN))


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """What was found until then is told, and that it is not all."""
    from kseg.verification import run as verification

    def judge(path: str, _settings: Any, report: Any, *_others: Any) -> None:
        report.add("bad-length", path, "found before")
        raise KeyboardInterrupt

    monkeypatch.setattr(verification, "judge_path", judge)
    with pytest.raises(SystemExit) as ended:
        run(["verify", "--format", "json", str(CLEAN)])
    rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert ended.value.code == 130
    assert [row["type"] for row in rows] == ["finding", "summary"]
    assert rows[-1]["ok"] is False


@pytest.mark.parametrize("name", ["lost+found", "dplain-0.bak"])
def test_a_directory_that_is_no_partition_is_only_moved_away(name: str, tmp_path: Path, kseg: Kseg) -> None:
    logs = Path(shutil.copytree(TESTDATA / "damaged/findings/future-directory/logs", tmp_path / "logs"))
    (logs / name).mkdir()
    shutil.copy(logs / "dplain-0" / "00000000000000000097.log", logs / name)
    found = kseg("verify", "--format", "json", logs)
    inside = [row for row in found.of_type("finding") if name in row["file"]]
    assert {row["code"] for row in inside} > {"broker-would-not-start"}
    assert not any(row["repair"] for row in inside)
    (summary,) = found.of_type("summary")
    assert not any(name in " ".join(words) for words in summary["next"] if words[:1] == ["kseg"])


def test_the_metadata_log_needs_no_file_of_its_id(tmp_path: Path, kseg: Kseg) -> None:
    logs = Path(shutil.copytree(LOGS_4_4, tmp_path / "logs"))
    (logs / "__cluster_metadata-0" / "partition.metadata").unlink()
    assert [row["severity"] for row in findings_of(kseg, logs, code="no-partition-metadata")] == ["info"]


@pytest.mark.parametrize("content", ["", "\0" * 50, "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"])
def test_a_wrong_id_of_the_metadata_log_is_mended_without_asking(content: str, tmp_path: Path, kseg: Kseg) -> None:
    logs = Path(shutil.copytree(LOGS_4_4, tmp_path / "logs"))
    file = logs / "__cluster_metadata-0" / "partition.metadata"
    whole = file.read_bytes()
    file.write_text(content)
    (summary,) = kseg("verify", "--format", "json", logs).of_type("summary")
    assert not summary["nodes"][0]["starts"]
    (command,) = summary["next"]
    kseg(*command[1:]).expect(0)
    assert file.read_bytes() == whole
    (summary,) = kseg("verify", "--format", "json", logs).of_type("summary")
    assert (summary["nodes"][0]["starts"], summary["next"]) == (True, [])


def test_files_of_others_are_told_as_theirs(tmp_path: Path, kseg: Kseg) -> None:
    logs = Path(shutil.copytree(TESTDATA / "damaged/findings/future-directory/logs", tmp_path / "logs"))
    for name in (".nfs000000000a1b2c3d", "00000000000000000097.tierstate", "notes"):
        (logs / "dplain-0" / name).write_text("x")
    (row,) = findings_of(kseg, logs, code="unknown-file")
    assert "over NFS: .nfs" in row["message"]
    assert "of Confluent Server: 00000000000000000097.tierstate" in row["message"]
    assert "that no broker knows: notes" in row["message"]


def test_a_copy_at_other_offsets_points_to_the_comparison_by_content(tmp_path: Path, kseg: Kseg) -> None:
    here, there = (tmp_path / name / "t-0" for name in "ab")
    for path, first in ((here, 0), (there, 3)):
        with writer(path) as rows:
            for i in range(100):
                rows.append(value=b"%d" % i, timestamp=1, offset=first + i)
    told = kseg("verify", "--against", there, here).expect(1).err
    (command,) = [line.split() for line in told.splitlines() if "--by content" in line]
    assert "by content" not in kseg(*command[1:]).expect(0).err
    few = TESTDATA / "damaged/findings/replicas-diverge"
    case = json.loads((few / "case.json").read_text())
    assert "--by content" not in kseg("verify", "--against", few / case["against"], few / case["judged"]).err


def test_partitions_that_a_broker_has_renamed_are_told_without_a_log_directory(tmp_path: Path, kseg: Kseg) -> None:
    for ending in ("delete", "future", "stray"):
        named = tmp_path / f"dplain-0.{'0' * 32}-{ending}"
        shutil.copytree(TESTDATA / "damaged/findings/future-directory/logs/dplain-0", named)
        assert f"{ending}-directory" in kseg("verify", "--severity", "info", f"{named}/").expect(0).out.decode()
    codes = [row["code"] for row in findings_of(kseg, tmp_path)]
    assert [code for code in codes if code.endswith("-directory")] == [
        "delete-directory", "future-directory", "stray-directory",
    ]  # fmt: skip


def test_offsets_of_logs_that_are_gone_are_told(tmp_path: Path, kseg: Kseg) -> None:
    partition = Path(shutil.copytree(PLAIN, tmp_path / "dplain-0"))
    (partition / "00000000000000000000.log").unlink()
    lost = [row["details"] for row in findings_of(kseg, partition, code="orphan-index")]
    assert lost
    assert {(details["firstMissing"], details["lastMissing"]) for details in lost} == {(0, 45)}
