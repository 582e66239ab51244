"""The cleaner compared with a short model, on arbitrary logs."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from cleaner.building import LOG_APPEND, NewRecord, build_message, build_message_set, build_record_batch
from cleaner.cleaning import NOW, RETENTION, clean
from cleaner.partitions import files, new_records, records, transactional_log, write_log
from examples import fewer
from kseg.releases.release import NO_END
from kseg.segment.items import RecordBatch
from segment.reading import items_at

KEYS = st.sampled_from([b"a", b"b", b"c", b"", b"key-of-some-length", b"\0" * 16])
ROWS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=40)), min_size=1, max_size=6)
BATCHES = st.lists(st.tuples(ROWS, st.sampled_from([0, 0, 1, 2, 3, 4]), st.integers(0, 3)), min_size=1, max_size=12)
OLD_ROWS = st.lists(st.tuples(st.none() | KEYS, st.none() | st.binary(max_size=40)), min_size=1, max_size=6)
OLD_BATCHES = st.lists(st.tuples(OLD_ROWS, st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)
QUICK = fewer(3, suppress_health_check=list(HealthCheck))


def shape(found: list[tuple[list[tuple[bytes, bytes | None]], int, int]]) -> tuple[list[NewRecord], list[bytes]]:
    """Returns records and batches; a gap of a few offsets precedes each batch."""
    everything, batches, offset = [], [], 0
    for rows, codec, gap in found:
        some = new_records(rows, offset + gap)
        batches.append(build_record_batch(some, codec))
        everything += some
        offset = some[-1].offset + 1
    return everything, batches


def expected(everything: list[NewRecord], keeps_tombstones: bool) -> list[tuple[object, ...]]:
    last = {record.key: record.offset for record in everything}
    return [
        (record.offset, record.timestamp, record.key, record.value, ())
        for record in everything
        if record.offset == last[record.key] and (keeps_tombstones or record.value is not None)
    ]


@QUICK
@given(BATCHES, st.sampled_from([200, 400, 1 << 20]))
def test_the_last_record_of_each_key_stays(found: list, segment_bytes: int) -> None:  # type: ignore[type-arg]
    everything, batches = shape(found)
    with TemporaryDirectory() as folder:
        partition = Path(folder) / "t-0"
        write_log(partition, batches, segment_bytes)
        result = clean(partition)
        assert records(partition) == expected(everything, keeps_tombstones=True)
        assert result.end == everything[-1].offset + 1
        # The second time tombstones have a delete horizon, and it has passed.
        clean(partition, 0, now_ms=NOW + RETENTION)
        assert records(partition) == expected(everything, keeps_tombstones=False)
        ends = [item.last_offset for item in items_at(partition)]  # type: ignore[union-attr]
        assert ends[-1] == everything[-1].offset


@QUICK
@given(BATCHES, st.integers(2, 5))
def test_a_map_that_is_too_small_is_filled_again(found: list, most: int) -> None:  # type: ignore[type-arg]
    everything, batches = shape(found)
    with TemporaryDirectory() as folder:
        partition = Path(folder) / "t-0"
        write_log(partition, batches, 300)
        result = clean(partition, memory_bytes=24 * (most + 1), until_clean=True)
        assert records(partition) == expected(everything, keeps_tombstones=True)
        assert result.end == everything[-1].offset + 1
        assert result.is_whole
        assert result.keys <= most


@pytest.mark.parametrize("keeps_format", [False, True])
@QUICK
@given(found=OLD_BATCHES, kind=st.sampled_from([(0, 0), (1, 0), (1, LOG_APPEND)]))
def test_old_messages_keep_their_records(
    found: list,  # type: ignore[type-arg]
    kind: tuple[int, int],
    keeps_format: bool,
) -> None:
    (magic, time_type), everything, batches, offset = kind, [], [], 0
    for rows, codec, gap in found:
        some = new_records(rows, offset + gap)
        if codec in (1, 2, 3):
            batches.append(build_message_set(some, magic, codec | time_type))
            if time_type:  # the time of the set is that of its messages
                some = [record._replace(timestamp=some[-1].timestamp) for record in some]
        else:
            batches += [build_message(record, magic, time_type) for record in some]
        everything += some
        offset = some[-1].offset + 1
    with TemporaryDirectory() as folder:
        partition = Path(folder) / "t-0"
        write_log(partition, batches, 300)
        counts = clean(partition, keeps_format=keeps_format, kept_end=NO_END, drops_null_keys=True).counts
        wanted = expected([record for record in everything if record.key is not None], keeps_tombstones=True)
        assert (counts["records"], counts["kept"]) == (len(everything), len(wanted))
        assert counts["no_key"] == sum(record.key is None for record in everything)
        if magic == 0:
            wanted = [(row[0], None if keeps_format else -1, *row[2:]) for row in wanted]
        assert records(partition) == wanted
        magics = {item.magic for item in items_at(partition)}  # type: ignore[union-attr]
        assert magics <= ({magic} if keeps_format else {2})
        for item in items_at(partition):
            assert item.check() == []  # type: ignore[union-attr]
            if isinstance(item, RecordBatch):
                has_tombstones = any(record.value is None for record in item)
                assert item.header.delete_horizon_ms == (NOW + RETENTION if has_tombstones else None)
                assert item.header.is_log_append_time == bool(time_type)


@pytest.mark.parametrize("keeps_format", [False, True])
@pytest.mark.parametrize("codec", [0, 1])
def test_the_log_end_stays_the_same(tmp_path: Path, keeps_format: bool, codec: int) -> None:
    some = new_records([(b"a", b"1"), (b"b", b"2"), (None, b"3")])
    batches = [build_message_set(some, 1, codec)] if codec else [build_message(record, 1) for record in some]
    partition = tmp_path / "t-0"
    write_log(partition, batches)
    clean(partition, keeps_format=keeps_format, drops_null_keys=True)
    items = list(items_at(partition))
    assert items[-1].last_offset == 2  # type: ignore[union-attr]
    assert [row[0] for row in records(partition)] == ([0, 1, 2] if keeps_format else [0, 1])
    assert all(item.check() == [] for item in items)  # type: ignore[union-attr]


@pytest.mark.parametrize("order", [[1, 0], [0, 0]])
def test_batches_whose_offsets_do_not_rise_are_damage(tmp_path: Path, order: list[int]) -> None:
    from kseg.cleaner.log import DamagedError

    batches = [build_record_batch(new_records([(b"a", b"1")], i)) for i in range(2)]
    partition = tmp_path / "t-0"
    write_log(partition, batches)
    (partition / f"{0:020d}.log").write_bytes(b"".join(batches[i] for i in order))
    with pytest.raises(DamagedError, match="do not rise"):
        clean(partition)


def test_a_segment_that_reaches_behind_the_base_of_the_next_is_damage(tmp_path: Path) -> None:
    """With an empty segment there, aborted transactions behind its base would not be found."""
    from kseg.cleaner.log import DamagedError

    partition = tmp_path / "t-0"
    write_log(partition, [build_record_batch(new_records([(b"a", b"1"), (b"b", b"2")], i)) for i in (0, 2)])
    (partition / f"{1:020d}.log").touch()
    with pytest.raises(DamagedError, match="reaches offset 3, the next segment begins at 1"):
        clean(partition)


def test_indexes_removed_by_a_group_are_known_to_the_next(tmp_path: Path) -> None:
    """Each group is committed by itself, as with --no-quarantine."""
    steps = [("d", 0, 0), ("a", 0, 0), ("d", 1, 1), ("d", 0, 2), ("a", 1, 0), ("p", 0, 0)]
    whole = transactional_log(tmp_path / "whole/t-0", steps, 150)
    partition = transactional_log(tmp_path / "t-0", steps, 150)
    assert len(list(partition.glob("*.txnindex"))) == 2
    for now_ms in (NOW, NOW + RETENTION):  # after their delete horizon markers are removed, and their index entries
        clean(whole, 0, segment_bytes=150, now_ms=now_ms)
        clean(partition, 0, each=True, segment_bytes=150, now_ms=now_ms)
        assert files(partition) == files(whole)
    assert not list(partition.glob("*.txnindex"))
