"""Batches that no broker writes, under right checksums, and records that look like side files or directories."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from carving.images import BLOCK, CLEAN, batch, batches_in, carve, carved, padded, segments
from carving.images import image as image
from cli.command import TESTDATA, Kseg, Outcome
from kernel.rendering import message
from kseg.formats.record_batch import build_batch
from kseg.sidefiles.checkpoints import EpochEntry, build_leader_epochs
from segment.segments import sealed

TIME = 1_790_000_000_000
LEGACY = TESTDATA / "kafka-0.10.2.2" / "codecs"


def kept_and_left(image: Path, done: Outcome) -> tuple[list[bytes], list[bytes]]:
    """The batches of the carved logs, and those in the ranges that the summary says fit no log."""
    logs = list((image.parent / "out").rglob("*.log"))
    kept = [each for log in logs for each in batches_in(log.read_bytes())]
    content, ranges = image.read_bytes(), done.objects[-1]["unfitRanges"]
    left = [content[part["position"] :][: part["length"]] for part in ranges]
    return kept, [each for part in left for each in batches_in(part)]


ODD: dict[str, Callable[[bytearray], None]] = {
    "producer id -2": lambda each: struct.pack_into(">q", each, 43, -2),
    "no record": lambda each: struct.pack_into(">i", each, 57, 0),
    "-1 records": lambda each: struct.pack_into(">i", each, 57, -1),
    "sequence -2": lambda each: struct.pack_into(">i", each, 53, -2),
    "epoch -2": lambda each: struct.pack_into(">i", each, 12, -2),
    "codec 5": lambda each: each.__setitem__(22, 5),
    "codec 7": lambda each: each.__setitem__(22, 7),
}
UNFIT: dict[str, Callable[[bytearray], None]] = {
    "last offset below the first": lambda each: struct.pack_into(">i", each, 23, -1),
    "much below": lambda each: struct.pack_into(">i", each, 23, -1 << 31),
    "offset -1": lambda each: struct.pack_into(">q", each, 0, -1),
    "largest offset": lambda each: struct.pack_into(">q", each, 0, (1 << 63) - 1),
}


@pytest.mark.parametrize("kind", [*ODD, *UNFIT])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_odd_batch_with_a_right_checksum_is_taken_or_reported(kseg: Kseg, image: Path, kind: str, at: int) -> None:
    batches = [batch(offset, 3, TIME + offset) for offset in (1000, 1003, 1006)]
    odd = bytearray(batches[at])
    (ODD | UNFIT)[kind](odd)
    batches[at] = sealed(bytes(odd))
    other = batch(70_000, 5, TIME)
    image.write_bytes(padded(b"".join(batches)) + padded(other))
    done = carve(kseg, image)
    kept, left = kept_and_left(image, done)
    assert sorted(kept + left) == sorted([*batches, other])
    assert left == ([batches[at]] if kind in UNFIT else [])
    assert done.objects[-1]["unfit"] == len(left)


def test_a_table_tells_how_many_batches_fit_no_log(kseg: Kseg, image: Path) -> None:
    odd = bytearray(batch(5, 3, TIME))
    UNFIT["last offset below the first"](odd)
    image.write_bytes(padded(sealed(bytes(odd))) + padded(batch(70_000, 5, TIME)))
    done = kseg("carve", "--output", image.parent / "out", image)
    assert "1 batch with lost or impossible offsets left out" in done.err


@pytest.mark.parametrize(("lost_bytes", "last", "count"), [(4, 92, 0), (4, 95, 1), (11, 92, 1)])
def test_an_offset_in_a_lost_block(kseg: Kseg, image: Path, lost_bytes: int, last: int, count: int) -> None:
    """The first bytes of the second message are in a block that is lost: only a third message with the next offset
    confirms its offset."""
    first = message(7, 1, None, bytes(BLOCK - lost_bytes - 34))
    data = first + message(91, 1, b"key", b"value") + message(last, 1, b"key", b"another")
    lost = carve(kseg, image, "-n", of=bytes(BLOCK) + padded(data[BLOCK:]) + padded(batch(70_000, 5, TIME)))
    assert lost.objects[-1]["unfit"] == count
    whole = carve(kseg, image, "-n", of=padded(data) + padded(batch(70_000, 5, TIME)))
    assert whole.objects[-1]["unfit"] == 0


def changed(chance: random.Random, entry: bytes) -> bytes:
    """The entry with other values in one field, or other bytes behind the length."""
    data = bytearray(entry)
    places = (">q", 0), (">b", 16), (">b", 17), *(((">i", 12), (">i", 23), (">q", 43), (">i", 57)) * (data[16] == 2))
    layout, at = chance.choice(places)
    largest = (1 << 8 * struct.calcsize(layout) - 1) - 1
    if chance.random() < 0.6:
        struct.pack_into(layout, data, at, chance.choice((-1, -2, 0, 1, 5, 7, largest, largest >> 1, -largest - 1)))
    else:
        for _ in range(chance.choice((1, 3, 9))):
            data[chance.randrange(16, len(data))] = chance.randrange(256)
    return sealed(bytes(data))


@pytest.mark.parametrize("logs", [CLEAN, LEGACY], ids=["v2", "legacy"])
@pytest.mark.parametrize("seed", range(6))
def test_no_change_under_right_checksums_ends_a_carving(kseg: Kseg, image: Path, logs: Path, seed: int) -> None:
    chance, parts, truth = random.Random(seed), [], set()
    files = [data for _, file in segments(logs) if 0 < len(data := file.read_bytes()) < 40 * BLOCK]
    for data in chance.sample(files, 6):
        entries = list(batches_in(data))
        for i in chance.sample(range(len(entries)), min(len(entries), 3)):
            entries[i] = changed(chance, entries[i])
        truth |= {each for each in entries if each[16] <= 2}
        parts.append(padded(b"".join(entries)))
    image.write_bytes(b"".join(parts))
    done = carve(kseg, image)
    assert done.status == 0
    kept, left = kept_and_left(image, done)
    assert set(kept) <= truth
    whole = {each for each in truth if each[0] < 128}
    assert len(whole - set(kept) - set(left)) <= 6  # behind a wrong magic only a usual batch is found


# Records that look like evidence


def stuffed(offset: int, content: bytes, values: int, at: int) -> bytes:
    """A batch of one record whose value has the content at each multiple of 1 KiB of a file in which it stands at a
    position."""
    record = bytearray(build_batch(offset, 0, TIME, [(b"key", bytes(values * BLOCK))]))
    start = record.index(bytes(BLOCK))
    for position in range(-(-(at + start) // 1024) * 1024 - at, len(record) - len(content), BLOCK):
        record[position : position + len(content)] = content
    return sealed(bytes(record))


def attack(content: bytes, values: int = 6) -> bytes:
    """A log whose values have the content where blocks begin."""
    first = batch(81_000, 3, TIME)
    return first + stuffed(81_003, content, values, len(first)) + batch(81_004, 96, TIME + 5)


FORGED = {
    "checkpoint": b"0\n1\npayments 0 81100\n",
    "directory": struct.pack("<IHBB", 40, 12, 1, 2)
    + b".\0\0\0"
    + struct.pack("<IHBB", 2, 12, 2, 2)
    + b"..\0\0"
    + struct.pack("<IHBB", 40, 32, 10, 2)
    + b"payments-0".ljust(24, b"\0")
    + struct.pack("<IHBB", 41, 968, 24, 1)
    + b"%020d.log" % 81_100,
}


@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("kind", FORGED)
def test_only_bytes_outside_of_batches_name_a_log(kseg: Kseg, image: Path, kind: str, is_inside: bool) -> None:
    (row,) = carved(kseg, image, *([attack(FORGED[kind])] if is_inside else [attack(bytes(4)), FORGED[kind]]))
    assert (row["topic"], row["evidence"]["candidates"]) == ("carved-0001" if is_inside else "payments", [])


def test_no_record_takes_a_name_away(kseg: Kseg, image: Path) -> None:
    payments, real = batch(93_000, 777, TIME + 9), b"0\n1\npayments 0 93777\n"
    found = {row["topic"]: row for row in carved(kseg, image, payments, attack(FORGED["checkpoint"]), real)}
    assert found["payments"]["firstOffset"] == 93_000


@pytest.mark.parametrize("is_forged", [True, False])
def test_no_record_joins_two_logs(kseg: Kseg, image: Path, is_forged: bool) -> None:
    epochs = build_leader_epochs([EpochEntry(3, 40_121), EpochEntry(4, 91_337)])
    logs = [batch(40_121, 10, TIME, 3), batch(91_337, 10, TIME + 1, 4)]
    parts = [*logs, attack(epochs)] if is_forged else [*logs, attack(bytes(4)), epochs]
    assert len(carved(kseg, image, *parts)) == (3 if is_forged else 2)


@pytest.mark.parametrize("is_whole", [True, False])
def test_no_record_of_a_cut_batch_names_a_log(kseg: Kseg, image: Path, is_whole: bool) -> None:
    data = attack(FORGED["checkpoint"])
    cut = 3 * BLOCK
    rest = [random.Random(3).randbytes(BLOCK), data[cut:]] if is_whole else []
    found = carved(kseg, image, data[:cut], *rest, batch(81_090, 10, TIME))
    assert not any(row["topic"] == "payments" for row in found)


def test_a_batch_inside_the_end_of_another_is_not_taken(kseg: Kseg, image: Path) -> None:
    inner = batch(500, 3, TIME)
    outer = bytearray(build_batch(0, 0, TIME, [(b"key", bytes(2 * BLOCK))]))
    outer[BLOCK : BLOCK + len(inner)] = inner
    size = BLOCK + len(inner) + 500
    struct.pack_into(">i", outer, 8, size - 12)
    outer = bytearray(sealed(bytes(outer[:size])))
    image.write_bytes(padded(bytes(outer)))
    done = carve(kseg, image)
    assert kept_and_left(image, done) == ([bytes(outer)], [])
