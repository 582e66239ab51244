"""Segments of which many batches are broken: taken all at once, they come out as one by one."""

import random
from pathlib import Path

import pytest

from kseg.recovery.salvage import segment_scan
from kseg.recovery.salvage.salvage import Salvage, plan_salvage
from recovery.partitions import START, TRANSACTIONS, at_offset, copy_of, keyed_batch, make

BATCHES = 3000


def planned(partition: Path) -> tuple[Salvage, list[object]]:
    found = plan_salvage(str(partition), START)
    return found, [(step.action, step.file, step.size, [*step.pieces]) for step in found.plan.steps]


def broken(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def damaged(seed: int, share: float) -> list[bytes]:
    """Batches of one to three records: some with wrong checksums, few that are missing, moved or of another offset."""
    R, offset, found = random.Random(seed), 0, list[bytes]()
    for _ in range(BATCHES):
        keys = b"abc"[: R.randint(1, 3)]
        batch = keyed_batch(offset, keys)
        offset += len(keys)
        chance = R.random()
        if chance < share:
            batch = broken(batch)
        elif chance > 0.998:
            batch = at_offset(batch, offset + R.randint(-9, 9))
        elif chance > 0.996:
            batch = b""
        elif chance > 0.994:
            batch += bytes(R.randint(1, 70))
        found.append(batch)
    return found


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_all_at_once_as_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, share: float) -> None:
    batches = damaged(seed, share)
    partition = make(tmp_path / "a-0", {0: batches[:2500], 5000: batches[2500:]})
    fast, fast_steps = planned(partition)
    monkeypatch.setattr(segment_scan, "MANY_BREAKS", 1 << 60)
    slow, slow_steps = planned(partition)
    assert fast_steps == slow_steps
    assert (fast.cuts, fast.more_cuts, fast.plan.gaps) == (slow.cuts, slow.more_cuts, slow.plan.gaps)
    assert (fast.moved, fast.repaired, fast.ambiguous) == (slow.moved, slow.repaired, slow.ambiguous)


def test_batches_that_snapshots_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = copy_of(TRANSACTIONS, tmp_path)
    for path in partition.glob("*.log"):
        data, at, number, found = path.read_bytes(), 0, 0, b""
        while at < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            batch = data[at : at + size]
            found += broken(batch) if number % 2 else batch
            at, number = at + size, number + 1
        path.write_bytes(found)
    monkeypatch.setattr(segment_scan, "MANY_BREAKS", 1 << 60)
    slow, slow_steps = planned(partition)
    monkeypatch.setattr(segment_scan, "MANY_BREAKS", 1)
    fast, fast_steps = planned(partition)
    assert (fast_steps, fast.cuts) == (slow_steps, slow.cuts)
