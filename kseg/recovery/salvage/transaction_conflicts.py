"""Finds producers that write outside of their own open transaction; a broker does not start on such a log.

ProducerAppendInfo.appendDataBatch of Kafka 4.3.1 raises InvalidTxnStateException for a batch that is not transactional
while its producer has a transaction open. A producer is either transactional or not, so the kind of batch of which it
has fewer is left out; markers are transactional. For equal numbers the kind that is rarer in the log is left out, then
the kind with fewer records.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_MAGIC,
    BATCH_PRODUCER_ID,
    BATCH_WIDTH,
)
from kseg.recovery.salvage.rejected_batches import Rejection
from kseg.segment.survey import Headers

_TRANSACTIONAL, _CONTROL = 16, 32
_CODE = "transaction-state"


@dataclass(slots=True)
class _Written:
    """Numbers of the batches of one kind and of their records."""

    batches: int = 0
    records: int = 0

    def add(self, records: int) -> None:
        self.batches += 1
        self.records += records


@dataclass(slots=True)
class _Producer:
    """The batches of a producer by kind, and the first offsets of the data batches of its open transaction."""

    transactional: _Written = field(default_factory=_Written)
    other: _Written = field(default_factory=_Written)
    open_firsts: list[int] = field(default_factory=list)


def transaction_conflicts(headers: Callable[[], Iterable[Headers]]) -> dict[int, Rejection]:
    """Returns the batches to leave out, by first offset. Each call of ``headers`` yields all batches of the log,
    rising."""
    producers, log = dict[int, _Producer](), _Producer()
    for producer_id, attributes, _, count in _produced(headers()):
        producer = producers.setdefault(producer_id, _Producer())
        for one in (producer, log):
            kind = one.transactional if attributes & _TRANSACTIONAL else one.other
            kind.add(count)
    found: dict[int, Rejection] = {}
    for producer_id, attributes, first, _ in _produced(headers()):
        producer = producers[producer_id]
        if attributes & _CONTROL:
            producer.open_firsts.clear()
        elif attributes & _TRANSACTIONAL:
            producer.open_firsts.append(first)
        elif producer.open_firsts:
            text = f"producer {producer_id} writes outside of its open transaction: a broker does not load it"
            if _is_transactional(producer, log):
                found[first] = Rejection(_CODE, text)
            else:
                found.update({first: Rejection(_CODE, text) for first in producer.open_firsts})
                producer.open_firsts.clear()
    return found


def _is_transactional(producer: _Producer, log: _Producer) -> bool:
    """Whether the transactional batches of a producer are kept. ``log``: the batches of all producers."""
    one, two = producer.transactional, producer.other
    if one.batches != two.batches:
        return one.batches > two.batches
    if log.transactional.batches != log.other.batches:
        return log.transactional.batches > log.other.batches
    return one.records >= two.records


def _produced(found: Iterable[Headers]) -> Iterable[tuple[int, int, int, int]]:
    """Yields producer id, attributes, first offset and record count of the batches that have a producer."""
    columns = (BATCH_PRODUCER_ID, BATCH_ATTRIBUTES, BATCH_FIRST_OFFSET, BATCH_COUNT, BATCH_MAGIC)
    for headers in found:
        end = headers.count * BATCH_WIDTH
        for producer_id, attributes, first, count, magic in zip(
            *(headers.rows[column:end:BATCH_WIDTH].tolist() for column in columns), strict=True
        ):
            if producer_id >= 0 and magic >= 2:
                yield producer_id, attributes, first, max(count, 0)
