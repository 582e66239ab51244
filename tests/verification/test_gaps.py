"""Whether offsets that are missing were lost or removed by the cleaner, in copies that nothing around tells of."""

import gzip
from pathlib import Path

import pytest

import kseg
from kseg.segment import survey
from kseg.segment.survey import DEEP, FULL, QUICK
from segment.segments import sealed
from verification.log_directories import check, checkpoint, copied, kraft
from verification.partitions import Found, batch_of, changed, log_of, message

# What the log cleaner would meet in a compacted partition.


def compacted(tmp_path: Path) -> Path:
    """A partition that the cleaner has worked on, as its checkpoint says."""
    logs = copied(tmp_path)
    (logs / "cleaner-offset-checkpoint").write_text(checkpoint("dplain 0 46"))
    return logs / "dplain-0"


def test_the_cleaner_meets_closed_segments_of_compacted_logs(tmp_path: Path) -> None:
    folder = compacted(tmp_path)
    changed(folder / f"{116:020}.log", 7129 + 100, b"\xff")
    found = check(folder)
    assert "crc-mismatch" in found.codes
    assert "cleaner-hides-damage" not in found.codes
    path = folder / f"{46:020}.log"
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert "cleaner-blocked" in check(folder, DEEP).codes
    (tmp_path / "logs" / "cleaner-offset-checkpoint").unlink()
    assert not {"cleaner-blocked", "record-without-key"} & set(check(folder, DEEP).codes), "no cleaner works here"


def test_records_without_a_key(tmp_path: Path) -> None:
    """dplain was never compacted: a topic whose policy is changed later is like this."""
    folder = compacted(tmp_path)
    assert "record-without-key" not in check(folder, FULL).codes, "only records tell"
    found = check(folder, DEEP)
    shown = [finding for finding in found.findings if finding.code == "record-without-key"]
    assert [Path(finding.file).name[:20] for finding in shown] == [f"{base:020}" for base in (0, 46, 76)]
    assert found.report.totals.codes["record-without-key"] > len(shown), "one is shown for a segment, all are counted"


@pytest.mark.parametrize("partition", ["__consumer_offsets-0", "__transaction_state-0"])
def test_compacted_partitions_of_a_broker_are_clean(tmp_path: Path, partition: str) -> None:
    logs = kraft(tmp_path, partition)
    assert check(logs, DEEP).serious == []


LEVELS = pytest.mark.parametrize("level", [QUICK, FULL, DEEP], ids=["quick", "full", "deep"])


def gaps(found: Found) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in found.findings if finding.code.startswith("gap-")]


FIRST, THIRD = batch_of(range(3)), batch_of(range(6, 9))
LAST = batch_of(range(9, 12))


def test_the_active_segment_is_never_cleaned(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    assert gaps(check(log_of(tmp_path / "closed", FIRST + THIRD, LAST))) == [("gap-unexplained", "warning")]
    assert gaps(check(log_of(tmp_path, FIRST + THIRD))) == [("gap-unexplained", "error")]


def test_a_log_directory_would_tell_of_its_cleaner(tmp_path: Path) -> None:
    folder = log_of(tmp_path, FIRST + THIRD, LAST)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    assert gaps(check(folder)) == [("gap-unexplained", "error")]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nmade 0 9\n")
    assert gaps(check(folder)) == [("gap-compacted", "info")]


def test_where_no_cleaner_has_come_yet(tmp_path: Path) -> None:
    """Behind a key that comes again, or a record without one, even the batches of a compacted log are all there."""
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nmade 0 9\n")
    thinned = batch_of(range(2)) + batch_of([4])
    folder = log_of(tmp_path, thinned + again(5, 1) + THIRD, batch_of(range(10, 12)))
    assert gaps(check(folder, FULL)) == [("gap-compacted", "info"), ("gap-compacted", "info")]
    found = check(folder, DEEP)
    assert gaps(found) == [("gap-unexplained", "error"), ("gap-compacted", "info")]
    lost = found.one("gap-unexplained")
    assert (lost.offset, lost.position) == (9, 0)
    assert "offset 5 has no key, or that of an earlier record" in lost.message
    assert kseg.recover(folder).apply().changed, "its side files are made"
    assert kseg.recover(folder, mode="salvage").apply().changed
    assert set(gaps(check(folder, DEEP))) == {("gap-salvaged", "info"), ("gap-compacted", "info")}


def test_a_batch_that_is_twice_tells_nothing_of_cleaners(tmp_path: Path) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nmade 0 9\n")
    folder = log_of(tmp_path, FIRST + FIRST + batch_of(range(7, 9)), LAST)
    found = check(folder, DEEP)
    assert "batch-out-of-order" in found.codes
    assert gaps(found) == [("gap-compacted", "info")]


@LEVELS
def test_records_that_no_cleaner_leaves(level: int, tmp_path: Path) -> None:
    without = b"".join(message(offset, b"no key") for offset in (0, 1, 2, 6, 7))
    for name, first in (("twice", batch_of(range(2)) + again(2, 1) + THIRD), ("without", without)):
        (tmp_path / name).mkdir()
        folder = log_of(tmp_path / name, first, LAST)
        assert ("gap-unexplained", "error") in gaps(check(folder, level)), name


def again(offset: int, key: int) -> bytes:
    """A batch of one record, whose key is that of the record at another offset."""
    return offset.to_bytes(8, "big") + batch_of([key])[8:]


@LEVELS
def test_many_gaps_are_a_cleaners(level: int, tmp_path: Path) -> None:
    thinned = b"".join(batch_of([offset]) for offset in range(0, 40, 3))
    folder = log_of(tmp_path, thinned, batch_of(range(40, 42)))
    assert gaps(check(folder, level)) == [("gap-compacted", "info")]
    (folder / f"{0:020}.log").write_bytes(thinned.replace(batch_of([6]), again(6, 3)))
    found = check(folder, level)
    assert len(gaps(found)) == 13
    assert set(gaps(found)) == {("gap-unexplained", "error")}


def test_gaps_that_are_only_counted_are_no_errors_where_the_others_are_warnings(tmp_path: Path) -> None:
    kept = b"".join(batch_of([offset]) for offset in range(1500) if offset % 10)
    found = check(log_of(tmp_path, batch_of([0]) + kept, batch_of([1500])))
    assert {finding.severity for finding in found.findings} == {"warning"}
    assert (found.report.totals.errors, found.report.totals.codes) == (0, {"gap-unexplained": 149})


def test_a_segment_with_nothing_left(tmp_path: Path) -> None:
    folder = log_of(tmp_path, FIRST, LAST)
    for suffix in (".log", ".index", ".timeindex"):
        (folder / f"{3:020}{suffix}").touch()
    assert gaps(check(folder)) == [("gap-compacted", "info")]
    (folder / f"{3:020}.index").write_bytes(bytes(4096))
    assert gaps(check(folder)) == [("gap-unexplained", "warning")], "space for an index"
    (folder / f"{3:020}.timeindex").write_bytes(bytes.fromhex("000000000000040500000002"))
    assert gaps(check(folder)) == [("gap-unexplained", "error")]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nmade 0 9\n")
    found = check(folder)
    assert gaps(found) == [("gap-unexplained", "error")], "the cleaner writes new indexes"
    assert f"{3:020}.log is empty, and its indexes have entries" in found.one("gap-unexplained").message


@pytest.mark.parametrize(
    "segments",
    [{0: b"", 6: THIRD, 9: LAST}, {0: FIRST, 3: b"", 9: LAST}, {0: b"", 3: b"", 6: b""}],
    ids=["first", "middle", "all"],
)
def test_an_emptied_segment_is_a_loss_unless_the_topic_is_compacted(segments: dict[int, bytes], tmp_path: Path) -> None:
    folder, bases = log_of(tmp_path), list(segments)
    for base, data in segments.items():
        (folder / f"{base:020}.log").write_bytes(data)
    lost = [("gap-unexplained", "error")] * (1 if any(segments.values()) else 2)
    assert gaps(check(folder)) == [("gap-unexplained", "warning")] * len(lost), "a copy"
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    for suffix in (".index", ".timeindex"):
        for base in bases[:-1]:
            (folder / f"{base:020}{suffix}").touch()
    assert gaps(check(folder)) == lost
    starts = tmp_path / "log-start-offset-checkpoint"
    starts.write_text(f"0\n1\nmade 0 {bases[-1]}\n")
    assert gaps(check(folder)) == [], "deleted"
    starts.write_text("0\n1\nmade 0 99\n")
    assert gaps(check(folder)) == lost, "a checkpoint beyond the end proves nothing"
    starts.unlink()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nmade 0 9\n")
    assert {code for code, _ in gaps(check(folder))} == {"gap-compacted"}


def test_a_segment_beside_its_older_form(tmp_path: Path) -> None:
    folder = log_of(tmp_path, FIRST + THIRD, LAST)
    (folder / f"{0:020}.log.deleted").write_bytes(FIRST + batch_of(range(3, 6)) + THIRD)
    assert check(folder).serious == []


def test_keys_are_looked_at_within_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = log_of(tmp_path, batch_of(range(3)) + again(3, 1) + THIRD, LAST)
    assert gaps(check(folder)) == [("gap-unexplained", "error")]
    monkeypatch.setattr(survey, "MAX_CHECKED_RECORDS", 2)
    assert gaps(check(folder)) == [("gap-unexplained", "warning")]


def test_damage_on_the_way_to_the_keys(tmp_path: Path) -> None:
    """What cannot be read tells nothing, and is told by itself."""
    wrong, undecodable = bytearray(FIRST), bytearray(batch_of(range(3, 6)))
    wrong[-1] ^= 1
    undecodable[61] ^= 0x55
    folder = log_of(tmp_path, bytes(wrong) + sealed(bytes(undecodable)) + b"\7" * 99 + batch_of(range(6, 8)) + LAST)
    (folder / f"{12:020}.log").write_bytes(batch_of(range(12, 13)))
    found = check(folder, DEEP)
    assert {"crc-mismatch", "undecodable-records", "nonsense-block"} <= set(found.codes)


def test_damage_in_a_packed_segment_explains_the_gap_behind_it(tmp_path: Path) -> None:
    """A salvage of the directory would not take the packed file for a segment."""
    data = FIRST + b"\7" * 99 + batch_of(range(6, 8)) + LAST
    path = tmp_path / f"{0:020}.log.gz"
    path.write_bytes(gzip.compress(data))
    assert gaps(check(path)) == [("gap-truncated", "info"), ("gap-unexplained", "warning")]
