"""The steps of a load, one by one, on small partitions."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cli.command import flip
from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.planner import reindex
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.recovery.workspace import BrokerRefusesError, Workspace
from kseg.releases.release import Era, era_of
from kseg.sidefiles.checkpoints import LEADER_EPOCHS
from recovery.damages import broken, last_offset
from recovery.partitions import START, TESTDATA, TRANSACTIONS, at_offset, contents, copy_of, make, real_batches, recover

BASE = 46
FIRST, SECOND = real_batches(0), real_batches(BASE)
STEM, NEXT = f"{0:020d}", f"{BASE:020d}"


def logs_in(directory: Path) -> dict[str, bytes]:
    """The contents of segments, .swap included, by name."""
    return {path.name: path.read_bytes() for path in directory.glob("*.log*")}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = make(tmp_path / "orders-0", {0: FIRST, BASE: SECOND})
    recover(directory)
    return directory


@pytest.mark.parametrize(
    "name", [f"{STEM}.log.deleted", f"{STEM}.log.cleaned", f"{STEM}.index.cleaned", f"{7:020d}.index"]
)
def test_leftovers_and_orphaned_indexes_go(partition: Path, name: str) -> None:
    before = contents(partition)
    (partition / name).write_bytes(b"left")
    recover(partition)
    assert contents(partition) == before


@pytest.mark.parametrize(
    ("name", "era"), [(f"{10:020d}-0000000001.checkpoint.deleted", START.era), (f"{STEM}.log.deleted", era_of("0.8.0"))]
)
def test_snapshots_of_metadata_and_what_the_first_kafka_does_not_know_stay(
    partition: Path, name: str, era: Era
) -> None:
    (partition / name).write_bytes(b"kept")
    recover(partition, era=era, was_clean=era != START.era)
    assert (partition / name).read_bytes() == b"kept"


@pytest.mark.parametrize("version", ["0.9.0", "0.11.0", "1.1", "2.0", "2.8", "4.4"])
def test_a_swap_takes_the_place_of_the_segments_in_its_range(partition: Path, version: str) -> None:
    merged = b"".join([*FIRST[:3], *SECOND]) if version != "0.9.0" else b""
    (partition / f"{STEM}.log.swap").write_bytes(merged)
    recover(partition, era=era_of(version), was_clean=True)
    found = logs_in(partition)
    assert found.pop(f"{STEM}.log") == merged
    assert set(found) <= {f"{NEXT}.log"}
    assert version != "4.4" or (found == {} and (partition / f"{STEM}.index").read_bytes())


@pytest.mark.parametrize("version", ["0.9.0", "1.1", "2.0", "2.8"])
def test_older_brokers_keep_the_segment_below_a_swap(partition: Path, version: str) -> None:
    batches = SECOND[:2] if version != "0.9.0" else []
    (partition / f"{NEXT}.log.swap").write_bytes(b"".join(batches))
    recover(partition, era=era_of(version), was_clean=True)
    assert logs_in(partition) == {f"{STEM}.log": b"".join(FIRST), f"{NEXT}.log": b"".join(batches)}


def test_a_swap_from_the_lowest_cleaned_on_goes(partition: Path) -> None:
    before = contents(partition)
    (partition / f"{NEXT}.log.swap").write_bytes(b"".join(SECOND[:2]))
    (partition / f"{STEM}.log.cleaned").write_bytes(b"")
    recover(partition)
    assert contents(partition) == before


@pytest.mark.parametrize(("version", "goes"), [("0.11.0", True), ("1.0", True), ("1.1", False)])
def test_until_1_1_the_index_of_a_swap_goes(partition: Path, version: str, goes: bool) -> None:
    """Later brokers leave it where it is, and rebuild the index of the .log."""
    index = (partition / f"{STEM}.index").read_bytes()
    (partition / f"{STEM}.index.swap").write_bytes(bytes(8))
    recover(partition, era=era_of(version), was_clean=True)
    assert (partition / f"{STEM}.index.swap").exists() != goes
    assert ((partition / f"{STEM}.index").read_bytes() == index) == goes


def test_a_recovered_swap_below_all_segments_is_not_the_active_one(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0", {BASE: SECOND})
    (directory / f"{STEM}.log.swap").write_bytes(b"".join(FIRST))
    found = recover(directory, era=era_of("2.0"))
    assert found.next_offset == last_offset(SECOND[-1]) + 1
    assert logs_in(directory) == {f"{STEM}.log": b"".join(FIRST), f"{NEXT}.log": b"".join(SECOND)}


@pytest.mark.parametrize(("version", "goes"), [("2.0", False), ("2.1", True), ("2.8", True), ("3.9", False)])
def test_brokers_of_2_1_to_2_8_delete_the_epochs_of_old_formats(tmp_path: Path, version: str, goes: bool) -> None:
    directory = copy_of(TESTDATA / "kafka-0.10.2.2/codecs/compact-lz4-0", tmp_path)
    (directory / LEADER_EPOCHS).write_text("0\n1\n0 0\n")
    recover(directory, era=era_of(version))
    assert (directory / LEADER_EPOCHS).exists() != goes


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_lost_index_is_rebuilt_after_a_clean_stop(partition: Path, kind: str) -> None:
    before = contents(partition)
    (partition / (STEM + kind)).unlink()
    recover(partition, was_clean=True)
    assert contents(partition) == before


@pytest.mark.parametrize(
    ("content", "version", "why"),
    [(None, "0.8.0", "has no index"), (bytes(8), "0.8.2", "the last entry is at offset 0")],
)
def test_a_lost_or_bad_index_stopped_old_releases(
    partition: Path, content: bytes | None, version: str, why: str
) -> None:
    (partition / f"{STEM}.index").unlink()
    if content is not None:
        (partition / f"{STEM}.index").write_bytes(content)
    with pytest.raises(BrokerRefusesError, match=why):
        recover(partition, era=era_of(version), was_clean=True)


@pytest.mark.parametrize(
    ("version", "is_rebuilt"), [("0.9.0", True), ("0.10.2", True), ("1.1", True), ("2.2", False), ("2.3", False)]
)
def test_zeroed_indexes(tmp_path: Path, version: str, is_rebuilt: bool) -> None:
    """Up to 1.1 a last entry at the base offset is wrong; 2.0 to 2.2 find nothing in it, later ones don't look."""
    directory, index = make(tmp_path / "orders-0", {0: FIRST}), tmp_path / "orders-0" / f"{STEM}.index"
    recover(directory, era=era_of(version))
    zeros = bytes(max(index.stat().st_size, 8))
    index.write_bytes(zeros)
    recover(directory, era=era_of(version), was_clean=True)
    assert (index.read_bytes() != zeros) is is_rebuilt


def test_what_goes_is_dropped_before_anything_is_cut(partition: Path) -> None:
    """Killed in between, the next run still finds the damage."""
    path = partition / f"{STEM}.log"
    path.write_bytes(path.read_bytes()[:-5])
    steps = recover(partition).plan.steps
    dropped = [k for k, step in enumerate(steps) if step.file == f"{NEXT}.log"]
    cut = [k for k, step in enumerate(steps) if step.action == "truncate" and step.file == f"{STEM}.log"]
    assert dropped < cut


def test_the_first_kafka_scans_the_last_segment_only(partition: Path) -> None:
    for path in partition.glob("*.*index"):
        path.write_bytes(b"")
    found = recover(partition, era=era_of("0.8.0"))
    assert found.scanned == [f"{NEXT}.log"]


def test_a_repeated_batch_empties_the_segment(tmp_path: Path) -> None:
    """Where the index refuses an offset that does not rise; and stops a broker that has no index to begin with."""
    directory = make(tmp_path / "orders-0", {0: [*FIRST, *FIRST], BASE: SECOND})
    with pytest.raises(BrokerRefusesError, match="has lost an index"):
        recover(directory, interval_bytes=100)
    for stem in (STEM, NEXT):
        for kind in (".index", ".timeindex"):
            (directory / (stem + kind)).write_bytes(b"")
    found = recover(directory, interval_bytes=100)
    assert (directory / f"{STEM}.log").read_bytes() == b""
    assert [(cut.position, cut.dropped) for cut in found.cuts] == [(0, [f"{NEXT}.log"])]
    assert found.next_offset == 0


def test_garbage_behind_a_clean_log_stops_a_broker(partition: Path) -> None:
    path = partition / f"{NEXT}.log"
    whole = path.read_bytes()
    path.write_bytes(whole + b"\xff" * 100)
    with pytest.raises(BrokerRefusesError, match="--full"):
        recover(partition, was_clean=True)
    recover(partition)
    assert path.read_bytes() == whole


def test_a_wrong_checksum_does_not_hide_the_end_of_a_clean_log(partition: Path) -> None:
    flip(partition / f"{NEXT}.log", -1)
    assert recover(partition, was_clean=True).next_offset == last_offset(SECOND[-1]) + 1


@pytest.mark.parametrize(("version", "is_dropped"), [("2.1", False), ("2.2", True)])
def test_up_to_2_1_a_log_below_its_start_offset_stays(partition: Path, version: str, is_dropped: bool) -> None:
    before = sorted(path.name for path in partition.glob("*.log"))
    recover(partition, log_start_offset=10_000, era=era_of(version))
    after = sorted(path.name for path in partition.glob("*.log"))
    assert after == ([f"{10_000:020d}.log"] if is_dropped else before)


@pytest.mark.parametrize(("version", "entries"), [("2.0", ["0 0"]), ("2.1", []), ("2.5", []), ("2.6", ["0 0"])])
def test_from_2_1_to_2_5_a_scan_learns_no_epoch_0(partition: Path, version: str, entries: list[str]) -> None:
    """LogSegment.recover then took epochs above 0 only."""
    path = partition / LEADER_EPOCHS
    path.unlink(missing_ok=True)
    recover(partition, era=era_of(version))
    assert (path.read_text().splitlines()[2:] if path.exists() else []) == entries


def test_an_empty_directory_gets_a_segment(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0", {})
    assert recover(directory).next_offset == 0
    assert (directory / f"{STEM}.log").read_bytes() == b""


@pytest.mark.parametrize("name", ["abc.log", "-+5.log", "99999999999999999999.log", "+.index", "abc.snapshot"])
def test_a_name_that_is_no_offset_is_refused(partition: Path, name: str) -> None:
    (partition / name).write_bytes(b"")
    with pytest.raises(BrokerRefusesError):
        recover(partition)


@pytest.mark.parametrize("name, stem", [("1.log", f"{1:020d}"), ("-1.log", "-" + f"{1:020d}")])
def test_a_name_of_fewer_digits_begins_an_empty_segment(partition: Path, name: str, stem: str) -> None:
    shutil.copy(partition / f"{STEM}.log", partition / name)
    before = contents(partition)
    found = recover(partition)
    assert name in found.unrepaired
    assert (partition / f"{stem}.log").read_bytes() == b""
    assert (partition / f"{stem}.index").exists()
    assert all(contents(partition)[log] == data for log, data in before.items() if log.endswith(".log"))


def test_salvage_keeps_a_snapshot_whose_name_is_no_offset_in_quarantine(partition: Path) -> None:
    (partition / "abc.snapshot").write_bytes(b"x")
    steps = plan_salvage(str(partition), START).plan.steps
    assert [step.file for step in steps if step.action == "delete"] == ["abc.snapshot"]


@pytest.mark.parametrize(
    ("changed", "era", "is_rewritten"),
    [
        (lambda right: right[:34] + b"\0\1" + right[36:], "4.4", True),
        (lambda right: right[:34] + b"\xff\xff" + right[36:], "4.4", True),
        (lambda right: right[:34] + b"\0\1" + right[36:], "4.3", False),
        (lambda _: b"\xff" * 48, "4.4", True),
        (lambda _: b"\xff" * 48, "4.3", True),
    ],
)
def test_versions_that_stop_4_4_and_what_stops_any_are_rewritten(
    tmp_path: Path, changed: Callable[[bytes], bytes], era: str, is_rewritten: bool
) -> None:
    directory = copy_of(TRANSACTIONS, tmp_path)
    path = min(directory.glob("*.txnindex"))
    right = path.read_bytes()
    path.write_bytes(wrong := changed(right))
    recover(directory, now_ms=0, was_clean=True, era=era_of(era))
    assert path.read_bytes() == (right if is_rewritten else wrong)


def test_other_wrong_entries_with_a_wrong_version_are_refused(tmp_path: Path) -> None:
    directory = copy_of(TRANSACTIONS, tmp_path)
    path = min(directory.glob("*.txnindex"))
    path.write_bytes(wrong := b"\xff\xff" + bytes(8) + b"\x7f" * 8 + b"\x07" * 16)  # it ends before its first offset
    with pytest.raises(BrokerRefusesError, match="version that stops a broker"):
        recover(directory, now_ms=0, was_clean=True)
    assert path.read_bytes() == wrong


@pytest.mark.parametrize(("topic", "era", "is_kept"), [
    ("__cluster_metadata-0", "4.4", True), ("__cluster_metadata-0", "4.3", False), ("orders-0", "4.4", False),
])  # fmt: skip
def test_since_4_4_active_metadata_indexes_stay_open(partition: Path, topic: str, era: str, is_kept: bool) -> None:
    """4.4 leaves them preallocated at a clean stop, and the time index without its last entry."""
    directory = partition.rename(partition.with_name(topic))
    index, times = directory / f"{NEXT}.index", directory / f"{NEXT}.timeindex"
    index.write_bytes(index.read_bytes() + bytes(80))
    times.write_bytes(times.read_bytes()[:-12] + bytes(120))
    workspace = Workspace(str(directory))
    reindex(workspace, replace(START, was_clean=True, era=era_of(era)))
    assert not workspace.plan() if is_kept else len(workspace.plan().steps) == 2


def test_a_batch_larger_than_a_window_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.recovery.broker.segments.LARGEST_WINDOW_BYTES", 64)
    monkeypatch.setattr("kseg.stores.windows.LARGEST_WINDOW_BYTES", 64)
    monkeypatch.setattr("kseg.stores.windows.WINDOW_BYTES", 64)
    directory = make(tmp_path / "orders-0", {0: FIRST})
    assert recover(directory).cuts == []


def test_the_end_of_a_log_of_wrong_checksums_is_found(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0", {0: list(map(broken, FIRST))})
    segment = BrokerSegment(Workspace(str(directory)), STEM, 0)
    assert segment.log_end().offset == last_offset(FIRST[-1]) + 1


def test_v2_is_damage_to_a_broker_that_does_not_know_it(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0", {0: FIRST})
    recover(directory, era=era_of("0.10.2"))
    assert (directory / f"{STEM}.log").read_bytes() == b""


# Segments whose offsets run over 2^31 - 1 above the base: split where a broker splits them, refused where it fails.

FAR = 1 << 32
BATCHES = [*real_batches(0), *real_batches(46)]
NEAR = BATCHES[:3]
BEHIND = [at_offset(batch, FAR + 100 * k) for k, batch in enumerate(BATCHES[3:6])]
FARTHER = [at_offset(batch, 3 * FAR + 100 * k) for k, batch in enumerate(BATCHES[6:8])]


PARTS = {0: NEAR, FAR: BEHIND, 3 * FAR: FARTHER}


@pytest.mark.parametrize(
    ("batches", "was_clean", "parts"),
    [
        pytest.param([*NEAR, *BEHIND, *FARTHER], False, PARTS, id="unclean"),
        pytest.param([*NEAR, *BEHIND, *FARTHER], True, PARTS, id="clean"),
        pytest.param([*BEHIND, *FARTHER], False, {FAR: BEHIND, 3 * FAR: FARTHER}, id="no part keeps the name"),
        pytest.param([*NEAR, BEHIND[0], broken(BEHIND[1]), *FARTHER], False, {0: NEAR, FAR: BEHIND[:1]}, id="damaged"),
    ],
)
def test_each_part_begins_with_the_batch_that_did_not_fit(
    tmp_path: Path, batches: list[bytes], was_clean: bool, parts: dict[int, list[bytes]]
) -> None:
    directory = make(tmp_path / "orders-0", {0: batches})
    if 0 not in parts:  # then no index may stay
        for suffix in (".index", ".timeindex", ".txnindex"):
            (directory / f"{0:020d}{suffix}").write_bytes(bytes(24))
    found = recover(directory, was_clean=was_clean)
    assert logs_in(directory) == {f"{base:020d}.log": b"".join(each) for base, each in parts.items()}
    assert {int(path.stem) for path in directory.glob("*.*index")} == set(parts)
    assert (found.cuts == []) is (3 * FAR in parts)
    assert not recover(directory).plan


MOVED = [at_offset(batch, 500 + 100 * k) for k, batch in enumerate(NEAR)]


@pytest.mark.parametrize(
    ("segments", "why"),
    [
        pytest.param({500: [*MOVED, NEAR[0]]}, "not too high", id="an offset below the base"),
        pytest.param({0: [*NEAR, *BEHIND, BEHIND[0][:15]]}, "looks for one", id="a torn end"),
        pytest.param({0: [*NEAR, *BEHIND], FAR: BEHIND}, "take the path", id="a part in the place of a segment"),
    ],
)
def test_a_split_at_which_a_broker_fails_is_refused(tmp_path: Path, segments: dict[int, list[bytes]], why: str) -> None:
    directory = make(tmp_path / "orders-0", segments)
    before = contents(directory)
    with pytest.raises(BrokerRefusesError, match=why):
        recover(directory)
    assert contents(directory) == before


def test_older_brokers_keep_the_low_bits(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0", {0: [*NEAR, *BEHIND]})
    found = recover(directory, era=era_of("1.1"), interval_bytes=100)
    assert found.cuts == []
    assert [path.name for path in directory.glob("*.log")] == [f"{0:020d}.log"]
