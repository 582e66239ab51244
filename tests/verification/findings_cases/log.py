"""Batches, records, and offsets from batch to batch."""

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

from verification.findings_cases.bases import SHORT, SHORT_BATCHES, name, short, short_batches
from verification.findings_cases.case import NOW_MS, Made, Section, Told
from verification.partitions import TESTDATA, changed, message, of_records, plain_record, sealed, spans, stored_gzip

CASES = case = Section()
LOG = f"dplain-0/{name(97)}"
SECOND = f"dplain-0/{name(101)}"


def as_it_lies(place: str, *findings: tuple[str, int, int | None, int | None]) -> Made:
    """A damaged segment below testdata/damaged, at this place: its README tells what a broker did about it."""
    judged, file = place.rsplit("/", 1)
    place = f"../../{judged}"
    return Made(place, f"damaged/{judged}", [Told(code, f"{place}/{file}", *rest) for code, *rest in findings])


def of_bytes(folder: Path, data: bytes, code: str, offset: int | None = 0) -> Made:
    """One batch, all of which the finding is about."""
    (folder / "made-0").mkdir()
    (folder / "made-0" / name(0)).write_bytes(data)
    return Made("made-0", "", [Told(code, f"made-0/{name(0)}", 0, len(data), offset)])


@case
def truncated_batch(folder: Path) -> Made:
    """Cut in the middle of the last batch."""
    place = "4.3.1-last-trunc-half-batch/dplain-0/" + name(116)
    return as_it_lies(place, ("truncated-batch", 12237, 13255 - 12237, None))


@case
def nonsense_block(folder: Path) -> Made:
    """100 random bytes appended."""
    return as_it_lies("4.3.1-last-append-random100/dplain-0/" + name(116), ("nonsense-block", 14274, 100, None))


@case
def zero_block(folder: Path) -> Made:
    """4096 zero bytes appended to a segment that is not the last."""
    return as_it_lies("4.3.1-mid-append-zeros4096/dplain-0/" + name(46), ("zero-block", 13340, 4096, None))


@case
def bad_length(folder: Path) -> Made:
    """The length field of the fourth batch is 0."""
    return as_it_lies(
        "4.3.1-last-length-zero/dplain-0/" + name(116),
        ("bad-length", 7129, 305, None),
    )  # fmt: skip


@case
def bad_magic(folder: Path) -> Made:
    """The magic of a batch is 7."""
    data = (TESTDATA / "damaged/1.1.1-flip-magic-dt/dt-0" / name(205)).read_bytes()
    size = dict(spans(data))[13770]
    base = int.from_bytes(data[13770:13778], "big")
    return as_it_lies("1.1.1-flip-magic-dt/dt-0/" + name(205), ("bad-magic", 13770, size, base))


@case
def crc_mismatch(folder: Path) -> Made:
    """One bit flipped in the records of the fourth batch."""
    return as_it_lies("4.3.1-last-flip-body/dplain-0/" + name(116), ("crc-mismatch", 7129, 305, 134))


UNDECODABLE = "4.3.1-crcok-gzip-payload-garbage/dgzip-0/" + name(227)


@case
def undecodable_records(folder: Path) -> Made:
    """The compressed records of a batch are garbage, its checksum made right again."""
    return as_it_lies(UNDECODABLE, ("undecodable-records", 4196, 116, 242))


@case
def decompression_limit(folder: Path) -> Made:
    """Read with a limit of 10 bytes, which each of the intact batches exceeds; the garbage does not come so far."""
    partition = folder / "lat-gzip-0"
    partition.mkdir()
    data = (TESTDATA / "kafka-0.11.0.3/txn/lat-gzip-0" / name(471)).read_bytes()
    size = spans(data)[0][1]
    (partition / name(471)).write_bytes(data[:size])
    found = Told("decompression-limit", f"lat-gzip-0/{name(471)}", 0, size, 471)
    return Made("lat-gzip-0", "kafka-0.11.0.3/txn/lat-gzip-0", [found], {"maxBatchBytes": 10})


@case
def count_mismatch(folder: Path) -> Made:
    """recordsCount of the fourth batch is one more, its checksum made right again."""
    return as_it_lies("4.3.1-crcok-count-plus-1/dplain-0/" + name(116), ("count-mismatch", 7129, 305, 134))


@case
def offsets_not_rising(folder: Path) -> Made:
    """A batch made by hand: both records have the offset 0."""
    return of_bytes(folder, of_records([plain_record(0), plain_record(0)], 1), "offsets-not-rising")


@case
def offset_out_of_range(folder: Path) -> Made:
    """A batch made by hand: the second of two records has the offset 5."""
    return of_bytes(folder, of_records([plain_record(0), plain_record(5)], 1), "offset-out-of-range")


@case
def cut_message_set(folder: Path) -> Made:
    """A compressed v0 message made by hand: its set ends in the middle of the second message."""
    inner = message(0, b"one") + message(1, b"two")[:-2]
    made = of_bytes(folder, message(1, stored_gzip(inner), attributes=1), "cut-message-set", 1)
    return replace(made, findings=[*made.findings, Told("old-message-format", "made-0")])


@case
def compressed_twice(folder: Path) -> Made:
    """A compressed v0 message made by hand: the message inside is a compressed set."""
    inner = message(1, stored_gzip(message(0, b"one") + message(1, b"two")), attributes=1)
    made = of_bytes(folder, message(1, stored_gzip(inner), attributes=1), "compressed-twice", 1)
    return replace(made, findings=[*made.findings, Told("old-message-format", "made-0")])


@case
def bytes_behind_records(folder: Path) -> Made:
    """A batch made by hand: behind its gzip member lie three bytes that are none."""
    return of_bytes(
        folder, of_records([stored_gzip(plain_record(0)) + b"any"], 0, attributes=1), "bytes-behind-records"
    )


@case
def inner_crc_mismatch(folder: Path) -> Made:
    """A compressed v0 message made by hand: one bit of the checksum of the second message in it is wrong."""
    inner = message(0, b"one") + message(1, b"two", spoilt=1)
    made = of_bytes(folder, message(1, stored_gzip(inner), attributes=1), "inner-crc-mismatch", 1)
    return replace(made, findings=[*made.findings, Told("old-message-format", "made-0")])


@case
def max_timestamp_mismatch(folder: Path) -> Made:
    """A batch made by hand: its header tells of 1001, its only record of 1000."""
    return of_bytes(folder, of_records([plain_record(0)], 0, max_timestamp=1001), "max-timestamp-mismatch")


@case
def record_attributes(folder: Path) -> Made:
    """A batch made by hand: its only record has the attributes 1."""
    return of_bytes(folder, of_records([plain_record(0, attributes=1)], 0), "record-attributes")


@case
def unused_attributes(folder: Path) -> Made:
    """The third batch has attribute bit 9, its checksum made right again."""
    partition = short(folder, (97,), bare=True)
    batches = short_batches()
    batches[2] = sealed(batches[2][:21] + b"\x02\x00" + batches[2][23:])
    (partition / name(97)).write_bytes(b"".join(batches))
    return Made("dplain-0", SHORT, [Told("unused-attributes", LOG, 540, 94, 101)])


@case
def wrong_base_offset(folder: Path) -> Made:
    """The base offset of a batch is 5000000."""
    data = (TESTDATA / "damaged/1.1.1-offset-high-dz/dz-0" / name(500)).read_bytes()
    return as_it_lies(
        "1.1.1-offset-high-dz/dz-0/" + name(500), ("wrong-base-offset", 7163, dict(spans(data))[7163], 5000000)
    )


@case
def batch_out_of_order(folder: Path) -> Made:
    """The last batch appended a second time."""
    return as_it_lies("1.1.1-dup-last-batch-dz/dz-0/" + name(500), ("batch-out-of-order", 13460, 1022, 679))


@case
def offset_outside_segment(folder: Path) -> Made:
    """The segment of offset 97 is called 99."""
    partition = short(folder, (97,), bare=True)
    (partition / name(97)).rename(partition / name(99))
    return Made("dplain-0", SHORT, [Told("offset-outside-segment", f"dplain-0/{name(99)}", 0, 448, 97)])


@case
def segments_overlap(folder: Path) -> Made:
    """The batches from offset 101 on lie at the end of the first segment, too."""
    partition = short(folder, bare=True)
    second = (partition / name(101)).read_bytes()
    with (partition / name(97)).open("ab") as stream:
        stream.write(second)
    return Made("dplain-0", SHORT, [Told("segments-overlap", LOG, 540, 94, 102)])


@case
def foreign_batches(folder: Path) -> Made:
    """The first segment of e-lz4-0 replaced by that of e-txn-0."""
    place = "compaction/4.3.1/before"
    shutil.copytree(TESTDATA / place / "e-lz4-0", folder / "e-lz4-0")
    shutil.copy(TESTDATA / place / "e-txn-0" / name(0), folder / "e-lz4-0")
    log, index = f"e-lz4-0/{name(0)}", f"e-lz4-0/{name(0, '.index')}"
    found = [
        Told("segments-overlap", log, 1482, 78, 219), Told("index-corrupt", index, 0, 48, 39),
        Told("time-index-mismatch", index.replace(".index", ".timeindex"), 0, 84, 39),
        Told("gap-compacted", log, 0, None, 0), Told("gap-aborted", log, 78, None, 11),
        Told("foreign-batches", log, None, None, 10),
    ]  # fmt: skip
    return Made("e-lz4-0", f"{place}/e-lz4-0", found)


@case
def gap_unexplained(folder: Path) -> Made:
    """The fourth batch cut out."""
    return as_it_lies("4.3.1-last-batch-removed/dplain-0/" + name(116), ("gap-unexplained", 7129, None, 134))


@case
def gap_truncated(folder: Path) -> Made:
    """The second of four batches overwritten with zeros."""
    partition = short(folder, (97,), bare=True)
    changed(partition / name(97), 448, bytes(92))
    found = [Told("zero-block", LOG, 448, 92), Told("gap-truncated", LOG, 540, None, 100)]
    return Made("dplain-0", SHORT, found)


CLEANED = "kafka-0.11.0.3/txn/compact-txn-0"


def cleaned(folder: Path, base: int, positions: dict[str, tuple[int, int]]) -> Made:
    """One segment of a cleaned log of transactions; the first gap of each kind is at (position, offset)."""
    (folder / "compact-txn-0").mkdir()
    shutil.copy(TESTDATA / CLEANED / name(base), folder / "compact-txn-0")
    file = f"compact-txn-0/{name(base)}"
    found = [Told(code, file, position, None, offset) for code, (position, offset) in positions.items()]
    return Made("compact-txn-0", CLEANED, found)


@case
def gap_compacted(folder: Path) -> Made:
    """Nothing: a segment as the cleaner left it, with gaps of all its kinds."""
    return cleaned(folder, 993, {"gap-compacted": (78, 994), "gap-aborted": (156, 1002)})


@case
def gap_control(folder: Path) -> Made:
    """Nothing: a segment as the cleaner left it, with gaps of all its kinds."""
    return cleaned(
        folder, 786, {"gap-aborted": (0, 786), "gap-control": (156, 806), "gap-compacted": (78, 793)}
    )  # fmt: skip


@case
def gap_aborted(folder: Path) -> Made:
    """Nothing: a segment as the cleaner left it, with gaps of aborted transactions."""
    return cleaned(folder, 993, {"gap-compacted": (78, 994), "gap-aborted": (156, 1002)})


def quarantine(partition: Path, state: str, gaps: list[list[int]], command: str) -> None:
    """The manifest of a change without steps."""
    folder = partition / ".kseg-quarantine" / "1"
    folder.mkdir(parents=True)
    content = {
        "version": 1, "state": state, "command": command, "timeMs": NOW_MS, "kept": "old", "group": "", "undoes": 0,
        "gaps": gaps, "after": {}, "steps": [],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(content, indent=1) + "\n")


@case
def gap_salvaged(folder: Path) -> Made:
    """The second of four batches cut out, and the manifest of a salvage that tells of its offset."""
    partition = short(folder, (97,), bare=True)
    batches = short_batches()
    (partition / name(97)).write_bytes(batches[0] + batches[2] + batches[3])
    quarantine(partition, "done", [[100, 100]], "recover --mode salvage")
    return Made("dplain-0", SHORT, [Told("gap-salvaged", LOG, 448, None, 100)])


@case
def leader_epoch_falls(folder: Path) -> Made:
    """The first two batches are of leader epoch 9, the others of epoch 0."""
    partition = short(folder, (97,), bare=True)
    for position in (0, 448):
        changed(partition / name(97), position + 12, struct.pack(">i", 9))
    return Made("dplain-0", SHORT, [Told("leader-epoch-falls", LOG, 540, 94, 101)])


@case
def future_timestamp(folder: Path) -> Made:
    """Nothing: two days before the first of its batches was written."""
    short(folder, (97,), bare=True)
    found, position, day_ms = [], 0, 24 * 3600 * 1000
    for offset, size in SHORT_BATCHES:
        found.append(Told("future-timestamp", LOG, position, size, offset))
        position += size
    return Made("dplain-0", SHORT, found, {"nowMs": 1790000132890 - 2 * day_ms})


@case
def early_timestamp(folder: Path) -> Made:
    """The first timestamp of each batch is divided by 1000: seconds, as producers send them by mistake."""
    partition = short(folder, (97,), bare=True)
    data = b""
    for batch in short_batches():
        first, last = struct.unpack_from(">qq", batch, 27)
        data += sealed(batch[:27] + struct.pack(">qq", first // 1000, first // 1000 + last - first) + batch[43:])
    (partition / name(97)).write_bytes(data)
    return Made("dplain-0", SHORT, [Told("early-timestamp", LOG, offset=97)])


@case
def old_message_format(folder: Path) -> Made:
    """Nothing: the first message of 0.8.2.2's."""
    source = "kafka-0.8.2.2/codecs/one-gzip-0"
    (folder / "one-gzip-0").mkdir()
    data = (TESTDATA / source / name(0)).read_bytes()
    (folder / "one-gzip-0" / name(0)).write_bytes(data[: spans(data)[0][1]])
    return Made("one-gzip-0", source, [Told("old-message-format", "one-gzip-0")])


@case
def file_shrank(folder: Path) -> Made:
    """Nothing to the bytes: half of the segment is cut off while it is read."""
    short(folder, (97,), bare=True)
    size = sum(size for _, size in SHORT_BATCHES) // 2
    found = [Told("truncated-batch", LOG, 634, size - 634), Told("file-shrank", LOG)]
    return Made("dplain-0", SHORT, found, {"condition": "file-shrinks"})


@case
def unreadable_bytes(folder: Path) -> Made:
    """Nothing to the bytes: the disk does not give all of them."""
    (folder / "dplain-0").mkdir(parents=True)
    shutil.copy(TESTDATA / SHORT / name(0), folder / "dplain-0")
    file, batches = f"dplain-0/{name(0)}", dict(spans((folder / "dplain-0" / name(0)).read_bytes()))
    lost = batches[2765] + batches[6802]  # the offsets 16 to 35; these batches hold bytes 4096 to 8191
    found = [Told("unreadable-bytes", file, 2765, lost), Told("gap-truncated", file, 9610, None, 16)]
    return Made("dplain-0", SHORT, found, {"condition": "disk-fails"})
