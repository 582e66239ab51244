"""``--server-properties``: the broker's own settings, in each command that takes them."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg, copying

RETENTION = TESTDATA / "retention/4.3.1/before/r-time-half-0"
NOW = ("--now", "1795251919567")
partition = copying(RETENTION, f"logs/{RETENTION.name}")


def file_of(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text("\n".join(lines))
    return path


def test_retention(kseg: Kseg, tmp_path: Path, partition: Path) -> None:
    by_option = kseg("retain", "-n", "--format", "json", "--retention-ms", "3600000", *NOW, partition)
    server = file_of(tmp_path, "log.retention.hours=1", "log.retention.bytes=1000000000")
    by_file = kseg("retain", "-n", "--format", "json", "--server-properties", server, *NOW, partition)
    assert by_file.of_type("action") == by_option.of_type("action") != []
    (told,) = kseg("retain", "--explain", "--format", "json", "--server-properties", server, *NOW, partition).of_type(
        "retention"
    )
    assert (told["retentionMs"], told["sources"]["retention.ms"]) == (3600000, "server")
    assert told["sources"]["cleanup.policy"] == "default"
    assert "by the broker's file" in kseg("retain", "--explain", "--server-properties", server, partition).out.decode()


def test_options_come_first(kseg: Kseg, tmp_path: Path, partition: Path) -> None:
    server = file_of(tmp_path, "log.retention.ms=1")
    done = kseg(
        "retain", "--explain", "--format", "json", "--retention-ms", "5", "--server-properties", server, partition
    )
    assert done.of_type("retention")[0]["sources"]["retention.ms"] == "option"


def test_the_index_interval_of_a_recovery(kseg: Kseg, tmp_path: Path, partition: Path) -> None:
    for index in partition.glob("*index"):
        index.unlink()
    server = file_of(tmp_path, "log.index.interval.bytes=512")
    by_file = kseg("recover", "-n", "--format", "json", "--server-properties", server, partition)
    by_option = kseg("recover", "-n", "--format", "json", "--index-interval-bytes", "512", partition)
    assert by_file.of_type("action") == by_option.of_type("action") != []
    assert f"as {server} has it" in by_file.err


def test_a_policy_that_lacks_compact(kseg: Kseg, tmp_path: Path, partition: Path) -> None:
    server = file_of(tmp_path, "log.cleanup.policy=delete")
    assert kseg("compact", "-n", "--server-properties", server, partition).status == 3
    server = file_of(tmp_path, "log.cleanup.policy=compact", "log.cleaner.min.cleanable.ratio=0")
    assert kseg("compact", "-n", "--drop-null-keys", "--server-properties", server, partition).status == 1


def test_verify_looks_into_its_log_directories(kseg: Kseg, tmp_path: Path, partition: Path) -> None:
    (partition.parent / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    server = file_of(tmp_path, f"log.dirs={partition.parent}")
    asked = kseg("verify", "--format", "json", partition.parent)
    found = kseg("verify", "--format", "json", "--server-properties", server)
    assert (found.status, found.objects) == (asked.status, asked.objects)
    assert kseg("verify", "--server-properties", file_of(tmp_path, "node.id=1")).status == 2


@pytest.mark.parametrize("command", ["verify", "retain", "compact", "recover"])
def test_a_file_that_is_not_there(kseg: Kseg, tmp_path: Path, partition: Path, command: str) -> None:
    assert kseg(command, "--server-properties", tmp_path / "none", partition).status == 3


def test_compact_tells_where_settings_come_from(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(TESTDATA / "compaction/4.3.1/before/c-tomb-short-0", tmp_path / "logs/c-tomb-short-0")
    server = file_of(tmp_path, "log.cleaner.min.compaction.lag.ms=60000", "log.cleaner.delete.retention.ms=1")
    done = kseg(
        "compact", "-n", "-v", "--delete-retention-ms", "0", "--force-policy", "--server-properties", server,
        tmp_path / "logs/c-tomb-short-0",
    )  # fmt: skip
    assert (
        "min.compaction.lag.ms 60000 = 1 min 0 s (by the broker's file), "
        "max.compaction.lag.ms unlimited (Kafka's default), delete.retention.ms 0 (by option), "
        "min.cleanable.dirty.ratio 0.5 (Kafka's default)"
    ) in done.err


def test_a_refused_policy_has_its_source(kseg: Kseg, tmp_path: Path, partition: Path) -> None:
    for text, source in (("log.cleanup.policy=delete", "the broker's file"), ("node.id=1", "Kafka's default")):
        server = file_of(tmp_path, text)
        assert f"cleanup.policy delete ({source})" in kseg("compact", "--server-properties", server, partition).err
