"""Finds producers that write outside of their own open transaction; a broker does not start on such a log.

ProducerAppendInfo.appendDataBatch of Kafka 4.3.1 raises InvalidTxnStateException for a batch that is not transactional
while its producer has a transaction open. A producer is either transactional or not: the producer snapshots say which,
else the kind of batch of which it has fewer is left out; markers are transactional. For equal numbers the kind that is
rarer in the log is left out, then the kind with fewer records.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from kseg.kernel.layout.headers import CONTROL, TRANSACTIONAL
from kseg.recovery.broker.replayed_read import produced
from kseg.recovery.salvage.rejected_batches import Rejection
from kseg.segment.survey import HeaderRows

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


def transaction_conflicts(
    headers: Callable[[], Iterable[HeaderRows]], known: Mapping[int, bool] | None = None
) -> dict[int, Rejection]:
    """Returns the batches to leave out, by first offset. Each call of ``headers`` yields all batches of the log,
    rising; ``known``: whether producers are transactional."""
    producers, log = dict[int, _Producer](), _Producer()
    for producer_id, attributes, _, count in chain.from_iterable(map(produced, headers())):
        producer = producers.setdefault(producer_id, _Producer())
        for one in (producer, log):
            kind = one.transactional if attributes & TRANSACTIONAL else one.other
            kind.add(max(count, 0))
    found: dict[int, Rejection] = {}
    for producer_id, attributes, first, _ in chain.from_iterable(map(produced, headers())):
        producer = producers[producer_id]
        if attributes & CONTROL:
            producer.open_firsts.clear()
        elif attributes & TRANSACTIONAL:
            producer.open_firsts.append(first)
        elif producer.open_firsts:
            text = f"producer {producer_id} writes outside of its open transaction: a broker does not load it"
            if (known or {}).get(producer_id, _is_transactional(producer, log)):
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
