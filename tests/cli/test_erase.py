"""``kseg erase`` on real partitions of every format: what a consumer of Kafka had is left, less the erased records."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cli.command import CONSUMED, TESTDATA, Kseg, consumed_record, files, flip, ids, json_lines, our_record, unchanged
from kernel.rendering import message
from segment.segments import entries, sealed
from verification.partitions import stored_gzip

RETENTION = TESTDATA / "retention/4.3.1/before/r-delrec-0"
OPEN = TESTDATA / "kafka-1.1.1/txn/txn-open-0"
USERS = [path for path in CONSUMED if not path.parent.name.startswith("__")]


def copied(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target / "logs" / source.name))


def dumped(kseg: Kseg, partition: Path) -> list[tuple[Any, ...]]:
    found = kseg("dump", "--deep-iteration", "--print-data-log", "--format", "json", partition)
    return [our_record(each) for each in found.of_type("record") if "control" not in each]


def batches(kseg: Kseg, partition: Path) -> list[dict[str, Any]]:
    return kseg("dump", "--format", "json", partition).of_type("batch")


def word(key: bytes) -> str:
    return f"hex:{key.hex()}"


@pytest.mark.sampled(9)
@pytest.mark.parametrize("consumed", USERS, ids=ids(USERS))
def test_all_other_records_stay(kseg: Kseg, tmp_path: Path, consumed: Path) -> None:
    partition = copied(consumed.parents[2] / consumed.parent.name, tmp_path)
    wanted = [consumed_record(record) for record in json_lines(consumed)]
    keys = sorted({record[2] for record in wanted if record[2] is not None})[::7]
    by_key, by_offset = [record for record in wanted if record[2] in keys], wanted[len(wanted) // 2 :: 3]
    selection = [argument for key in keys for argument in ("--key", word(key))]
    selection += [argument for record in by_offset for argument in ("--offsets", record[0])]
    gone = {record[0] for record in (*by_key, *by_offset)}
    dry = kseg("erase", "-n", "--format", "json", *selection, partition)
    assert (dry.status, dry.of_type("summary")[0]["records"]) == (1, len(gone))
    before = batches(kseg, partition)
    assert kseg("erase", "-q", *selection, partition).status == 0
    assert dumped(kseg, partition) == [record for record in wanted if record[0] not in gone]
    kept = [batch for batch in batches(kseg, partition) if batch["magic"] == 2]
    names = ("lastOffset", "producerId", "producerEpoch", "baseSequence", "partitionLeaderEpoch", "isTransactional")
    known = {batch["baseOffset"]: [batch[name] for name in names] for batch in before if batch["magic"] == 2}
    for batch in kept if known else ():
        assert [batch[name] for name in names] == known[batch["baseOffset"]]
    assert batches(kseg, partition)[-1]["lastOffset"] == before[-1]["lastOffset"]
    assert kseg("verify", "--level", "deep", "--format", "json", partition).of_type("summary")[0]["errors"] == 0


@pytest.mark.parametrize("source", [RETENTION, OPEN, *(p.parents[2] / p.parent.name for p in USERS[:4])], ids=str)
def test_the_log_keeps_its_end_if_all_is_erased(kseg: Kseg, tmp_path: Path, source: Path) -> None:
    partition = copied(source, tmp_path)
    end = batches(kseg, partition)[-1]["lastOffset"]
    assert kseg("erase", "-q", "--offsets", "0..", partition).status == 0
    assert dumped(kseg, partition) == []
    assert batches(kseg, partition)[-1]["lastOffset"] == end
    assert {each["severity"] for each in kseg("verify", "--format", "json", partition).of_type("finding")} <= {"info"}


def test_patterns_search_keys_values_and_headers(kseg: Kseg, tmp_path: Path) -> None:
    partition = copied(RETENTION, tmp_path)
    records = dumped(kseg, partition)
    kseg(
        "erase", "-q", "--key-pattern", "[05]$", "--grep", "^key-00001$", "--grep", "euro|^trace-id=t-8$", partition
    ).expect(0)
    left = [
        record
        for record in records
        if (record[2] or b"x")[-1:] not in b"05"
        and record[2] != b"key-00001"
        and b"euro" not in (record[3] or b"")
        and record[4] != [b"t-8"]
    ]
    assert 0 < len(left) < len(records)
    assert dumped(kseg, partition) == left


def test_segments_without_a_match_stay_as_they_are(kseg: Kseg, tmp_path: Path) -> None:
    partition = copied(RETENTION, tmp_path)
    before = {path.name: path.stat() for path in partition.iterdir()}
    assert kseg("erase", "-q", "--key", "key-00100", partition).status == 0
    changed = {name for name, old in before.items() if (partition / name).stat().st_ino != old.st_ino}
    assert changed == {f"{56:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    with unchanged(tmp_path):
        assert kseg("erase", "--key", "nobody", partition).status == 0


def test_what_other_changes_have_kept_goes_too(kseg: Kseg, tmp_path: Path) -> None:
    """Retention leaves .deleted files, and the same bytes in the quarantine."""
    partition, secret = copied(RETENTION, tmp_path), b"key-00040"
    assert kseg("retain", "-q", "--log-start-offset", "60", partition).status == 0
    assert sum(secret in data for data in files(tmp_path).values()) == 2
    told = kseg("erase", "--key", secret.decode(), partition).expect(
        0, "no undo: 1 of kseg undo --list", ".log.deleted"
    )
    assert not any(secret in data for data in files(tmp_path).values()), told.err
    assert kseg("undo", "-n", partition).status == 3


def test_kept_bytes_that_cannot_be_searched_are_named(kseg: Kseg, tmp_path: Path) -> None:
    kept, erase = tmp_path / "kept", ("erase", "-q", "--key", "key-00040")
    partition = copied(RETENTION, tmp_path)
    kseg("retain", "-q", "--log-start-offset", "60", "--quarantine", kept, partition).expect(0)
    kept.rename(tmp_path / "away")
    with unchanged(tmp_path):
        done = kseg(*erase, partition).expect(3, "is missing; nothing was changed")
    (tmp_path / "away").rename(kept)
    partition = partition.parent.rename(tmp_path / "moved") / partition.name
    with unchanged(tmp_path):
        kseg(*erase, partition).expect(3, "give its parent directory to kseg undo with --quarantine")
    kseg("undo", "--purge", "--quarantine", kept, partition).expect(0)
    kseg(*erase, partition).expect(0)
    assert not any(b"key-00040" in data for data in files(tmp_path).values())
    assert done.err.endswith(f"    kseg undo --purge --change 1 {tmp_path}/logs/{partition.name}\n")


def test_a_damaged_log_is_refused_unless_the_damage_is_skipped(kseg: Kseg, tmp_path: Path) -> None:
    """A batch with a wrong checksum is searched; the checksum stays wrong. A broken one is named."""
    partition = copied(RETENTION, tmp_path)
    log, other = partition / f"{0:020}.log", partition / f"{135:020}.log"
    flip(log, log.read_bytes().index(b"shipment"))  # in the value of the first record
    other.write_bytes(other.read_bytes()[:100] + b"\xff" * 40 + other.read_bytes()[140:])
    with unchanged(tmp_path):
        kseg("erase", "--key", "key-00001", partition).expect(3, log.name, other.name, "--skip-damage")
    done = kseg("erase", "--format", "json", "--skip-damage", "--key", "key-00001", partition)
    [row] = done.of_type("erasure")
    assert (done.status, row["records"]) == (1, 1)
    assert {Path(each["file"]).name for each in row["notSearched"]} == {log.name, other.name}
    assert b"key-00001" not in log.read_bytes()
    assert b"key-00002" in log.read_bytes()
    assert other.read_bytes()[100:140] == b"\xff" * 40
    codes = {each["code"] for each in kseg("verify", "--format", "json", partition).of_type("finding")}
    assert "crc-mismatch" in codes


def test_what_cannot_be_written_anew_is_damage(kseg: Kseg, tmp_path: Path) -> None:
    """A batch whose records end too early, in a window of its own before other damage, and a compressed message whose
    inner one has a wrong checksum: their checksums are right."""
    partition = copied(RETENTION, tmp_path)
    log, other = partition / f"{0:020}.log", partition / f"{56:020}.log"
    first, *more = entries(log.read_bytes())
    log.write_bytes(sealed(first, 61, b"\xff") + b"".join(more[:-1]) + b"\xff" * 40)
    inner = bytearray(message(56, 0, b"key-00001", b"value"))
    inner[-1] ^= 1
    other.write_bytes(message(56, 0, None, stored_gzip(bytes(inner)), attributes=1))
    kseg("erase", "--key", "key-00001", partition).expect(3, log.name, "1 messages inside have a wrong checksum")
    done = kseg("erase", "--format", "json", "--skip-damage", "--jobs", "2", "--key", "key-00001", partition).expect(1)
    [row] = done.of_type("erasure")
    assert {Path(each["file"]).name for each in row["notSearched"]} == {log.name, other.name}
    assert row["records"] == 0


def test_a_segment_with_a_foreign_offset_is_to_be_repaired_first(kseg: Kseg, tmp_path: Path) -> None:
    partition = copied(RETENTION, tmp_path)
    log = partition / f"{0:020}.log"
    log.write_bytes(b"\1" + log.read_bytes()[1:])
    with unchanged(tmp_path):
        done = kseg("erase", "--skip-damage", "--key", "key-00001", partition)
        done.expect(3, "cannot be written anew", "repair it first (kseg verify names the command)")


def test_an_archive_is_to_be_unpacked(kseg: Kseg, tmp_path: Path) -> None:
    """There is no --output."""
    archive = shutil.make_archive(str(tmp_path / "logs"), "tar", copied(RETENTION, tmp_path).parent)
    for command in ("erase", "--key", "key-00001"), ("undo",):
        kseg(*command, archive).expect(3, "erase and undo need them unpacked")


def test_a_certificate_names_no_key_and_can_be_checked(kseg: Kseg, tmp_path: Path) -> None:
    partition, path = copied(RETENTION, tmp_path), tmp_path / "certificate"
    old = {each.name: sha256(each.read_bytes()).hexdigest() for each in partition.glob("*.log")}
    kseg("erase", "-q", "--key", "key-00001", "--key-pattern", "00002$", "--certificate", path, partition).expect(0)
    assert "key-0000" not in path.read_text()
    row = json.loads(path.read_text())
    assert row["partitions"][0]["topicId"] == "XXQZQQxBS1KZrtPgT2vw5Q"
    segments = row["partitions"][0]["segments"]
    assert {each["file"]: each["sha256Before"] for each in segments} == old
    assert segments[0]["sha256After"] == sha256((partition / segments[0]["file"]).read_bytes()).hexdigest()
    assert row["selection"]["keys"] == [sha256(bytes.fromhex(row["salt"]) + b"key-00001").hexdigest()]
    assert kseg("erase", "--check", path, partition).status == 0
    assert kseg("erase", "--check", path, RETENTION).status == 1
    with unchanged(tmp_path):  # it is the only evidence of what was erased
        kseg("erase", "--key", "key-00003", "--certificate", path, partition).expect(3, "already certifies")
    renamed = Path(shutil.copytree(RETENTION, tmp_path / "copy-7"))  # other offsets do not matter there, the keys do
    [found] = kseg("erase", "--check", path, "--format", "json", renamed).of_type("erasureCheck")
    assert found["offsets"] == [[1, 2]]


def test_a_certificate_keeps_its_notes_until_all_partitions_are_erased(kseg: Kseg, tmp_path: Path) -> None:
    partition, path = copied(RETENTION, tmp_path), tmp_path / "certificate"
    damaged = Path(shutil.copytree(RETENTION, partition.with_name("t-0")))
    log = min(damaged.glob("*.log"))
    flip(log)
    command = "erase", "-q", "--key", "key-00001", "--certificate", path, "--topic", "*", partition.parent
    assert kseg(*command).status != 0
    row = json.loads(path.read_text())
    assert [each["directory"] for each in row["failed"]] == [str(damaged)]
    assert Path(f"{path}.unfinished").exists()
    flip(log)
    kseg(*command).expect(0)
    row = json.loads(path.read_text())
    assert ({each["directory"] for each in row["partitions"]}, row["failed"]) == ({str(partition), str(damaged)}, [])
    assert not Path(f"{path}.unfinished").exists()


def test_in_a_log_directory_internal_topics_are_left_alone(kseg: Kseg, tmp_path: Path) -> None:
    partition, internal = (
        copied(RETENTION, tmp_path),
        copied(TESTDATA / "kafka-4.3.1/internal/__consumer_offsets-0", tmp_path),
    )
    stray = partition.rename(partition.with_name(f"r-delrec-0.{'0' * 32}-stray"))
    with unchanged(internal):
        done = kseg("erase", "--format", "json", "--offsets", "0..10", partition.parent).expect(0)
    assert [(each["directory"], each["records"]) for each in done.of_type("erasure")] == [(str(stray), 11)]
    kseg("erase", "--offsets", "0..10", internal).expect(3, "internal topics")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name the records"),
        (("-n", "--key", "x", "--certificate", "c"), "not for a dry run"),
        (("--check", "c", "--key", "x"), "the certificate selects"),
        (("--check", "c", "--format", "html"), "--format html is for a dry run"),
    ],
)
def test_wrong_usage(kseg: Kseg, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    partition = copied(RETENTION, tmp_path)
    with unchanged(tmp_path):
        kseg("erase", *arguments, partition).expect(2, told)
