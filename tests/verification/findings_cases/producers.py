"""Producers, transactions, their files, and leader epochs."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from verification.findings_cases.bases import SHORT, TINY, name, short, short_batches, transactions
from verification.findings_cases.case import Made, Section, Told
from verification.partitions import TESTDATA, changed, sealed
from verification.producer_cases import COMMIT, START_MS, batch, marker

CASES = case = Section()
HOUR_MS = 3600 * 1000
MADE = f"topic-0/{name(0)}"
LOG = f"dplain-0/{name(97)}"
SNAPSHOT = f"dplain-0/{name(116, '.snapshot')}"
EPOCHS = "dplain-0/leader-epoch-checkpoint"
TXN_LOG, TXN_INDEX = f"txn-tiny-0/{name(0)}", f"txn-tiny-0/{name(0, '.txnindex')}"


def of_batches(folder: Path, batches: list[bytes], code: str, number: int, more: tuple[Told, ...] = ()) -> Made:
    """A segment of batches made by hand, each of one record; the finding is about one of them."""
    (folder / "topic-0").mkdir()
    (folder / "topic-0" / name(0)).write_bytes(b"".join(batches))
    position = sum(map(len, batches[:number]))
    return Made("topic-0", "", [Told(code, MADE, position, len(batches[number]), number), *more])


def open_from(code: str, number: int, position: int) -> Told:
    """What is told of a transaction at the log's end."""
    return Told(code, MADE, position, None, number)


@case
def producer_sequence_gap(folder: Path) -> Made:
    """The sequence of the third of four batches is 2 where 1 is next, that of the fourth goes on from there."""
    partition = short(folder, (97,), bare=True)
    batches = short_batches()
    batches[2] = sealed(batches[2][:53] + struct.pack(">i", 2) + batches[2][57:])
    batches[3] = sealed(batches[3][:53] + struct.pack(">i", 4) + batches[3][57:])
    (partition / name(97)).write_bytes(b"".join(batches))
    return Made("dplain-0", SHORT, [Told("producer-sequence-gap", LOG, 540, 94, 101)])


@case
def producer_epoch_falls(folder: Path) -> Made:
    """Batches made by hand: epoch 2 of a producer behind epoch 3."""
    return of_batches(folder, [batch(0, 7, 3), batch(1, 7, 2)], "producer-epoch-falls", 1)


@case
def coordinator_epoch_falls(folder: Path) -> Made:
    """Markers made by hand: coordinator epoch 4 behind 5."""
    batches = [marker(0, COMMIT, 7, 0, 5), marker(1, COMMIT, 7, 0, 4)]
    return of_batches(folder, batches, "coordinator-epoch-falls", 1)


@case
def bad_control_record(folder: Path) -> Made:
    """The second of four batches, a marker, is of type 2, its checksum made right again."""
    partition = transactions(folder, bare=True)
    data = (partition / name(0)).read_bytes()
    whole = data[72:150]
    changed(partition / name(0), 72, sealed(whole[:68] + struct.pack(">h", 2) + whole[70:]))
    return Made("txn-tiny-0", TINY, [Told("bad-control-record", TXN_LOG, 72, 78, 1)])


@case
def batch_outside_transaction(folder: Path) -> Made:
    """Batches made by hand: the second one of a producer belongs to no transaction, though one is open."""
    batches = [batch(0, 7, transactional=True), batch(1, 7, sequence=1), marker(2, COMMIT, 7)]
    return of_batches(folder, batches, "batch-outside-transaction", 1)


@case
def open_transaction(folder: Path) -> Made:
    """The last of four batches, a marker, cut off."""
    transactions(folder, 3, bare=True)
    return Made("txn-tiny-0", TINY, [Told("open-transaction", TXN_LOG, 150, None, 2)])


@case
def hanging_transaction(folder: Path) -> Made:
    """Batches made by hand: behind one of an open transaction another producer writes, an hour later."""
    batches = [batch(0, 7, transactional=True), batch(1, timestamp=START_MS + HOUR_MS)]
    made = of_batches(folder, batches, "hanging-transaction", 0)
    return Made(made.judged, made.real, [open_from("hanging-transaction", 0, 0)])


@case
def too_many_producers(folder: Path) -> Made:
    """Batches made by hand, of 20 producers; no more than 16 are followed."""
    made = of_batches(folder, [batch(offset, offset) for offset in range(20)], "too-many-producers", 0)
    return Made(made.judged, made.real, [Told("too-many-producers", "topic-0")], {"condition": "few-are-followed"})


@case
def transaction_index_missing(folder: Path) -> Made:
    """The transaction index removed, where the last of four batches is the marker of an aborted transaction."""
    (transactions(folder) / name(0, ".txnindex")).unlink()
    return Made("txn-tiny-0", TINY, [Told("transaction-index-missing", TXN_INDEX, offset=3)])


@case
def transaction_index_damaged(folder: Path) -> Made:
    """The version of the first of two entries is 256, which no broker starts on."""
    changed(transactions(folder, 8) / name(0, ".txnindex"), 0, b"\1\0")
    return Made("txn-tiny-0", TINY, [Told("transaction-index-damaged", TXN_INDEX, 0, 34)])


@case
def transaction_index_incomplete(folder: Path) -> Made:
    """The first of two entries cut out."""
    index = transactions(folder, 8) / name(0, ".txnindex")
    index.write_bytes(index.read_bytes()[34:])
    return Made("txn-tiny-0", TINY, [Told("transaction-index-incomplete", TXN_INDEX, offset=3)])


@case
def transaction_index_wrong_entry(folder: Path) -> Made:
    """The producer of the second of two entries is 6, not 4."""
    changed(transactions(folder, 8) / name(0, ".txnindex"), 34 + 2, struct.pack(">q", 6))
    return Made("txn-tiny-0", TINY, [Told("transaction-index-wrong-entry", TXN_INDEX, 34, 34)])


@case
def producer_snapshot_damaged(folder: Path) -> Made:
    """One byte changed in the snapshot at the log's end."""
    changed(short(folder) / name(116, ".snapshot"), 20, b"\xff")
    return Made("dplain-0", SHORT, [Told("producer-snapshot-damaged", SNAPSHOT, 6, 148 - 6)])


@case
def producer_snapshot_mismatch(folder: Path) -> Made:
    """Instead of the snapshot at the log's end that of offset 150, where producer 2 was at sequence 49."""
    partition = short(folder)
    shutil.copy(TESTDATA / SHORT / name(150, ".snapshot"), partition / name(116, ".snapshot"))
    return Made("dplain-0", SHORT, [Told("producer-snapshot-mismatch", SNAPSHOT, 10 + 2 * 46, None, 149)])


@case
def producer_snapshot_beyond_end(folder: Path) -> Made:
    """The last batch (103 to 115) cut off, and its entry in the time index."""
    partition = short(folder)
    batches = short_batches()
    (partition / name(101)).write_bytes(batches[2])
    (partition / name(101, ".timeindex")).write_bytes(b"")
    return Made("dplain-0", SHORT, [Told("producer-snapshot-beyond-end", SNAPSHOT, offset=103)])


@case
def producer_snapshot_missing(folder: Path) -> Made:
    """The snapshot removed."""
    (short(folder) / name(116, ".snapshot")).unlink()
    return Made("dplain-0", SHORT, [Told("producer-snapshot-missing", "dplain-0")])


def of_epochs(text: str | None, *found: Told) -> Callable[[Path], Made]:
    def write(folder: Path) -> Made:
        path = short(folder) / "leader-epoch-checkpoint"
        path.unlink()
        if text is not None:
            path.write_text(text)
        return Made("dplain-0", SHORT, list(found))

    return write


@case
def leader_epochs_damaged(folder: Path) -> Made:
    """An entry that is none, at byte 4 of leader-epoch-checkpoint."""
    return of_epochs("0\n1\nxx\n", Told("leader-epochs-damaged", EPOCHS, 4, 2))(folder)


@case
def leader_epochs_unsorted(folder: Path) -> Made:
    """Epoch and offset of the second entry, at byte 9 of leader-epoch-checkpoint, are below those of the first."""
    found = Told("leader-epochs-unsorted", EPOCHS, 9, 4)
    return of_epochs("0\n2\n3 98\n0 97\n", found)(folder)


@case
def leader_epochs_missing(folder: Path) -> Made:
    """leader-epoch-checkpoint holds no entries."""
    return of_epochs("0\n0\n", Told("leader-epochs-missing", EPOCHS, offset=97))(folder)


@case
def leader_epochs_mismatch(folder: Path) -> Made:
    """leader-epoch-checkpoint has epoch 5 begin where the batches have epoch 0."""
    return of_epochs("0\n1\n5 97\n", Told("leader-epochs-mismatch", EPOCHS, offset=97))(folder)


@case
def leader_epochs_beyond_end(folder: Path) -> Made:
    """A second entry that begins behind the end of the log, at offset 117."""
    return of_epochs("0\n2\n0 97\n2 117\n", Told("leader-epochs-beyond-end", EPOCHS, offset=116))(folder)
