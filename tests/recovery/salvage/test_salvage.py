"""Salvage keeps every batch whose bytes are intact, whatever was done to the files around it: real partitions of all
formats, damaged at random."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given

from examples import fewer
from kseg.recovery.result import Salvage
from kseg.recovery.salvage import salvage as salvage_module
from kseg.recovery.salvage import segment_draft, segment_scan
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.recovery.workspace import TransactionConflictError
from kseg.releases.release import era_of
from kseg.segment.items import Problem
from kseg.segment.survey import DEEP
from kseg.verification.partition import CheckSettings
from kseg.verification.report import ERROR, Finding, Report
from kseg.verification.run import judge_path
from recovery.ambiguity import is_ambiguous, offsets_in, told_offsets
from recovery.damages import (
    Damage,
    Segments,
    broken,
    covered,
    damaged_by,
    first_offset,
    last_offset,
    lists_of_damage,
    read,
    with_epoch,
    with_examples,
    write,
)
from recovery.partitions import (
    NOW_MS,
    START,
    TESTDATA,
    TRANSACTIONS,
    at_offset,
    contents,
    copy_of,
    keyed_batch,
    make,
    real_batches,
    salvage,
)

PARTITIONS = {
    "v2 of 4.3": TESTDATA / "log-directories/4.3.1/logs/dplain-0",
    "transactions": TRANSACTIONS,
    "compacted": TESTDATA / "kafka-4.3.1/compacted/e-idem-0",
    "another client": TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0",
    "formats mixed": TESTDATA / "kafka-1.1.1/format-switch/sw-lz4-0",
    "v0 to v2, codecs mixed": TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0",
    "v1 compressed and compacted": TESTDATA / "kafka-0.10.2.2/codecs/compact-lz4-0",
    "v0 compressed": TESTDATA / "kafka-0.8.2.2/codecs/one-gzip-0",
}


DAMAGES = lists_of_damage(max_size=4)


@contextmanager
def copied(partition: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield copy_of(partition, Path(folder))


def errors_of(directory: Path) -> list[Finding]:
    findings: list[Finding] = []
    judge_path(str(directory), CheckSettings(DEEP, NOW_MS), Report(findings.append))
    return [found for found in findings if found.severity == ERROR]


def home_of(batch: bytes, segments: Segments) -> int:
    return max(base for base in segments if base <= first_offset(batch))


def may_have_a_wrong_offset(batch: bytes, whole: list[bytes], kept: list[bytes]) -> bool:
    """Whether nothing tells a moved message from one whose offset was damaged: in v0 only the offset, which no checksum
    covers, says where it was, and it would not fill a gap exactly."""
    i = whole.index(batch)
    is_beside_a_gap = not all(neighbour in kept for neighbour in [*whole[:i][-1:], *whole[i + 1 : i + 2]])
    return batch[16] == 0 and not batch[17] & 7 and is_beside_a_gap


def assert_all_is_kept(before: Segments, damaged: Segments, after: Segments, found: Salvage, told: set[int]) -> None:
    """Each batch whose bytes are somewhere in the damaged files is there once, in its segment; ``told``: the offsets in
    side files."""
    files = [b"".join(chunks) for chunks in damaged.values()]
    whole, kept = ([batch for base in sorted(files) for batch in files[base]] for files in (before, after))
    places = [(base, covered(batch), first_offset(batch)) for base, chunks in after.items() for batch in chunks]
    for chunks in before.values():
        for batch in chunks:
            if any(batch in file for file in files) and not may_have_a_wrong_offset(batch, whole, kept):
                want = (home_of(batch, after), covered(batch), first_offset(batch))
                assert places.count(want) == 1 or is_ambiguous(batch, whole, damaged, after, found, told)
    known = {covered(batch) for chunks in before.values() for batch in chunks}
    assert {content for _, content, _ in places} <= known
    assert all(last_offset(a) < last_offset(b) for a, b in pairwise(kept))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PARTITIONS)
@fewer(10)
@with_examples("salvage-damages")
@given(damages=DAMAGES)
def test_all_that_is_intact_is_kept(name: str, damages: list[Damage]) -> None:
    with copied(PARTITIONS[name]) as directory:
        before, known = read(directory), {found.code for found in errors_of(PARTITIONS[name])}
        damaged = damaged_by(before, damages)
        write(directory, damaged)
        told = told_offsets(directory)
        found = salvage(directory)
        assert_all_is_kept(before, damaged, read(directory), found, told)
        assert [error for error in errors_of(directory) if error.code not in known] == []
        again = plan_salvage(str(directory), START)
        assert again.cuts == []
        assert not again.plan


def outcome(partition: Path, rows: int) -> object:
    """What a salvage leaves and tells if the scan follows so many batches at once."""
    with copied(partition) as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_scan, "_FEWEST_ROWS", rows)
        found = salvage(directory)
        told = [line.replace(str(directory), "") for line in found.warnings()]
        return contents(directory), told, found.plan.gaps


ROWS = (1, 2, 3, 1024)
DAMAGED = sorted({path.parent for path in (TESTDATA / "damaged").glob("*/*/*.log")})


@pytest.mark.parametrize("partition", DAMAGED, ids=lambda path: path.parent.name)
def test_a_real_damaged_partition_is_the_same_whatever_is_followed_at_once(partition: Path) -> None:
    first, *others = (outcome(partition, rows) for rows in ROWS)
    assert others == [first] * len(others)


@pytest.mark.parametrize("name", PARTITIONS)
@fewer(20)
@given(damages=DAMAGES)
def test_the_result_is_the_same_whatever_is_followed_at_once(name: str, damages: list[Damage]) -> None:
    with copied(PARTITIONS[name]) as directory:
        write(directory, damaged_by(read(directory), damages))
        first, *others = (outcome(directory, rows) for rows in ROWS)
        assert others == [first] * len(others)


def inodes_of(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in directory.glob("*.log")}


@pytest.mark.parametrize("name", PARTITIONS)
def test_an_intact_partition_keeps_its_logs(name: str) -> None:
    with copied(PARTITIONS[name]) as directory:
        before, inodes = read(directory), inodes_of(directory)
        found = salvage(directory)
        assert (read(directory), inodes_of(directory)) == (before, inodes)
        assert (found.cuts, found.repaired, found.moved) == ([], 0, 0)


@pytest.mark.parametrize("name", ["compacted", "v1 compressed and compacted"])
def test_what_a_cleaner_took_elsewhere_is_not_told_as_missing(name: str) -> None:
    """Between two batches that lie end to end as they were a gap is the cleaner's, whatever is wrong elsewhere."""
    before = read(PARTITIONS[name])
    bases = sorted(before)
    for base, behind in pairwise([*bases, None]):
        assert base is not None
        for i, batch in enumerate(before[base][:40]):
            with copied(PARTITIONS[name]) as directory:
                write(directory, {base: [*before[base][:i], broken(batch), *before[base][i + 1 :]]})
                found = plan_salvage(str(directory), START)
            first = offsets_in(before[base][i - 1])[-1] + 1 if i else base
            after = before[base][i + 1 :]
            last = offsets_in(after[0]).start if after else behind
            told = [offset for gap in found.plan.gaps for offset in range(gap[0], gap[1] + 1)]
            assert told == list(range(first, first if last is None else last))


def test_what_is_missing_beside_what_was_moved_or_cut_is_told(tmp_path: Path) -> None:
    """A log that is known to be compacted: its first gap is a cleaner's, the second one lies where bytes were cut."""
    batches = [keyed_batch(first, bytes(range(first, first + 3))) for first in range(0, 33, 3)]
    first = [*batches[:2], *batches[4:6], broken(batches[6]), *batches[8:10]]
    partition = make(tmp_path / "a-0", {0: first, 30: batches[10:]})
    compacted = plan_salvage(str(partition), START, is_compacted=lambda: True)
    assert (compacted.plan.gaps, compacted.is_compacted) == ([(18, 23)], True)
    other = plan_salvage(str(partition), START)
    assert other.plan.gaps == [(6, 11), (18, 23)]


def test_what_is_missing_behind_all_that_a_cleaner_took_is_told(tmp_path: Path) -> None:
    """In a compacted log, where no bytes tell of damage: keys that came before show that no cleaner was there."""
    cleaned = [keyed_batch(0, b"abc"), keyed_batch(6, b"def")]
    dirty = [keyed_batch(offset, b"e") for offset in range(9, 16)]
    segments = {0: cleaned, 9: dirty[:3], 13: [*dirty[4:5], *dirty[6:]], 16: [keyed_batch(16, b"e")]}
    partition = make(tmp_path / "a-0", segments)
    assert plan_salvage(str(partition), START, is_compacted=lambda: True).plan.gaps == [(12, 12), (14, 14)]


def test_what_is_missing_in_the_last_segment_is_told(tmp_path: Path) -> None:
    """No cleaner touches the segment that a broker appends to, also in a compacted log."""
    partition = copy_of(PARTITIONS["v1 compressed and compacted"], tmp_path)
    segments = read(partition)
    del segments[2259][7]
    write(partition, segments)
    assert salvage(partition).plan.gaps == [(2365, 2381)]
    assert errors_of(partition) == []


def test_damage_of_a_file_whose_name_another_segment_gets_is_told(tmp_path: Path) -> None:
    first, second, third, fourth = (real_batches(base) for base in (0, 46, 76, 116))
    partition = make(tmp_path / "a-0", {0: [*first, *third], 46: second, 76: [*fourth[:-1], broken(fourth[-1])]})
    found = salvage(partition)
    assert read(partition) == {0: first, 46: second, 76: third, 116: fourth[:-1]}
    at = sum(map(len, fourth[:-1]))
    assert [(cut.file, cut.position, cut.length) for cut in found.cuts] == [(f"{76:020d}.log", at, len(fourth[-1]))]
    assert found.moved == 1


FIRST, SECOND, V0 = real_batches(0), real_batches(46), read(PARTITIONS["v0 compressed"])[0]
LATE = with_epoch(FIRST[-1], 5)
REPAIRED: dict[str, tuple[Segments, Segments, int]] = {
    "whole segments in each other's files": ({0: SECOND, 46: FIRST}, {0: FIRST, 46: SECOND}, 0),
    "a wrong base offset": ({0: [*FIRST[:4], at_offset(FIRST[4], 7_000_000), *FIRST[5:]]}, {0: FIRST}, 1),
    "a single offset that is too high": ({0: [*FIRST[:-1], at_offset(FIRST[-1], 1 << 40)]}, {0: FIRST}, 1),
    "a wrong leader epoch": ({0: [*FIRST[:4], with_epoch(FIRST[4], 2313), *FIRST[5:]]}, {0: FIRST}, 1),
    "an epoch of its own in a batch moved between others": (
        {0: [*FIRST[:4], LATE, *FIRST[4:-1]]}, {0: [*FIRST[:-1], LATE]}, 0,
    ),
    "offset and length of a v0 set, whose inner offsets are under its checksum": (
        {0: [V0[0], b"\1\1" + V0[1][2:9] + b"\x85" + V0[1][10:], *V0[2:]]}, {0: V0}, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPAIRED)
def test_batches_in_wrong_places_and_wrong_headers(name: str, tmp_path: Path) -> None:
    before, after, repaired = REPAIRED[name]
    partition = make(tmp_path / "a-0", before)
    assert salvage(partition).repaired == repaired
    assert read(partition) == after


def test_all_that_is_left_of_a_segment_lies_alone_in_another(tmp_path: Path) -> None:
    """Nothing beside it tells where it belongs, but it does; its place is behind all that is left."""
    source = PARTITIONS["v1 compressed and compacted"]
    partition = copy_of(source, tmp_path)
    batches = read(partition)[2259]
    write(partition, {0: [batches[1]], 2259: []})
    salvage(partition)
    after = read(partition)
    assert (after.get(0, []), after[2259]) == ([], [batches[1]])


def test_a_length_that_swallows_the_batches_behind(tmp_path: Path) -> None:
    batches = real_batches(0)
    behind = sum(map(len, batches[4:7]))
    long = batches[3][:8] + (len(batches[3]) + behind - 12).to_bytes(4, "big") + batches[3][12:]
    partition = make(tmp_path / "a-0", {0: [*batches[:3], long, *batches[4:]]})
    salvage(partition)
    kept = read(partition)[0]
    assert kept[:3] == batches[:3]
    assert kept[-len(batches[4:]) :] == batches[4:]


@pytest.mark.parametrize("number", [0, 3])
def test_a_batch_that_lost_a_zero_at_its_end_and_has_one_of_the_next(tmp_path: Path, number: int) -> None:
    batches = [keyed_batch(first, b"abc") for first in range(0, 15, 3)]
    assert batches[number][-1] == batches[number + 1][0] == 0
    damaged = [batch[:-1] if i == number else batch for i, batch in enumerate(batches)]
    partition = make(tmp_path / "a-0", {0: damaged, 15: [keyed_batch(15, b"abc")]})
    assert salvage(partition).plan.gaps == []
    assert read(partition) == {0: batches, 15: [keyed_batch(15, b"abc")]}
    assert errors_of(partition) == []


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("is_followed", [False, True])
def test_offsets_that_run_over_what_an_index_can_hold(tmp_path: Path, is_followed: bool, is_damaged: bool) -> None:
    """They make segments of their own, and their batches stay in the old file no longer."""
    far = 1 << 32
    batches = real_batches(0)
    near = batches[:3]
    behind = [at_offset(batch, far + 100 * k) for k, batch in enumerate(batches[3:6])]
    farther = [at_offset(batch, 3 * far + 100 * k) for k, batch in enumerate(batches[6:8])]
    last = {9 * far: [at_offset(batches[0], 9 * far)]} if is_followed else {}
    partition = make(tmp_path / "a-0", {0: [*near, *behind[:2], *[broken(batches[5])] * is_damaged, *farther], **last})
    salvage(partition)
    assert read(partition) == {0: near, far: behind[:2], 3 * far: farther, **last}
    assert errors_of(partition) == []
    assert not plan_salvage(str(partition), START).plan


def test_more_gaps_than_are_recorded_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = min(real_batches(0), key=len)
    step = last_offset(batch) - first_offset(batch) + 1
    chunks = [at_offset(broken(batch) if i % 2 else batch, i * step) for i in range(5000)]
    partition = make(tmp_path / "a-0", {0: chunks})
    assert len(plan_salvage(str(partition), START).plan.gaps) == 2499
    monkeypatch.setattr(segment_draft, "MAX_GAPS", 1000)
    found = salvage(partition)
    assert read(partition) == {0: chunks[::2]}
    assert found.plan.gaps == [(step, 4998 * step - 1)]
    assert not plan_salvage(str(partition), START).plan
    shutil.rmtree(partition)


def test_conflicts_of_transactions_in_every_attempt_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list[object]()

    class Conflicting:
        filling: object = None

        def __init__(self, *inputs: object) -> None:
            kept.append(inputs[-1])

        def plan(self) -> Salvage:
            raise TransactionConflictError("another producer's transaction is open")

        def transaction_conflicts(self) -> dict[int, Problem]:
            return {}

    monkeypatch.setattr(salvage_module, "Attempt", Conflicting)
    with pytest.raises(TransactionConflictError):
        plan_salvage("a-0", START)
    assert kept == [True, False, False]


@pytest.mark.parametrize("release", ["2.2", "2.4", "2.8.2"])
def test_rules_that_ask_for_the_format_of_a_rewritten_log(release: str, tmp_path: Path) -> None:
    """A broker of these releases looks at the newest batch before it replays producers."""
    partition = copy_of(TESTDATA / "damaged/1.1.1-insert-nonsense-dt/dt-0", tmp_path)
    found = plan_salvage(str(partition), replace(START, era=era_of(release)))
    assert any(step.action == "replace" and step.file.endswith(".log") for step in found.plan.steps)
