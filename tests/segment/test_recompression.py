"""The saving by recompression: exact results compared with compression here, samples compared with exact results."""

from pathlib import Path

import pytest

from kseg.formats.compressing import compress, parse_target
from kseg.formats.compression import decompress
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.items import Batch, Damage
from kseg.segment.recompression import Recompression, Saving
from segment.reading import items_at
from segment.segments import TESTDATA

MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log"
TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0/00000000000000001187.log"


def batches(path: Path) -> list[Batch]:
    return [item for item in items_at(path) if not isinstance(item, Damage)]


def save(found: list[Batch], codec: str, **options: int) -> Saving:
    recompression = Recompression(parse_target(codec), MAX_BATCH_BYTES, **options)
    for batch in found:
        recompression.add(batch)
    return recompression.finish()


@pytest.mark.parametrize("codec", ["zstd", "gzip:9", "lz4", "snappy"])
def test_every_batch_is_compressed(codec: str) -> None:
    found = batches(MIXED)
    saving = save(found, codec, jobs=2)
    target = parse_target(codec)
    v2 = [batch for batch in found if batch.magic == 2]
    wrappers = [batch for batch in found if batch.magic < 2 and batch.header.codec and codec != "zstd"]
    after = sum(
        61 + len(compress(target, decompress(batch.header.codec, batch.data[61:], 2, MAX_BATCH_BYTES))) for batch in v2
    )
    assert saving.is_exact
    assert saving.error is None
    assert saving.batches == len(v2) + len(wrappers)
    assert saving.before == sum(batch.size for batch in v2 + wrappers)
    assert saving.before + saving.untouched == sum(batch.size for batch in found)
    if not wrappers:
        assert saving.after == after
    else:
        assert saving.after > after


def test_control_batches_stay() -> None:
    found = batches(TRANSACTIONS)
    saving = save(found, "zstd")
    assert saving.untouched == sum(batch.size for batch in found if batch.is_control) > 0
    assert saving.batches == sum(not batch.is_control for batch in found)


def test_a_sample_comes_near() -> None:
    found = [batch for batch in batches(MIXED) if batch.magic == 2] * 40
    exact, sampled = save(found, "zstd"), save(found, "zstd", sample=100)
    assert 50 <= sampled.sampled <= 200
    assert not sampled.is_exact
    assert sampled.before == exact.before
    assert sampled.error is not None
    assert sampled.error > 0
    assert abs(sampled.after - exact.after) <= 2 * sampled.error


def test_a_sample_larger_than_all_is_exact() -> None:
    found = batches(MIXED)
    assert save(found, "gzip", sample=10_000) == save(found, "gzip")


def test_what_cannot_be_read_stays() -> None:
    found = batches(TESTDATA / "damaged/4.3.1-crcok-gzip-payload-garbage/dgzip-0/00000000000000000227.log")
    broken = [batch for batch in found if batch.check()]
    saving = save(found, "zstd")
    assert broken
    assert saving.untouched == sum(batch.size for batch in broken)
    assert saving.is_exact
