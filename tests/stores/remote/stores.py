"""Remote storage of real brokers (testdata/remote), and copies of it to damage."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from cli.command import flip
from kseg.stores.place import Place
from kseg.stores.remote.keys import PrivateKeys, private_keys
from kseg.stores.remote.segment import RemotePartition, RemoteSegment, RemoteStorage, open_storage

REMOTE = Path(__file__).resolve().parent.parent.parent.parent / "testdata" / "remote"
KEY_OPTIONS = [f"{key}={REMOTE / 'keys' / f'{key}-private.pem'}" for key in ("k1", "k2")]


def keys() -> PrivateKeys:
    return private_keys(KEY_OPTIONS)


def store_of(variant: str) -> Path:
    return REMOTE / variant / "remote"


def storage(variant: str) -> RemoteStorage:
    return open_storage(str(store_of(variant)), keys())


def copied(variant: str, folder: Path) -> Path:
    """A copy of a store that a test may change."""
    return Path(shutil.copytree(store_of(variant), folder / variant))


def partition(variant: str, name: str) -> RemotePartition:
    return next(found for found in storage(variant).partitions if found.name == name)


def first_segment(path: Path) -> RemoteSegment:
    return open_storage(str(path), keys()).partitions[0].segments[0]


def damage_chunk(store: Path, variant: str, number: int, at: int = 40) -> RemoteSegment:
    """Flips a bit of a chunk of the second segment in a copy of a store; returns the segment as it was."""
    segment = storage(variant).partitions[0].segments[1]
    log = next(store.rglob(f"*{segment.segment_id}.log"))
    flip(log, segment.chunks.positions[number] + at)
    return segment


def noted_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The ranges of files and objects that are read from now on: path, start and length."""
    found: list[tuple[str, int, int]] = []
    read = Place.read_range

    def noted(place: Place, start: int, length: int) -> bytes:
        found.append((place, start, length))
        return read(place, start, length)

    monkeypatch.setattr(Place, "read_range", noted)
    return found


def truth(variant: str) -> dict[str, dict]:
    """What is known of each segment, by its id: `sha256Log` is the digest of the log that the broker copied."""
    lines = (REMOTE / variant / "truth" / "segments.jsonl").read_text().splitlines()
    return {fact["id"]: fact for fact in map(json.loads, lines)}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
