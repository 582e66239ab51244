"""Captured fetch responses: real message sets in the layouts of MessageSetSend and MultiMessageSetSend."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.formats.rows import Scratch
from kseg.formats.v07 import MessageSet, Unreadable, parse
from kseg.segment.items import Damage
from kseg.segment.seek import message_sets
from kseg.stores.source import open_source
from segment.segments import TESTDATA

SETS = {
    "0.6": "kafka-0.6/magic0/MagicByte0-0/*.kafka",
    "0.7": "kafka-0.7.2/direct/codecs-0/*.kafka",
    "v0": "kafka-0.8.2.2/codecs/one-gzip-0/*.log",
    "v1": "kafka-0.10.2.2/codecs/rec-lz4-0/*.log",
    "v2": "kafka-4.3.1/codecs/codec-mix-0/*.log",
}


def messages(name: str) -> bytes:
    return max((path.read_bytes() for path in TESTDATA.glob(SETS[name])), key=len)


def one(data: bytes, error_code: int = 0) -> bytes:
    return struct.pack(">ih", len(data) + 2, error_code) + data


def several(*sets: bytes) -> bytes:
    return one(b"".join(sets))


def parts(data: bytes) -> list[tuple]:
    return [tuple(part) for part in parse(data, len(data))]


def read(tmp_path: Path, data: bytes) -> list[tuple[bytes, list[Damage]]]:
    """Returns the batch bytes of each set, and its damage."""
    path = tmp_path / "capture"
    path.write_bytes(data)
    found = []
    with open_source(str(path)) as source:
        for part in message_sets(source, Scratch()):
            if isinstance(part, Damage):
                found.append((b"", [part]))
                continue
            items = list(part[1])
            batches = [item for item in items if not isinstance(item, Damage)]
            assert all(batch.is_valid and not batch.check() for batch in batches)
            damage = [item for item in items if isinstance(item, Damage)]
            found.append((b"".join(bytes(batch.data) for batch in batches), damage))
    return found


@pytest.mark.parametrize("name", SETS)
def test_one_set(name: str, tmp_path: Path) -> None:
    data = messages(name)
    assert parts(one(data)) == [(6, len(data) + 6, 0, name in ("0.6", "0.7"), 0)]
    assert read(tmp_path, one(data)) == [(data, [])]


@pytest.mark.parametrize("name", SETS)
def test_several_sets(name: str, tmp_path: Path) -> None:
    data = messages(name)
    capture = several(one(data), one(b"", 1), one(data), one(b""))
    assert [part[2] for part in parts(capture)] == [0, 1, 0, 0]
    assert read(tmp_path, capture) == [(data, []), (b"", []), (data, []), (b"", [])]


def test_sets_of_different_formats_and_answers_in_a_row(tmp_path: Path) -> None:
    capture = several(one(b""), *(one(messages(name)) for name in SETS)) + one(messages("0.7")) + one(b"", -1)
    assert [found for found, _ in read(tmp_path, capture)] == [
        b"", *(messages(name) for name in SETS), messages("0.7"), b""
    ]  # fmt: skip
    assert parts(capture)[-1][2] == -1


def test_sets_without_a_message() -> None:
    assert parts(one(b"", 1)) == [(6, 6, 1, False, 0)]
    assert parts(several(one(b"", 1), one(b"", 3))) == [(12, 12, 1, False, 0), (18, 18, 3, False, 0)]


@pytest.mark.parametrize("name", SETS)
def test_a_message_that_the_broker_cut_is_no_damage(name: str, tmp_path: Path) -> None:
    data = messages(name)
    for capture in (one(data[:-1]), several(one(data[:-1]), one(data))):
        found = read(tmp_path, capture)
        assert [damage for _, damage in found] == [[]] * len(found)
        assert data.startswith(found[0][0])
        assert 0 < len(found[0][0]) < len(data)


@pytest.mark.parametrize("name", SETS)
def test_a_capture_that_was_cut_is_damage(name: str, tmp_path: Path) -> None:
    data = messages(name)
    ((kept, (damage,)),) = read(tmp_path, one(data)[:-1])
    assert damage.code == "truncated-batch"
    assert damage.end == len(data) + 5
    assert data.startswith(kept)
    whole = several(one(data), one(data))
    (_, first), (_, second) = read(tmp_path, whole[:-1])
    assert (first, [item.code for item in second]) == ([], ["truncated-batch"])
    _, (nothing, (missing,)) = read(tmp_path, whole[: 6 + 6 + len(data)])
    assert (nothing, missing.code, missing.length) == (b"", "truncated-batch", 0)


@pytest.mark.parametrize("name", ["0.7", "v1"])
def test_damage_inside_a_set_is_reported_and_skipped(name: str, tmp_path: Path) -> None:
    """The length of a damaged first 0.7 message must not be taken for that of a message set."""
    data = bytearray(messages(name))
    data[12 if name == "0.7" else 30] ^= 1
    path = tmp_path / "capture"
    path.write_bytes(one(bytes(data)))
    with open_source(str(path)) as source:
        ((part, reader),) = [found for found in message_sets(source, Scratch()) if not isinstance(found, Damage)]
        items = list(reader)
    assert (part.start, part.end) == (6, len(data) + 6)
    assert [item.is_valid for item in items] == [False] + [True] * (len(items) - 1)
    assert b"".join(bytes(item.data) for item in items) == data


def test_offsets_of_07_count_from_the_start_of_their_set(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(several(one(messages("0.7")), one(messages("0.7"))))
    with open_source(str(path)) as source:
        firsts = [next(iter(found[1])) for found in message_sets(source, Scratch()) if not isinstance(found, Damage)]
    assert [(batch.position, batch.base_offset) for batch in firsts] == [
        (12, 0),
        (18 + len(messages("0.7")), 0),
    ]


def test_bytes_that_are_not_a_response_are_reported() -> None:
    assert parts(b"abc") == [(0, 3, "no length and error code of an answer")]
    assert parts(one(b"", 0) + b"\xff" * 9)[1] == (6, 15, "no length and error code of an answer")
    inner = one(messages("v2"))
    assert parts(several(inner, b"\0\0\0"))[1] == (
        6 + len(inner), 9 + len(inner), "no length and error code of a message set"
    )  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([one(b""), one(b"abc"), several(one(b"x"))]))))
def test_any_bytes_are_accounted_for(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    at = 0
    for part in parse(data, len(data)):
        assert isinstance(part, MessageSet | Unreadable)
        headers = part.start - at
        assert headers in ((0,) if isinstance(part, Unreadable) else (6, 12)) or (
            headers == 6 and part.end == len(data)
        )
        at = part.end
    assert at == len(data)
