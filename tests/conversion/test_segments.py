"""Conversion of segments; the records that real consumers received must still be there."""

import random
import shutil
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from conversion.conversions import TESTDATA, a_log, batches_of, consumed, convert, counted, files, records_of
from kseg.errors import DamageError, UnsupportedError
from kseg.segment.items import RecordBatch
from recovery.partitions import recover
from segment.segments import entries, sealed

V2 = ("kafka-4.3.1/clients/librdkafka-txn-0", "kafka-4.3.1/codecs/codec-mix-0", "kafka-4.3.1/compacted/e-txn-0",
      "kafka-0.11.0.3/txn/lat-gzip-0", "kafka-1.1.1/txn/txn-open-0")  # fmt: skip
OLD = ("kafka-0.8.2.2/codecs/one-mixcodec-0", "kafka-0.8.2.2/codecs/compact-0", "kafka-0.8.2.2/codecs/one-lz4-0",
       "kafka-0.10.2.2/codecs/compact-lat-snappy-0", "kafka-0.10.2.2/codecs/rec-uncompressed-0",
       "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0", "kafka-1.1.1/format-switch/sw-lz4-0")  # fmt: skip
PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "zstd:19")
FIELDS = ("base_offset", "partition_leader_epoch", "last_offset_delta", "base_timestamp", "max_timestamp",
          "producer_id", "producer_epoch", "base_sequence", "record_count", "is_transactional", "is_control",
          "is_log_append_time", "delete_horizon_ms")  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("source", V2)
def test_another_codec_changes_nothing_else(tmp_path: Path, source: str, codec: str) -> None:
    made = convert(TESTDATA / source, tmp_path / "x-0", codec)
    before, after = batches_of(TESTDATA / source), batches_of(tmp_path / "x-0")
    assert len(before) == len(after) > 0
    for old, new in zip(before, after, strict=True):
        assert [getattr(old.header, name) for name in FIELDS] == [getattr(new.header, name) for name in FIELDS]
        assert isinstance(old, RecordBatch)
        assert isinstance(new, RecordBatch)
        assert bytes(memoryview(old._open()[0])[old._open()[1] :]) == memoryview(new._open()[0])[new._open()[1] :]
        is_bare = new.is_control or not new.header.record_count
        assert new.compression == (old.compression if is_bare else codec.partition(":")[0])
    assert counted(records_of(tmp_path / "x-0")) == consumed(TESTDATA / source)
    assert not made.losses


@pytest.mark.parametrize("source", [*V2, *OLD])
@pytest.mark.parametrize("asked", [{"magic": 2}, {"magic": 2, "batch_bytes": 3000}, {"codec": "gzip", "magic": 2}])
def test_up_conversion_keeps_every_record(tmp_path: Path, source: str, asked: dict[str, object]) -> None:
    convert(TESTDATA / source, tmp_path / "x-0", **asked)
    assert counted(records_of(tmp_path / "x-0")) == consumed(TESTDATA / source)
    assert {batch.magic for batch in batches_of(tmp_path / "x-0")} == {2}


@pytest.mark.sampled(19)
@pytest.mark.parametrize("codec", [None, "none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("source", [*V2, *OLD])
def test_down_conversion_keeps_what_it_can(tmp_path: Path, source: str, magic: int, codec: str | None) -> None:
    convert(TESTDATA / source, tmp_path / "x-0", codec, magic=magic, is_lossy=True)
    got = records_of(tmp_path / "x-0", with_headers=False, with_times=magic > 0)
    want = [(offset, time if magic else None, key, value, []) for offset, time, key, value, _ in
            consumed(TESTDATA / source)]  # fmt: skip
    assert got == want
    assert {batch.magic for batch in batches_of(tmp_path / "x-0")} == {magic}


def test_a_message_becomes_a_batch_as_in_the_cleaner(tmp_path: Path) -> None:
    source = TESTDATA / "kafka-0.8.2.2/codecs/one-mixcodec-0"
    convert(source, tmp_path / "x-0", magic=2)
    old, new = batches_of(source), batches_of(tmp_path / "x-0")
    assert [batch.last_offset for batch in old] == [batch.last_offset for batch in new]
    assert [batch.compression for batch in old] == [batch.compression for batch in new]
    for batch in new:
        assert (batch.timestamp_type, batch.max_timestamp) == ("CreateTime", -1)
        assert (batch.header.producer_id, batch.header.partition_leader_epoch) == (-1, -1)


def test_uncompressed_messages_are_grouped_for_compression(tmp_path: Path) -> None:
    source = TESTDATA / "kafka-0.8.2.2/codecs/one-none-0"
    convert(source, tmp_path / "x-0", "gzip", magic=1)
    assert 1 <= len(batches_of(tmp_path / "x-0")) < len(batches_of(source)) / 4


def test_old_messages_have_no_zstd(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="--to v2"):
        convert(TESTDATA / "kafka-0.8.2.2/codecs/one-gzip-0", tmp_path / "x-0", "zstd")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_there_and_back_again(tmp_path: Path, codec: str) -> None:
    convert(PLAIN, tmp_path / "x-0", codec)
    assert files(tmp_path / "x-0", ".log") != files(PLAIN, ".log")
    convert(tmp_path / "x-0", tmp_path / "y-0", "none")
    assert {path.name: path.read_bytes() for path in (tmp_path / "y-0").iterdir()} == {
        path.name: path.read_bytes() for path in PLAIN.iterdir()
    }


@pytest.mark.parametrize("limit", [1, 700, 4000, 1 << 20])
def test_batches_are_cut_and_joined_to_a_size(tmp_path: Path, limit: int) -> None:
    made = convert(PLAIN, tmp_path / "x-0", batch_bytes=limit, segment_bytes=1 << 20)
    assert records_of(tmp_path / "x-0") == records_of(PLAIN)
    batches = batches_of(tmp_path / "x-0")
    assert all(batch.size <= limit or batch.header.record_count == 1 for batch in batches)
    assert len(batches) == 150 or limit > 1
    for before, after in pairwise(batches):
        assert before.last_offset + 1 == after.base_offset
        if before.header.producer_id == after.header.producer_id >= 0:
            assert after.header.base_sequence == before.header.last_sequence + 1
    assert len(made.segments) == 1


@pytest.mark.parametrize("case", sorted(path.name for path in (TESTDATA / "damaged").glob("*.*-*")))
def test_the_output_is_valid_for_any_damage(tmp_path: Path, case: str) -> None:
    (partition,) = (path for path in (TESTDATA / "damaged" / case).iterdir() if (path.is_dir() and path.name[0] == "d")
                    or path.name.endswith("-0"))  # fmt: skip
    made = convert(partition, tmp_path / "x-0", "gzip", magic=2, skips_damage=True)
    offsets = [record[0] for record in records_of(tmp_path / "x-0")]
    assert offsets == sorted(set(offsets))
    assert offsets or made.skipped


@pytest.mark.parametrize("source", [*V2, *OLD])
def test_a_broker_would_build_the_same_indexes(tmp_path: Path, source: str) -> None:
    convert(TESTDATA / source, tmp_path / "x-0", "lz4", magic=2, segment_bytes=20000)
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    made = files(tmp_path / "x-0", *kinds)
    recover(tmp_path / "x-0")
    assert files(tmp_path / "x-0", *kinds) == made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("magic", [None, 1, 2])
def test_nonsense_is_rejected_in_its_place(tmp_path: Path, magic: int | None, seed: int) -> None:
    """The output is valid for any change of counts, sizes and contents under valid checksums, in all formats."""
    rng = random.Random(seed)
    found = []
    for entry in entries((TESTDATA / OLD[5] / f"{0:020d}.log").read_bytes()):
        changed = bytearray(entry)
        if rng.random() < 0.3 and len(entry) > 26:
            changed[rng.randrange(26 if entry[16] < 2 else 57, len(entry))] = rng.randrange(256)
        found.append(sealed(bytes(changed)))
    source = a_log(tmp_path / "changed-0", *found)
    made = convert(source, tmp_path / "x-0", "gzip", magic=magic, is_lossy=True, skips_damage=True)
    offsets = [record[0] for record in records_of(tmp_path / "x-0")]
    assert offsets == sorted(set(offsets))
    assert 0 < len(made.skipped) < len(found)


@pytest.mark.parametrize(
    ("position", "form", "value"), [(43, ">q", -9), (53, ">i", -9), (0, ">q", (1 << 63) - 2), (23, ">i", -5)]
)
@pytest.mark.parametrize("asked", [{"codec": "zstd"}, {"batch_bytes": 3000}, {"magic": 2, "codec": "none"}])
def test_impossible_headers_under_a_valid_checksum_are_damage(
    tmp_path: Path, position: int, form: str, value: int, asked: dict[str, object]
) -> None:
    first, bad, last = entries((PLAIN / f"{0:020d}.log").read_bytes())[:3]
    bad = sealed(bad, position, struct.pack(form, value))
    source = a_log(tmp_path / "y-0", first, bad, last)
    with pytest.raises(DamageError, match=f"at position {len(first)}, {len(bad)} bytes"):
        convert(source, tmp_path / "z-0", **asked)
    made = convert(source, tmp_path / "x-0", skips_damage=True, **asked)
    assert [(damage.position, damage.length) for _, damage in made.skipped] == [(len(first), len(bad))]
    assert records_of(tmp_path / "x-0") == records_of(a_log(tmp_path / "good-0", first, last))


def test_sequences_wrap_where_a_batch_is_split(tmp_path: Path) -> None:
    first = next(
        batch
        for batch in entries((TESTDATA / "verify/4.3.1-transactions/dtxn-0" / f"{0:020d}.log").read_bytes())
        if struct.unpack_from(">i", batch, 57)[0] >= 3 and struct.unpack_from(">i", batch, 53)[0] >= 0
    )
    count = struct.unpack_from(">i", first, 57)[0]
    source = a_log(tmp_path / "y-0", sealed(first, 53, struct.pack(">i", (1 << 31) - 2)))
    convert(source, tmp_path / "x-0", batch_bytes=1)
    sequences = [batch.header.base_sequence for batch in batches_of(tmp_path / "x-0")]
    assert sequences == [(1 << 31) - 2, (1 << 31) - 1, *range(count - 2)]


def test_an_empty_last_segment_keeps_its_snapshot(tmp_path: Path) -> None:
    source = Path(shutil.copytree(TESTDATA / V2[0], tmp_path / "y-0"))
    end = batches_of(source)[-1].last_offset + 1
    for suffix in (".log", ".index", ".timeindex"):
        (source / f"{end:020d}{suffix}").write_bytes(b"")
    convert(source, tmp_path / "x-0", batch_bytes=3000)
    made = {path.name for path in (tmp_path / "x-0").iterdir()}
    assert f"{end:020d}.log" in made
    assert f"{end:020d}.snapshot" in made
