"""Damage as disks and accidents do it, to the segments of a partition: lists of batches, and of what is no batch."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import example
from hypothesis import strategies as st

from segment.segments import TESTDATA, entries

Segments = dict[int, list[bytes]]
"""Chunks of bytes in the order of the file, by base offset."""

NONSENSE = (b"\0", b"\xff", b"abc", b"\0\0\0\x07\0\0\0\0\0\0\0\x02")


@dataclass(frozen=True)
class Damage:
    """``kind`` names one of `KINDS`; the numbers, of any size, choose where it is done."""

    kind: str
    segment: int
    chunk: int
    other_segment: int
    other_chunk: int
    place: int
    amount: int

    def do(self, segments: Segments) -> None:
        bases = sorted(segments)
        here, there = (segments[bases[i % len(bases)]] for i in (self.segment, self.other_segment))
        here[:] = filter(None, here)
        if here:
            KINDS[self.kind](self, here, there)

    def at(self, chunks: Sequence[bytes]) -> int:
        return self.chunk % len(chunks)

    def there(self, chunks: Sequence[bytes]) -> int:
        return self.other_chunk % (len(chunks) + 1)

    @property
    def nonsense(self) -> bytes:
        return NONSENSE[self.place % len(NONSENSE)] * (1 + self.amount % 700)


def _over(chunk: bytes, at: int, data: bytes) -> bytes:
    return chunk[:at] + data[: len(chunk) - at] + chunk[at + len(data) :]


Kind = Callable[[Damage, list[bytes], list[bytes]], None]


def _inside(change: Callable[[Damage, bytes, int], bytes]) -> Kind:
    """Damage inside a chunk: ``change`` gets the chunk and a place in it."""

    def do(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
        i = damage.at(here)
        here[i] = change(damage, here[i], damage.place % len(here[i]))

    return do


def _cut(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    i = damage.at(here)
    here[i:] = [here[i][: damage.place % len(here[i])]]


def _remove(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    del here[damage.at(here)]


def _insert(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    here.insert(damage.at(here), damage.nonsense)


def _swap(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    i, k = damage.at(here), damage.other_chunk % len(here)
    here[i], here[k] = here[k], here[i]


def _double(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    there.insert(damage.there(there), here[damage.at(here)])


def _move(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    chunk = here.pop(damage.at(here))
    there.insert(damage.there(there), chunk)


def _copies_in_nonsense(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    i = damage.at(here)
    there.insert(damage.there(there), damage.nonsense + b"".join(here[i : i + 3]) + damage.nonsense[::-1])


def _empty(damage: Damage, here: list[bytes], there: list[bytes]) -> None:
    here.clear()


KINDS: dict[str, Kind] = {
    "flip": _inside(lambda damage, chunk, at: _over(chunk, at, bytes([chunk[at] ^ (1 << damage.amount % 8)]))),
    # A byte of what lies outside the checksum of v2.
    "header": _inside(lambda damage, chunk, _: _over(chunk, damage.place % 17, bytes([damage.amount % 256]))),
    "zero": _inside(lambda damage, chunk, at: _over(chunk, at, bytes(1 + damage.amount % 512))),
    "cut": _cut,
    "remove": _remove,
    "insert": _insert,
    "part": _inside(lambda damage, chunk, at: chunk[:at] + damage.nonsense + chunk[at:]),
    "swap": _swap,
    "double": _double,
    "move": _move,
    "copies in nonsense": _copies_in_nonsense,
    "empty": _empty,
}


def first_offset(batch: bytes) -> int:
    """As the header tells it; of a compressed message of v0 or v1 that is its last one."""
    return int.from_bytes(batch[:8], "big", signed=True)


def last_offset(batch: bytes) -> int:
    return first_offset(batch) + (int.from_bytes(batch[23:27], "big") if batch[16] == 2 else 0)


def broken(batch: bytes) -> bytes:
    """The batch with a bit of its last byte flipped, so that its checksum is wrong."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def with_epoch(batch: bytes, epoch: int) -> bytes:
    """The batch with another leader epoch, which lies outside its checksum."""
    return batch[:12] + epoch.to_bytes(4, "big", signed=True) + batch[16:]


def covered(batch: bytes) -> bytes:
    """What the checksum of a batch speaks for, and that."""
    return batch[17:] if batch[16] == 2 else batch[12:]


def read(directory: Path) -> Segments:
    return {int(path.stem): entries(path.read_bytes()) for path in sorted(directory.glob("*.log"))}


def write(directory: Path, segments: Segments) -> None:
    for base, chunks in segments.items():
        (directory / f"{base:020d}.log").write_bytes(b"".join(chunks))


def lists_of_damage(
    kinds: Iterable[str] = KINDS, *, min_size: int = 1, max_size: int
) -> st.SearchStrategy[list[Damage]]:
    numbers = [st.integers(0, 1 << 16)] * 6
    return st.lists(st.builds(Damage, st.sampled_from(sorted(kinds)), *numbers), min_size=min_size, max_size=max_size)


def damaged_by(segments: Segments, damages: Iterable[Damage]) -> Segments:
    found = {base: list(chunks) for base, chunks in segments.items()}
    for damage in damages:
        damage.do(found)
    return found


def with_examples(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test with damages that have shown faults of earlier versions, each with the reason where one is known."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        for one in json.loads((TESTDATA / "recovery" / f"{name}.json").read_text("utf-8")):
            test = example(damages=[Damage(*damage) for damage in one["damages"]])(test)
        return test

    return decorated
