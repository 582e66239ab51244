"""Counts the information in a log that message formats older than v2 cannot represent."""

from collections import Counter

from kseg.formats import compression
from kseg.formats.rows import Rows
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import ROW_HEADER_COUNT, ROW_WIDTH
from kseg.segment.batches import Batch, RecordBatch

HEADERS, PRODUCERS, CONTROL, TRANSACTIONAL = "headers", "producers", "controlBatches", "transactionalBatches"
HORIZONS, TIMESTAMPS, ZSTD = "deleteHorizons", "timestamps", "zstdBatches"

_SENTENCES = {
    HEADERS: "headers ({} records)",
    PRODUCERS: "producer ids, epochs and sequences ({} batches)",
    CONTROL: "control batches ({})",
    TRANSACTIONAL: "transactions: aborted records would look like others ({} batches; --isolation read_committed)",
    HORIZONS: "delete horizons ({} batches)",
    TIMESTAMPS: "timestamps ({} batches)",
    ZSTD: "zstd compression ({} batches; --codec)",
}


class Losses:
    """``counts`` by the names above. ``magic``: the target format; ``committed_only``: aborted transactions are
    omitted.

    ``has_codec``: a codec was chosen, so that zstd is not needed.
    """

    def __init__(self, magic: int | None, committed_only: bool, has_codec: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._magic = 2 if magic is None else magic
        self._committed_only = committed_only
        self._has_codec = has_codec

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, batch: Batch) -> None:
        """Counts losses in the header of a batch."""
        if self._magic == MAGIC_V2:
            return
        if self._magic == 0 and batch.magic > 0 and batch.max_timestamp >= 0:
            self.counts[TIMESTAMPS] += 1
        if not isinstance(batch, RecordBatch):
            return
        header = batch.header
        if header.is_control:
            self.counts[CONTROL] += not self._committed_only
            return
        self.counts[PRODUCERS] += header.producer_id >= 0
        self.counts[TRANSACTIONAL] += header.is_transactional and not self._committed_only
        self.counts[HORIZONS] += header.delete_horizon_ms is not None
        self.counts[ZSTD] += header.codec == compression.ZSTD and not self._has_codec
        self.counts = +self.counts

    def add_plain(self, magic: int, timed: int) -> None:
        """As `add`, for uncompressed batches without a producer id; ``timed``: the number of them with a timestamp."""
        if self._magic == 0 and magic > 0:
            self.counts[TIMESTAMPS] += timed
            self.counts = +self.counts

    def add_rows(self, rows: Rows) -> None:
        """Counts losses in records."""
        if self._magic < MAGIC_V2:
            counts = rows.rows[ROW_HEADER_COUNT : rows.count * ROW_WIDTH : ROW_WIDTH].tolist()
            if any(counts):
                self.counts[HEADERS] += len(counts) - counts.count(0)

    def sentence(self) -> str:
        """Returns all losses as text."""
        return ", ".join(_SENTENCES[name].format(self.counts[name]) for name in _SENTENCES if self.counts[name])
