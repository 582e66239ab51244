"""Random segments of plain batches and messages: right checksums, records that may be broken."""

from random import Random

from fuzz.batches import twist
from kernel.both import number
from kernel.rendering import batch, message, record
from kseg.kernel.layout.rows import INT32_MAX

TEXTS = (None, b"", b"k", b"key", b"\xff\0", b"x" * 63, b"x" * 64, b"y" * 130)
# At the edges of varints of one, two and three bytes, and of what a long holds.
TIME_DELTAS = (0, 0, 0, 1, -1, 63, 64, -65, 8191, 8192, -8193, 1 << 20, 1 << 40, -(1 << 63))


def text(chance: Random) -> bytes | None:
    return chance.choice(TEXTS)


def pairs(chance: Random) -> list[tuple[bytes, bytes | None]]:
    return [(chance.choice(TEXTS[1:]), text(chance)) for _ in range(chance.choice((0, 0, 0, 1, 2, 3)))]


def area(chance: Random, count: int) -> list[bytes]:
    """Encoded records, most of them with the next offset delta."""
    found, delta = [], 0
    for _ in range(count):
        found.append(record(delta, chance.choice(TIME_DELTAS), text(chance), text(chance), pairs(chance)))
        delta += chance.choice((1,) * 12 + (0, 2, -1, 63, 8192))
    return found


def changed(chance: Random, data: bytes) -> bytes:
    """The bytes, half of the time with a change."""
    return twist(data, chance) if chance.random() < 0.5 else data


def segment(chance: Random) -> bytes:
    """Plain batches and messages with right checksums."""
    parts, offset = [], chance.choice((0, 0, 1 << 40, (1 << 63) - 60))
    for _ in range(chance.randrange(1, 6)):
        magic, count = chance.choice((2, 2, 2, 1, 0)), chance.choice((0, 1, 1, 2, 5, 9))
        if magic < 2:
            attributes = chance.choice((0, 0, 0, 8, 1, 16))
            one = message(offset, magic, text(chance), text(chance), number(chance, 1000), attributes)
            parts.append(one)
            offset += 1
            continue
        attributes = chance.choice((0, 0, 0, 0, 8, 16, 32, 64, 1))
        body = b"".join(area(chance, count))
        parts.append(
            batch(
                [changed(chance, body)], offset, attributes, number(chance, 1000) if chance.random() < 0.2 else 1000,
                sequence=chance.choice((-1, 0, INT32_MAX - 1)), producer=chance.choice((-1, 7)),
                count=max(count + chance.choice((0,) * 8 + (1, -1)), -1),
                last_delta=count - 1 + chance.choice((0,) * 8 + (1, -1, 3)),
            )
        )  # fmt: skip
        offset += max(count, 1)
    return b"".join(parts)
