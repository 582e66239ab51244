"""The transaction state of a cleaning, for batches in a given order."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleaner.partitions import transactional_log
from kseg.cleaner.log import CleanedTransactions, aborted_between, read_segments, read_trace, windows
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.indexes import AbortedTxn
from kseg.stores.windows import Buffers
from segment.header_rows import header_row

ABORT, COMMIT, DATA, PLAIN, EMPTY = 0, 1, -1, -2, -3


def judged(followed: CleanedTransactions, *batches: tuple[int, int]) -> list[int]:
    """Judges batches of one offset each, from 0 on, given as (attributes, producer)."""
    rows = [
        header_row(last_offset=i, producer_id=producer, records=what != EMPTY, marker=max(what, -1),
                   attributes=0 if what == PLAIN else 16 if what == DATA else 48)
        for i, (what, producer) in enumerate(batches)
    ]  # fmt: skip
    return followed.discardable(HeaderRows.of(rows))


def aborted(producer: int, first: int, last: int) -> AbortedTxn:
    return AbortedTxn(0, producer, first, last, last + 1)


def test_aborted_data_is_removed_and_its_marker_stays_for_the_index() -> None:
    followed, transaction = CleanedTransactions(), aborted(7, 1, 3)
    followed.add([transaction])
    assert judged(followed, (PLAIN, -1), (DATA, 7), (DATA, 8), (ABORT, 7), (COMMIT, 8)) == [0, 1, 0, 0, 0]
    assert followed.kept == [transaction]


def test_markers_of_transactions_without_data_may_go() -> None:
    followed = CleanedTransactions()
    followed.add([aborted(7, 0, 1)])
    assert judged(followed, (PLAIN, -1), (ABORT, 7), (COMMIT, 8), (EMPTY, 9)) == [0, 1, 1, 1]
    assert followed.kept == []


def test_a_producer_can_abort_and_then_commit() -> None:
    followed = CleanedTransactions()
    followed.add([aborted(7, 0, 1)])
    assert judged(followed, (DATA, 7), (ABORT, 7), (DATA, 7), (COMMIT, 7), (COMMIT, 7)) == [1, 0, 0, 0, 1]


def test_without_transactions_nothing_is_decoded() -> None:
    assert judged(CleanedTransactions(), (PLAIN, -1), (PLAIN, 5)) == []


# The transaction state at the start of a segment is the same from all earlier batches and from their traces.

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
            last, buffers = -1, Buffers()
            for window in windows(segment.path, buffers):
                followed.discardable(window)
                last = window[-1].last_offset
            trace = read_trace(segment.path, buffers)
            assert trace.last_offset == last
            trace.follow(traced)
            assert [getattr(traced, name) for name in ("_aborted", "_observed", "_committed", "kept")] == [
                getattr(followed, name) for name in ("_aborted", "_observed", "_committed", "kept")
            ]


def test_of_many_batches_of_a_transaction_two_are_enough(tmp_path: Path) -> None:
    partition = transactional_log(tmp_path / "t-0", [("d", 1, 0)] * 50 + [("a", 1, 0)], 1 << 20)
    trace = read_trace(str(partition / f"{0:020d}.log"), Buffers())
    assert trace.last_offset + 1 == 54
    assert len(trace.rows) == (2 + 4) * 8 * BATCH_WIDTH
