"""The transaction state at the start of a segment is the same from all earlier batches and from their traces."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleaner.partitions import transactional_log, write_log
from kseg.cleaner.log import aborted_between, read_segments
from kseg.cleaner.reading import windows
from kseg.cleaner.transactions import CleanedTransactions, read_trace
from kseg.kernel.layout.rows import BATCH_COUNT, BATCH_LAST_OFFSET, BATCH_WIDTH
from kseg.stores.buffers import Buffers

STEPS = st.lists(st.tuples(st.sampled_from("ddddpca"), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=30)


@settings(suppress_health_check=list(HealthCheck))
@given(STEPS, st.sampled_from([150, 400]))
def test_traces_replace_all_batches(steps: list[tuple[str, int, int]], segment_bytes: int) -> None:
    with TemporaryDirectory() as folder:
        partition = transactional_log(Path(folder) / "t-0", steps, segment_bytes)
        segments = read_segments(str(partition))
        ends = [segment.base_offset for segment in segments[1:]] + [1 << 62]
        followed, traced = CleanedTransactions(), CleanedTransactions()
        for segment, end in zip(segments, ends, strict=True):
            for each in (followed, traced):
                each.add(aborted_between(segments, segment.base_offset, end))
            count, last, buffers = 0, -1, Buffers()
            for window in windows(segment.path, buffers):
                followed.discardable(window.rows, window.count)
                count += sum(window.rows[BATCH_COUNT : window.count * BATCH_WIDTH : BATCH_WIDTH].tolist())
                last = window.rows[(window.count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET]
            trace = read_trace(segment.path, buffers)
            assert (trace.records, trace.last_offset) == (count, last)
            trace.follow(traced)
            assert [getattr(traced, name) for name in ("_aborted", "_observed", "_committed", "kept")] == [
                getattr(followed, name) for name in ("_aborted", "_observed", "_committed", "kept")
            ]


def test_of_many_batches_of_a_transaction_two_are_enough(tmp_path: Path) -> None:
    partition = transactional_log(tmp_path / "t-0", [("d", 1, 0)] * 50 + [("a", 1, 0)], 1 << 20)
    trace = read_trace(str(partition / f"{0:020d}.log"), Buffers())
    assert trace.records == trace.last_offset + 1 == 54
    assert len(trace.rows) == (2 + 4) * 8 * BATCH_WIDTH


def test_what_compressed_messages_hold_is_not_known(tmp_path: Path) -> None:
    from cleaner.building import build_message_set
    from cleaner.partitions import new_records

    write_log(tmp_path / "t-0", [build_message_set(new_records([(b"a", b"1"), (b"b", b"2")]), 1, 1)])
    trace = read_trace(str(tmp_path / "t-0" / f"{0:020d}.log"), Buffers())
    assert (trace.records, trace.last_offset, trace.rows) == (None, 1, b"")
