"""A start of Kafka 0.7 on real messages of that release: what is cut, what is reported as lost, and what is refused."""

from pathlib import Path

import pytest

from kseg.recovery.refusal import BrokerRefusesError
from kseg.releases.recovery import era_of
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


def broken(message: bytes) -> bytes:
    return message[:-1] + bytes([message[-1] ^ 1])


def partition(directory: Path, *segments: list[bytes]) -> Path:
    """Segments that are named by their position in the whole log."""
    directory.mkdir()
    position = 0
    for batches in segments:
        (directory / f"{position:020d}.kafka").write_bytes(b"".join(batches))
        position += sum(map(len, batches))
    return directory


def test_the_last_segment_is_cut_at_its_first_broken_message(tmp_path: Path) -> None:
    first, last = MESSAGES[:2], [*MESSAGES[2:4], broken(MESSAGES[4]), *MESSAGES[5:8]]
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
    assert (cut.loss.first_offset, cut.loss.last_offset) == (behind, behind + len(MESSAGES[5]) + len(MESSAGES[6]))
    (step,) = found.plan.steps
    assert [removed.records for removed in step.removed] == [3]


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
