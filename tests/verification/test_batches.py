"""Offsets and timestamps of batches: wrong ones are reported once, at the batch."""

import shutil
import struct
from pathlib import Path

import pytest

from kernel import rendering
from kseg.recovery.options import BrokerStart
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.releases.release import era_of
from kseg.segment.survey import DEEP, FULL, QUICK
from kseg.verification.partition import CheckSettings
from kseg.verification.run import judge_path
from segment.segments import sealed, spans
from verification.log_directories import TESTDATA, check
from verification.partitions import Found, batch_of, log_of, of_records, plain_record, stored_gzip

# The good offsets before and behind a batch with something wrong: what a consumer can seek to.


def undecodable(first: int) -> bytes:
    """A batch of two offsets whose records make no sense, under a right checksum."""
    batch = bytearray(batch_of(range(first, first + 2)))
    batch[61] = 0xFF
    return sealed(bytes(batch))


FIRST = batch_of(range(3))
BROKEN = batch_of(range(3, 5))[:-1] + bytes([batch_of(range(3, 5))[-1] ^ 1])
MANY = sealed(batch_of(range(3, 5)), 57, (9).to_bytes(4, "big"))
"""It counts more records than it has."""
ODD = (2).to_bytes(8, "big") + of_records([plain_record(0, attributes=1)], 0)[8:]
GOOD_OFFSETS: dict[str, tuple[dict[int, bytes], dict[int, tuple[int | None, int | None]]]] = {
    "between good ones": ({0: FIRST + undecodable(3) + batch_of(range(5, 7))}, {3: (2, 5)}),
    "several in a row": (
        {0: FIRST + undecodable(3) + undecodable(5) + undecodable(7) + batch_of(range(9, 12))},
        {3: (2, 9), 5: (2, 9), 7: (2, 9)},
    ),
    "at the ends of a log": (
        {0: undecodable(0) + batch_of(range(2, 4)) + undecodable(4)}, {0: (None, 2), 4: (3, None)},
    ),
    "in other segments": (
        {0: FIRST + undecodable(3), 5: undecodable(5) + batch_of(range(7, 9))}, {3: (2, 7), 5: (2, 7)},
    ),
    "a wrong checksum in the next segment": ({0: FIRST, 3: BROKEN + batch_of(range(5, 7))}, {3: (2, 5)}),
    "a wrong checksum is not good": (
        {0: FIRST + BROKEN + undecodable(5) + batch_of(range(7, 9))}, {3: (2, 7), 5: (2, 7)},
    ),
    "what is only odd is good": ({0: batch_of(range(2)) + ODD + undecodable(3) + batch_of([5])}, {3: (2, 5)}),
    "damage beside it": (
        {0: FIRST + undecodable(3) + bytes(200) + undecodable(5) + batch_of(range(7, 9))}, {3: (2, 7), 5: (2, 7)},
    ),
    "a wrong count": ({0: FIRST + MANY + batch_of(range(5, 7))}, {3: (2, 5)}),
}  # fmt: skip
"""Segments; and for the first offset of each wrong batch, the last good offset before it and the next one behind."""
SEEN_FROM_FULL_ON = ("a wrong checksum in the next segment", "a wrong count")


@pytest.mark.parametrize("name", GOOD_OFFSETS)
def test_good_offsets_before_and_behind(name: str, tmp_path: Path) -> None:
    segments, expected = GOOD_OFFSETS[name]
    for base, data in segments.items():
        (tmp_path / f"{base:020}.log").write_bytes(data)
    for level in (FULL, DEEP) if name in SEEN_FROM_FULL_ON else (DEEP,):
        details = [
            finding.details
            for finding in check(tmp_path, level).findings
            if finding.code in ("undecodable-records", "crc-mismatch", "count-mismatch")
        ]
        found = {each["firstOffset"]: (each["lastGoodOffset"], each["nextGoodOffset"]) for each in details}
        assert found == expected


@pytest.mark.parametrize("number", range(4))
def test_intact_batches_behind_a_broken_one_are_counted(number: int, tmp_path: Path) -> None:
    batches = [batch_of([offset]) for offset in range(4)]
    batches[number] = batches[number][:-1] + b"\xff"
    text = check(log_of(tmp_path, b"".join(batches)), FULL).one("crc-mismatch").message
    assert f"intact batches behind it in this segment: {3 - number}" in text


def compressed(offsets: range, magic: int, payload: bytes | None = None) -> bytes:
    """A message set; the offsets in it are absolute in v0, relative in v1."""
    inner = b"".join(rendering.message(offset - offsets[0] * magic, magic, None, b"value") for offset in offsets)
    value = stored_gzip(inner) if payload is None else payload
    return rendering.message(offsets[-1], magic, None, value, attributes=1)


@pytest.mark.parametrize("level", [QUICK, FULL, DEEP])
@pytest.mark.parametrize("magic", [0, 1])
def test_the_next_good_offset_is_the_first_one_in_a_compressed_message(magic: int, level: int, tmp_path: Path) -> None:
    behind = [compressed(range(at, at + 5), magic) for at in (5, 10, 15)]
    folder = log_of(tmp_path, compressed(range(2), magic) + bytes(200) + b"".join(behind), first=0)
    details = check(folder, level).one("zero-block").details
    assert (details["lastGoodOffset"], details["nextGoodOffset"]) == (1, 5)


def test_the_next_good_offset_of_a_message_that_cannot_be_decompressed(tmp_path: Path) -> None:
    """At level full its own offset; at level deep it is not good."""
    broken = compressed(range(5, 10), 1, b"no gzip")
    data = compressed(range(2), 1) + bytes(200) + broken + compressed(range(10, 15), 1)
    folder = log_of(tmp_path, data, first=0)
    found = {level: check(folder, level).one("zero-block").details["nextGoodOffset"] for level in (FULL, DEEP)}
    assert found == {FULL: 9, DEEP: 10}


@pytest.mark.parametrize(
    ("epochs", "repaired", "decided"),
    [
        ([0, 0, -1, 0], [2], []),
        ([0, 7, 0, 0], [2], []),
        ([0, -1, -1, -1, -1, 0], [], [1, 2, 3, 4]),  # messages that brokers since 4.0 converted while cleaning
        ([3, 1, 1, 3], [], [1]),
    ],
)
def test_a_salvage_is_named_for_the_leader_epochs_that_it_repairs(
    epochs: list[int], repaired: list[int], decided: list[int], tmp_path: Path
) -> None:
    folder = log_of(tmp_path, b"".join(batch_of([at], epoch) for at, epoch in enumerate(epochs)), first=0)
    found = [each for each in check(folder).findings if each.code == "leader-epoch-falls"]
    assert [each.offset for each in found if each.needs is None] == repaired
    assert [each.offset for each in found if each.needs == "decision"] == decided
    salvaged = plan_salvage(str(folder), BrokerStart(), lambda: False).plan
    assert bool(repaired) == any(step.file.endswith(".log") for step in salvaged.steps)


OLD = TESTDATA / "kafka-0.8.2.2" / "codecs"
DAY_MS, NOW_MS = 24 * 3600 * 1000, 1_790_000_000_000


def with_offset(place: Path, target: Path, number: int, offset: int) -> tuple[Path, int, int]:
    """A copy of a partition with another offset in a batch of its first segment; position and size of that."""
    folder = Path(shutil.copytree(place, target / place.name))
    path = folder / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    position, size = spans(bytes(data))[number]
    struct.pack_into(">q", data, position, offset)
    path.write_bytes(data)
    return folder, position, size


@pytest.mark.parametrize("offset", [-1, 0, 1 << 40, 3000])
@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy"])
def test_the_offset_of_a_compressed_set_whose_own_are_right(tmp_path: Path, codec: str, offset: int) -> None:
    """v0: the offsets inside are Kafka's own, and the checksum covers them."""
    folder, position, size = with_offset(OLD / f"one-{codec}-0", tmp_path, 2, offset)
    found = check(folder, DEEP)
    assert found.serious == ["wrong-base-offset"]
    wrong = found.one("wrong-base-offset")
    assert (wrong.position, wrong.length, wrong.offset) == (position, size, offset if offset >= 0 else wrong.offset)


def test_a_segment_that_reaches_into_the_next_one(tmp_path: Path) -> None:
    """The batch that does so is told, and nothing of the segments behind."""
    far = (500).to_bytes(8, "big") + batch_of(range(3, 6))[8:]
    folder = log_of(tmp_path, batch_of(range(3)) + far, batch_of(range(6, 9)), batch_of([9]))
    (folder / f"{10:020}.log").touch()
    found = check(folder, FULL)
    overlap = found.one("segments-overlap")
    first = len(batch_of(range(3)))
    assert (Path(overlap.file).name, overlap.position, overlap.length) == (f"{0:020}.log", first, len(far))
    assert (overlap.offset, "next segment begins at 6" in overlap.message) == (502, True)
    assert set(found.codes) == {"segments-overlap", "gap-unexplained"}


@pytest.mark.parametrize(
    ("timestamp", "ends"),
    [
        (NOW_MS + DAY_MS, []),
        (NOW_MS + DAY_MS + 1, [" is 1 d 0 h ahead of the current time"]),
        (NOW_MS * 1000, ["; in microseconds it would be 2026-09-21T14:13:20.000Z"]),
    ],
)
def test_a_timestamp_may_be_a_day_ahead(timestamp: int, ends: list[str], tmp_path: Path) -> None:
    """Clocks differ, also by a time zone."""
    path, found = tmp_path / f"{0:020}.log", Found()
    path.write_bytes(of_records([plain_record(0)], 0, max_timestamp=timestamp))
    judge_path(str(path), CheckSettings(FULL, NOW_MS, 1), found.report)
    shown = [finding for finding in found.findings if finding.severity == "warning"]
    assert [finding.code for finding in shown] == ["future-timestamp"] * len(ends)
    assert all(finding.message.endswith(end) for finding, end in zip(shown, ends, strict=True))


@pytest.mark.parametrize(
    ("release", "unknown"),
    [
        ("0.8.1", ["format v1", "codec lz4", "format v2"]),
        ("0.9", ["format v1", "format v2"]),
        ("0.10", ["format v2"]),
        ("0.11", ["codec zstd"]),
        ("2.1", []),
    ],
)
def test_formats_and_codecs_that_a_release_does_not_know(release: str, unknown: list[str], tmp_path: Path) -> None:
    messages = [rendering.message(offset, offset == 1, None, b"v", attributes=3 * (offset == 2)) for offset in range(3)]
    batches = [rendering.batch([plain_record(0)], base, attributes) for base, attributes in ((3, 0), (4, 4))]
    folder, found = log_of(tmp_path, b"".join(messages + batches)), Found()
    judge_path(str(folder), CheckSettings(FULL, NOW_MS, 1, era=era_of(release)), found.report)
    shown = [finding.message for finding in found.findings if finding.code == "unsupported-format"]
    assert [text.partition("does not know ")[2].partition(";")[0] for text in shown] == unknown
