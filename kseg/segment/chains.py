"""Where following the batches of a segment from header to header begins (`kseg.kernel.chain`)."""

from kseg.formats.rows import int64s
from kseg.kernel import chain

NEVER_LATE = (1 << 63) - 1


def fresh_chain(base_offset: int | None = None, latest_ms: int = NEVER_LATE, limit: int = 0) -> memoryview:
    """The state of a chain before its first batch.

    ``base_offset`` is that of the segment, None if not known. Timestamps beyond ``latest_ms`` are events; of each kind
    at most ``limit`` are written as rows, all are counted.
    """
    state = int64s(chain.STATE_WIDTH)
    for column in (
        chain.LAST_OFFSET, chain.LAST_EPOCH, chain.FIRST_OFFSET, chain.LARGEST_TIMESTAMP,
        chain.LARGEST_TIMESTAMP_OFFSET, chain.LEAST_TIMESTAMP,
    ):  # fmt: skip
        state[column] = -1
    state[chain.BASE] = -1 if base_offset is None else base_offset
    state[chain.LATEST], state[chain.LIMIT] = latest_ms, limit
    return state
