"""The contents of a compressed message are never taken for a batch of the segment.

lz4 and snappy leave whole messages, with valid CRCs, readable inside the compressed bytes. If the compressed message is
torn or its length is wrong, a search for the next intact batch finds them.
"""

import gzip
from pathlib import Path

import pytest

import kseg
from kernel.rendering import message
from segment.segments import TESTDATA, entries, sample

LOGS = sorted(
    path
    for pattern in ("kafka-0.8.2.2/codecs/*/*.log", "kafka-0.10.2.2/codecs/*/*.log")
    for path in TESTDATA.glob(pattern)
    if any(part[17] & 7 in (2, 3) for part in entries(path.read_bytes()))
)


def strangers(path: Path, data: bytes, known: set[bytes]) -> list[int]:
    """Returns positions of valid batches that the undamaged segment does not have."""
    path.write_bytes(data)
    items = [item for item in kseg.open(path) if not isinstance(item, kseg.Damage)]
    return [item.position for item in items if item.is_valid and bytes(item.data) not in known]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("log", LOGS, ids=lambda path: "/".join(path.parts[-4:-1]))
def test_a_torn_or_mislabelled_compressed_message_is_damage_as_a_whole(log: Path, tmp_path: Path) -> None:
    whole = log.read_bytes()[:16384]
    parts = entries(log.read_bytes())
    known = set(parts)
    path = tmp_path / log.name
    found = {size: strangers(path, whole[:size], known) for size in range(0, len(whole), 61)}
    at = 0
    for part in parts:
        if at + 12 < len(whole):
            found[-at] = strangers(path, whole[: at + 10] + bytes([whole[at + 10] ^ 4]) + whole[at + 11 :], known)
        at += len(part)
    assert {change: positions for change, positions in found.items() if positions} == {}


def test_a_torn_message_ends_the_segment(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes((TESTDATA / "kafka-0.8.2.2/codecs/one-lz4-0" / path.name).read_bytes()[:5700])
    *_, last = kseg.open(path)
    assert (last.code, last.position, last.length) == ("truncated-batch", 5239, 461)


def test_nonsense_that_looks_like_the_header_of_a_compressed_message_hides_nothing(tmp_path: Path) -> None:
    """The bytes before an intact message make it the key of a snappy message whose other fields do not match."""
    whole = entries(sample("v0"))[0]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes.fromhex("0000000000000200000000") + whole)
    assert [item.position for item in kseg.open(path) if not isinstance(item, kseg.Damage)] == [11]


@pytest.mark.parametrize("offset, is_inside", [(0, False), (1, True)])
def test_an_older_message_after_a_torn_one_is_found(offset: int, is_inside: bool, tmp_path: Path) -> None:
    """The length of the torn message extends into it; inner offsets of v0 are absolute, so an earlier one is not
    its."""
    path = tmp_path / "00000000000000000000.log"
    first, torn = entries((TESTDATA / "kafka-0.8.2.2/codecs/one-lz4-0" / path.name).read_bytes())[:2]
    plain = next(part for part in entries(sample("v0")) if not part[17] & 7)
    path.write_bytes(bytes(8) + first[8:] + torn[:-20] + offset.to_bytes(8, "big") + plain[8:])
    behind = len(first) + len(torn) - 20
    assert [item.position for item in kseg.open(path) if not isinstance(item, kseg.Damage)][1:] == (
        [] if is_inside else [behind]
    )


@pytest.mark.parametrize("wrapper", [0, 1])
@pytest.mark.parametrize("magic", [1, 2, 3, 127])
def test_messages_of_any_magic_in_a_wrapper_are_read_as_by_kafka(tmp_path: Path, wrapper: int, magic: int) -> None:
    """Kafka's iterator lays out a message of any magic but 0 as v1, with its own timestamp."""
    path = tmp_path / "00000000000000000000.log"
    inner = b"".join(message(offset, magic, None, b"v", 5_000 + offset) for offset in range(3))
    path.write_bytes(message(2, wrapper, None, gzip.compress(inner), 7_000, attributes=1))
    (batch,) = kseg.open(path)
    assert [(record.offset, record.timestamp) for record in batch] == [(0, 5_000), (1, 5_001), (2, 5_002)]
