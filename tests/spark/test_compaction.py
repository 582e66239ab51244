"""Compaction on Spark gives the same bytes as the local engine, also if tasks fail or are repeated."""

import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleaner.building import build_message, build_message_set, build_record_batch
from cleaner.cleaning import NOW, RETENTION, clean
from cleaner.partitions import PAIRS, Pair, new_records, transactional_log, write_log
from cli.command import flip
from kseg.cleaner.log import DamagedError
from kseg.errors import KsegError
from kseg.releases.release import NO_END, RANGE_END
from kseg.spark import jobs
from kseg.spark.compaction import SparkRound
from spark.cluster import Cluster

pytestmark = pytest.mark.spark
QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck))
STEPS = st.lists(
    st.tuples(st.sampled_from("dddtppca"), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=40
)  # fmt: skip
ROWS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"", b"c" * 20]), st.none() | st.binary(max_size=30)), max_size=5
)
LEGACY = st.lists(st.tuples(ROWS.filter(len), st.integers(0, 2), st.sampled_from([0, 0, 1, 2, 3])), max_size=12)


def everything(directory: Path) -> dict[str, tuple[int, bytes]]:
    found = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def both(partition: Path, cluster: Cluster | None = None, **options: Any) -> None:
    """Cleans a partition locally, and a copy of it in tasks: the results are equal."""
    copy = partition.parent / "copy" / partition.name
    shutil.copytree(partition, copy)
    here = clean(partition, **options)
    there = clean(copy, rounds=partial(SparkRound, spark=cluster or Cluster()), **options)
    assert everything(copy) == everything(partition)
    names = ("end", "keys", "rounds", "counts", "is_whole", "bytes_after", "found")
    assert [getattr(there, name) for name in names] == [getattr(here, name) for name in names]
    shutil.rmtree(copy)


def options_of(pair: Pair) -> dict[str, Any]:
    return {
        "checkpoint": pair.checkpoint, "segment_bytes": 32768, "interval_bytes": 1024, "includes_active": False,
        "delete_retention_ms": pair.retention_ms, "now_ms": pair.now_ms, "memory_bytes": 1 << 20,
        "drops_null_keys": "null" in pair.name,
    }  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.release}-{pair.name}")
def test_real_partitions_are_cleaned_as_by_the_local_engine(tmp_path: Path, pair: Pair) -> None:
    both(pair.copy(tmp_path), **options_of(pair))


@QUICK
@given(STEPS, st.sampled_from([150, 400]), st.sampled_from([150, 700, 1 << 20]), st.integers(0, 45), st.booleans())
def test_transactions_and_tombstones_are_cleaned_the_same(
    steps: list[tuple[str, int, int]], segment_bytes: int, group_bytes: int, checkpoint: int, each: bool
) -> None:
    with TemporaryDirectory() as folder:
        partition = transactional_log(Path(folder) / "t-0", steps, segment_bytes)
        chosen: dict[str, Any] = {"segment_bytes": group_bytes, "interval_bytes": 64, "each": each}
        both(partition, checkpoint=checkpoint, **chosen)
        both(partition, checkpoint=0, now_ms=NOW + RETENTION, **chosen)  # horizons have passed


@QUICK
@given(LEGACY, st.sampled_from([0, 1]), st.booleans(), st.sampled_from([100, 1 << 20]))
def test_old_messages_are_cleaned_the_same(
    found: list[tuple[list[tuple[bytes, bytes | None]], int, int]], magic: int, keeps_format: bool, group_bytes: int
) -> None:
    batches, offset = [], 0
    for rows, gap, codec in found:
        some = new_records(rows, offset + gap)
        offset = some[-1].offset + 1
        if codec:
            batches.append(build_message_set(some, magic, codec))
        else:
            batches += [build_message(record, magic) for record in some]
    batches.append(build_record_batch(new_records([(b"a", b"v2")], offset)))
    with TemporaryDirectory() as folder:
        partition = Path(folder) / "t-0"
        write_log(partition, batches, 300)
        both(
            partition,
            keeps_format=keeps_format,
            kept_end=NO_END if keeps_format else RANGE_END,
            segment_bytes=group_bytes,
        )


def many(partition: Path) -> Path:
    """Several hundred keys in a dozen segments, more than the map's initial capacity."""
    rows = [(b"key-%d" % (i * 7919 % 1500), b"%d" % i) for i in range(6000)]
    batches = [build_record_batch(new_records(rows[i : i + 50], i), i // 50 % 5) for i in range(0, 6000, 50)]
    write_log(partition, batches, 8000)
    return partition


@pytest.mark.parametrize("buckets", [1, 7, 64])
def test_any_number_of_buckets_makes_one_map(tmp_path: Path, buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.spark.compaction.BUCKET_BYTES", 1)
    monkeypatch.setattr("kseg.spark.compaction.MAX_TASKS", buckets)
    both(many(tmp_path / "t-0"), checkpoint=2500, segment_bytes=20000)


def test_the_map_grows_if_headers_do_not_contain_the_number_of_keys(tmp_path: Path) -> None:
    messages = [new_records([(b"%05d" % i, b"") for i in range(20000)]), new_records([(b"00001", b"")], 30000)]
    write_log(tmp_path / "t-0", [build_message_set(some, 1, 1) for some in messages])
    both(tmp_path / "t-0", memory_bytes=1 << 20)


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_a_repeated_task_changes_nothing(tmp_path: Path, stage: int) -> None:
    lost: Counter[int] = Counter()

    def loses(now: int, task: int) -> bool:
        lost[now] += now == stage
        return now == stage

    both(many(tmp_path / "t-0"), Cluster(loses), segment_bytes=20000)
    assert lost[stage] > 0


def test_the_output_of_a_failed_task_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    from kseg.segment.writer import SegmentWriter

    partition = many(tmp_path / "t-0")
    before = everything(partition)
    finish, folders = SegmentWriter.finish, set[Path]()

    def no_room(self: Any, *arguments: Any) -> Any:
        if self.base_offset > 2000:
            folders.add(Path(self._folder))
            raise OSError(errno.ENOSPC, "No space left on device")
        return finish(self, *arguments)

    monkeypatch.setattr(SegmentWriter, "finish", no_room)
    with pytest.raises(OSError, match="No space left"):
        clean(partition, rounds=partial(SparkRound, spark=Cluster()), segment_bytes=20000)
    assert folders
    assert everything(partition) == before
    assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize("checkpoint", [0, 2500])
@pytest.mark.parametrize("place", [1, -2])
@pytest.mark.parametrize("at", [16, 70, 3])
def test_damage_is_reported_as_by_the_local_engine(tmp_path: Path, checkpoint: int, place: int, at: int) -> None:
    partition = many(tmp_path / "t-0")
    path = sorted(partition.glob("*.log"))[place]
    flip(path, at, 0x40)
    before = everything(partition)
    with pytest.raises(DamagedError) as here:
        clean(partition, checkpoint=checkpoint, segment_bytes=20000, memory_bytes=1 << 20)
    with pytest.raises(KsegError) as there:
        clean(partition, checkpoint=checkpoint, segment_bytes=20000, rounds=partial(SparkRound, spark=Cluster()))
    assert (str(there.value), there.value.exit_status) == (str(here.value), 1)
    assert everything(partition) == before


def test_records_without_a_key_are_refused_alike(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [build_record_batch(new_records([(None, b"1"), (b"a", b"2")]))])
    with pytest.raises(KsegError, match="no key"):
        clean(tmp_path / "t-0", rounds=partial(SparkRound, spark=Cluster()))
    both(tmp_path / "t-0", drops_null_keys=True)


def test_another_kseg_in_a_task_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps built with different hash functions cannot be merged."""
    probes = iter([("1", 0, 0)])
    from kseg.spark import compaction

    real = compaction._probe
    monkeypatch.setattr(compaction, "_probe", lambda secret: next(probes, None) or real(secret))
    with pytest.raises(KsegError, match="all machines need the same"):
        clean(many(tmp_path / "t-0"), rounds=partial(SparkRound, spark=Cluster()))


def test_an_error_keeps_its_class_and_exit_status() -> None:
    def fail(error: Exception, _: object) -> None:
        raise error

    given = [DamagedError("a", 5), OSError(28, "No space left on device", "a")]
    damaged, full = jobs.run(Cluster(), given, fail)
    assert isinstance(damaged, DamagedError)
    assert (str(damaged), damaged.exit_status) == (str(DamagedError("a", 5)), 1)
    assert isinstance(full, OSError)
    assert (full.errno, full.filename) == (28, "a")
