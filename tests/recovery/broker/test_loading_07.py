"""A start of Kafka 0.7 on real messages of that release: what is cut, what is reported as lost, and what is refused."""

import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kseg.changes.plan import Removed
from kseg.recovery.workspace import BrokerRefusesError
from kseg.releases.release import era_of
from recovery.damages import broken
from recovery.partitions import TESTDATA, contents, recover

ERA = era_of("0.7.2")


def messages() -> list[bytes]:
    """The messages of a segment with all codecs of 0.7, each with its size."""
    data = (TESTDATA / "kafka-0.7.2/direct/codecs-0/00000000000000000000.kafka").read_bytes()
    found, at = list[bytes](), 0
    while at < len(data):
        size = 4 + int.from_bytes(data[at : at + 4], "big")
        found.append(data[at : at + size])
        at += size
    return found


MESSAGES = messages()


def partition(directory: Path, *segments: list[bytes]) -> Path:
    """Segments that are named by their position in the whole log."""
    directory.mkdir()
    position = 0
    for batches in segments:
        (directory / f"{position:020d}.kafka").write_bytes(b"".join(batches))
        position += sum(map(len, batches))
    return directory


def test_the_last_segment_is_cut_at_its_first_broken_message(tmp_path: Path) -> None:
    first, last = MESSAGES[:2], [*MESSAGES[2:4], broken(MESSAGES[4]), *MESSAGES[5:7], b"\xff" * 20, MESSAGES[7]]
    directory = partition(tmp_path / "rec-0", first, last)
    base, at = len(b"".join(first)), len(b"".join(last[:2]))
    found = recover(directory, era=ERA)
    assert contents(directory) == {
        f"{0:020d}.kafka": b"".join(first),
        f"{base:020d}.kafka": b"".join(last[:2]),
    }
    assert found.next_offset == base + at
    (cut,) = found.cuts
    assert (cut.position, cut.length, cut.next_offset) == (at, len(b"".join(last[2:])), base + at)
    behind = base + len(b"".join(last[:3]))
    assert (cut.loss.batches, cut.loss.records) == (3, 3)
    end = behind + len(b"".join(last[3:6]))
    assert (cut.loss.first_offset, cut.loss.last_offset) == (behind, end)
    (step,) = found.plan.steps
    reason = "cut at the first message that is not valid"
    assert step.removed == (Removed(at, len(b"".join(last[2:])), reason, None, None, 3),)


@pytest.mark.parametrize("kept", [1, 5, 12])
def test_a_torn_message_is_cut(kept: int, tmp_path: Path) -> None:
    directory = partition(tmp_path / "rec-0", [*MESSAGES[:3], MESSAGES[3][:kept]])
    found = recover(directory, era=ERA)
    assert contents(directory) == {f"{0:020d}.kafka": b"".join(MESSAGES[:3])}
    assert [cut.loss.batches for cut in found.cuts] == [0]


def test_other_segments_are_not_read(tmp_path: Path) -> None:
    directory = partition(tmp_path / "rec-0", [broken(MESSAGES[0])], MESSAGES[1:3])
    before = contents(directory)
    assert recover(directory, era=ERA).cuts == []
    assert contents(directory) == before


def test_nothing_is_read_after_a_clean_stop(tmp_path: Path) -> None:
    directory = partition(tmp_path / "rec-0", [MESSAGES[0], broken(MESSAGES[1])])
    found = recover(directory, era=ERA, was_clean=True)
    assert (found.cuts, found.scanned, len(found.plan.steps)) == ([], [], 0)
    assert found.next_offset == len(MESSAGES[0]) + len(MESSAGES[1])


def test_a_log_without_a_segment_gets_one(tmp_path: Path) -> None:
    directory = partition(tmp_path / "rec-0")
    recover(directory, era=ERA)
    assert contents(directory) == {f"{0:020d}.kafka": b""}


@pytest.mark.parametrize("change", [-1, 1])
def test_a_segment_that_does_not_end_where_the_next_begins_stops_a_broker(change: int, tmp_path: Path) -> None:
    directory = partition(tmp_path / "rec-0", MESSAGES[:2], MESSAGES[2:4])
    last = max(directory.iterdir())
    last.rename(directory / f"{int(last.stem) + change:020d}.kafka")
    with pytest.raises(BrokerRefusesError, match="does not end where"):
        recover(directory, era=ERA)


def test_segments_of_later_releases_stop_a_broker(tmp_path: Path) -> None:
    directory = tmp_path / "rec-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(BrokerRefusesError, match="holds no"):
        recover(directory, era=ERA)


def test_a_message_with_an_unknown_magic_stops_a_broker(tmp_path: Path) -> None:
    unknown = MESSAGES[1][:4] + b"\x02" + MESSAGES[1][5:]
    directory = partition(tmp_path / "rec-0", [MESSAGES[0], unknown, MESSAGES[2]])
    with pytest.raises(BrokerRefusesError, match=f"position {len(MESSAGES[0])} has magic 2"):
        recover(directory, era=ERA)


def smallest(magic: int, payload: bytes = b"") -> bytes:
    """A message of such a payload; without one the smallest of its magic."""
    message = bytes([magic, *[0] * magic]) + zlib.crc32(payload).to_bytes(4, "big") + payload
    return len(message).to_bytes(4, "big") + message


def valid_end(data: bytes) -> int:
    """kafka.message.FileMessageSet.validateMessage @0.7, message by message; -1 if it throws an exception."""
    at = 0
    while len(data) - at >= 4:
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if size < 5 or at + 4 + size > len(data):
            break
        magic, payload_at = data[at + 4], at + 9 + data[at + 4]
        if magic > 1 or size < 5 + magic:
            return -1
        if zlib.crc32(data[payload_at : at + 4 + size]) != int.from_bytes(data[payload_at - 4 : payload_at], "big"):
            break
        at += 4 + size
    return at


SIZES = [(size + change).to_bytes(4, "big", signed=True) for size in (0, 5, 6) for change in (-1, 0, 1)]
SMALLEST = [smallest(0), smallest(1)]
PIECES = st.one_of(
    st.sampled_from([*MESSAGES[:4], broken(MESSAGES[1]), *SMALLEST, smallest(0, b"\2"), smallest(1, b"a")]),
    st.builds(lambda size, message: size + message[4:], st.sampled_from(SIZES), st.sampled_from(SMALLEST)),
    st.builds(lambda message, n: message[:n], st.sampled_from([MESSAGES[0], smallest(1)]), st.integers(0, 14)),
    st.integers(0, 12).map(bytes),
)


@example(pieces=[smallest(0), smallest(1)])
@example(pieces=[SIZES[3] + smallest(1)[4:9]])  # five bytes of magic 1
@example(pieces=[MESSAGES[0], smallest(0)[:-1]])
@given(pieces=st.lists(PIECES, max_size=4))
def test_the_end_is_that_of_kafkas_loop(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    end = valid_end(data)
    with tempfile.TemporaryDirectory() as folder:
        directory = partition(Path(folder) / "rec-0", [data])
        if end < 0:
            with pytest.raises(BrokerRefusesError, match="has magic"):
                recover(directory, era=ERA)
            return
        found = recover(directory, era=ERA)
        assert contents(directory) == {f"{0:020d}.kafka": data[:end]}
    assert (found.next_offset, found.scanned) == (end, [f"{0:020d}.kafka"] * bool(data))
    assert [(cut.position, cut.length) for cut in found.cuts] == [(end, len(data) - end)] * (end < len(data))
