"""The whole plan and the whole JSON objects of a partition whose older half a broker deleted."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kseg.changes.plan import DELETE, RENAME, Removed
from kseg.errors import KsegError
from kseg.releases.release import RetentionRules
from kseg.retention import planner
from kseg.retention.planner import (
    KnownOffsets,
    Limits,
    RetainOptions,
    Retention,
    RetentionRequest,
    amounts,
    explain,
    partition_row,
    retain,
    settings_of,
)
from retention.partitions import NOW_MS, RETENTION

DIRECTORY = RETENTION / "before" / "r-time-half-0"
LOGS = sorted(DIRECTORY.glob("*.log"))
BASES, END, GONE = [int(path.stem) for path in LOGS], 500, 4
SIZES = [path.stat().st_size for path in LOGS]
HOUR = RetentionRequest(Limits(retention_ms=3_600_000), RetentionRules(), NOW_MS)
UNKNOWN = KnownOffsets()


def planned(request: RetentionRequest = HOUR, known: KnownOffsets = UNKNOWN, directory: Path = DIRECTORY) -> Retention:
    return retain(str(directory), known, request)


def expected_ranges() -> list[tuple[str, int, int, int | None, int | None]]:
    return [(LOGS[i].name, 0, SIZES[i], BASES[i], BASES[i + 1] - 1) for i in range(GONE)]


def ranges(found: Retention) -> list[tuple[str, int, int, int | None, int | None]]:
    steps = [(step, step.removed[0]) for step in found.plan.steps if step.removed]
    return [(step.file, one.position, one.length, one.first_offset, one.last_offset) for step, one in steps]


@pytest.mark.parametrize("frees", [False, True])
def test_the_whole_plan(frees: bool) -> None:
    found, expected = planned(replace(HOUR, frees=frees)), []
    names = {path.name for path in DIRECTORY.iterdir()}
    for base in BASES[:GONE]:
        for kind in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
            name = f"{base:020d}{kind}"
            if name in names:
                is_renamed = not frees
                expected.append((RENAME, name, name + ".deleted") if is_renamed else (DELETE, name, ""))
    epochs = [step for step in found.plan.steps if step.file == "leader-epoch-checkpoint"]
    others = [step for step in found.plan.steps if step not in epochs]
    assert [(step.action, step.file, step.target or "") for step in others] == expected
    assert all(step.keeps is not frees for step in others)
    assert ranges(found) == expected_ranges()
    reasons = [step.reason for step in others if step.file.endswith(".log")]
    newest = [segment.largest_offset for segment in found.log.segments[:GONE]]
    assert [reason.split(" is ")[0] for reason in reasons] == [f"its newest record (offset {n})" for n in newest]
    assert {reason.split(", ")[1] for reason in reasons} == {"retention.ms is 1 h 0 min"}
    assert {step.reason for step in others if not step.file.endswith(".log")} == {"deleted with its .log"}
    assert (found.first_base, found.selection.log_start_offset) == (BASES[GONE], BASES[GONE])


def test_a_plan_by_size_and_one_by_log_start() -> None:
    by_size = planned(replace(HOUR, limits=Limits(retention_bytes=sum(SIZES[GONE:]))))
    assert ranges(by_size) == expected_ranges()
    by_start = planned(replace(HOUR, limits=Limits(), log_start_offset=BASES[GONE]))
    assert ranges(by_start) == expected_ranges()
    texts = ({step.reason for step in found.plan.steps if step.file.endswith(".log")} for found in (by_size, by_start))
    assert list(texts) == [
        {f"the log holds retention.bytes ({sum(SIZES[GONE:])} bytes) without it"},
        {f"below the log start offset {BASES[GONE]}"},
    ]


def test_all_segments_and_the_one_that_begins_at_the_end() -> None:
    found = planned(replace(HOUR, limits=Limits(retention_bytes=0)))
    made = sorted((step.file, step.size) for step in found.plan.steps if step.file.startswith(f"{END:020d}"))
    assert made == [(f"{END:020d}{kind}", 0) for kind in (".index", ".log", ".timeindex")]
    assert found.first_base == END
    assert [span.size for span in found.left] == [0]
    (last,) = [step.removed for step in found.plan.steps if step.file == LOGS[-1].name]
    assert last == (Removed(0, SIZES[-1], "", BASES[-1], END - 1),)


@pytest.mark.parametrize("wanted", [END, END + 1])
@pytest.mark.parametrize("watermark", [None, END - 1, END])
def test_a_log_start_above_the_high_watermark_is_refused(wanted: int, watermark: int | None) -> None:
    request = replace(HOUR, limits=Limits(), log_start_offset=wanted)
    if wanted <= (END if watermark is None else watermark):
        assert planned(request, KnownOffsets(None, watermark)).log.log_start_offset == wanted
        return
    with pytest.raises(KsegError, match="log end, 500" if watermark != END - 1 else "high watermark, 499"):
        planned(request, KnownOffsets(None, watermark))


def test_the_state_of_a_log() -> None:
    for known, start, watermark in [
        (KnownOffsets(), 0, END),
        (KnownOffsets(7, 9), 7, 9),
        (KnownOffsets(9, 7), 9, 9),
        (KnownOffsets(-1, END + 1), 0, END),
        (KnownOffsets(END, None), END, END),
    ]:
        found = planned(replace(HOUR, limits=Limits()), known).log
        assert (found.log_start_offset, found.high_watermark, found.end_offset) == (start, watermark, END)


def test_a_segment_of_no_offsets_has_no_range(tmp_path: Path) -> None:
    partition = Path(shutil.copytree(DIRECTORY, tmp_path / "orders-0"))
    for path in partition.glob(f"{BASES[-1]:020d}.*index"):
        path.unlink()
    (partition / LOGS[-1].name).write_bytes(LOGS[-1].read_bytes()[:5])
    found = retain(str(partition), KnownOffsets(), replace(HOUR, limits=Limits(retention_bytes=6)))
    assert found.log.end_offset == BASES[-1]
    assert found.log.damaged_at == 0


def test_the_whole_objects() -> None:
    found = planned(HOUR, KnownOffsets(3, 490))
    settings = settings_of("r-time-half", {"retention.bytes": "-1"}.get, RetainOptions(retention_ms=3_600_000))
    amount = amounts(found, False)
    assert partition_row(found, settings, NOW_MS, amount) == {
        "type": "retention",
        "directory": str(DIRECTORY),
        "segments": len(BASES),
        "bytes": sum(SIZES),
        "logStartOffset": 3,
        "highWatermark": 490,
        "logEndOffset": END,
        "cleanupPolicy": "delete",
        "retentionMs": 3_600_000,
        "retentionBytes": -1,
        "sources": {"cleanup.policy": "default", "retention.ms": "option", "retention.bytes": "topic"},
        "now": NOW_MS,
        "goes": GONE,
        "rolls": False,
        "segmentsAfter": len(BASES) - GONE,
        "bytesAfter": sum(SIZES[GONE:]),
        "records": END - BASES[0],
        "recordsAfter": END - BASES[GONE],
    }
    without = partition_row(found, settings, NOW_MS, None)
    assert (without["records"], without["recordsAfter"]) == (None, None)
    rows = list(explain(found, HOUR, amount.counts))
    assert [row["records"] for row in rows] == [upper - base for base, upper in pairwise([*BASES, END])]
    assert [row["held"] for row in rows] == [None] * (len(BASES) - 1) + ["high watermark"]
    assert [row["rule"] for row in rows] == ["time"] * GONE + [None] * (len(BASES) - GONE)
    assert all(BASES[i] <= row["recordOffset"] <= row["lastOffset"] for i, row in enumerate(rows))


@pytest.mark.parametrize("is_asked", [False, True])
def test_records_of_a_log_above_the_limit_are_counted_on_request(
    is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention = planned()
    monkeypatch.setattr(planner, "UNASKED_BYTES", retention.log.size - 1)
    found = amounts(retention, is_asked)
    assert found.records == ((500, 233) if is_asked else None)
    assert found.segments == (8, 4)
    monkeypatch.setattr(planner, "UNASKED_BYTES", retention.log.size)
    assert amounts(retention, False).records == (500, 233)
