"""Records before the fault of a broken batch, in ``kseg dump`` and ``kseg recover --records``."""

import gzip
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import Kseg
from formats.streams import GZIP, LZ4, SNAPPY, ZSTD, lz4_frame, xerial, zstd_frame
from kernel.rendering import batch, message, record

COUNT = 100
VALUES = [random.Random(i).randbytes(400).hex().encode() for i in range(COUNT)]
RECORDS = [record(i, key=b"k%d" % i, value=value) for i, value in enumerate(VALUES)]
AREA = b"".join(RECORDS)
BEFORE = batch([record(0, key=b"k", value=b"before")])


def small_lz4(data: bytes) -> bytes:
    return lz4_frame(data, block_size=4)


def chunks(data: bytes) -> bytes:
    return xerial(*(data[i : i + 4096] for i in range(0, len(data), 4096)))


def plain(data: bytes) -> bytes:
    return data


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, gzip.compress),
    "snappy": (SNAPPY, chunks),
    "lz4": (LZ4, small_lz4),
    "zstd": (ZSTD, lambda data: zstd_frame(data, write_checksum=True)),
    "none": (0, plain),
}
STREAMS = {
    "gzip without a trailer": (GZIP, gzip.compress(AREA)[:-8], COUNT),
    "lz4 without its end mark": (LZ4, small_lz4(AREA)[:-4], COUNT),
    "lz4 with linked blocks": (LZ4, lz4_frame(AREA, block_linked=True, block_size=4), COUNT),
    "snappy, last block cut": (SNAPPY, chunks(AREA)[:-600], 95),
    "zstd, wrong checksum": (ZSTD, zstd_frame(AREA, write_checksum=True)[:-1] + b"?", COUNT),
}


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "logs" / "a-0" / f"{0:020d}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path.parent


def v2(stream: bytes, codec: int, base_offset: int = 0) -> bytes:
    return batch([stream], base_offset, codec, last_delta=COUNT - 1, count=COUNT)


def lines(text: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, text.splitlines()) if row["type"] == "record"]


def recovered(kseg: Kseg, directory: Path, *options: str) -> list[dict[str, Any]]:
    target = directory.parents[1] / "records.jsonl"
    assert kseg("recover", "--mode", "salvage", "--records", target, *options, directory).status in (0, 1)
    return lines(target.read_text())


def assert_first_records(found: list[dict[str, Any]], least: int, first: int = 0) -> None:
    assert least <= len(found) <= COUNT
    assert all(row["proven"] is False for row in found)
    assert [row["offset"] for row in found] == list(range(first, first + len(found)))
    assert [row["value"].encode() for row in found] == VALUES[: len(found)]


@pytest.mark.parametrize("options", [(), ("--drop-undecodable",)])
@pytest.mark.parametrize("name", STREAMS)
def test_a_broken_stream_under_a_right_checksum(kseg: Kseg, tmp_path: Path, name: str, options: tuple[str]) -> None:
    codec, stream, least = STREAMS[name]
    directory = write(tmp_path, v2(stream, codec))
    dumped = kseg("dump", "--print-data-log", "--format", "json", directory)
    assert dumped.status == 1
    assert_first_records(lines(dumped.out), least)
    assert_first_records(recovered(kseg, directory, *options), least)


@pytest.mark.parametrize("codec", CODECS)
def test_a_torn_last_batch(kseg: Kseg, tmp_path: Path, codec: str) -> None:
    number, pack = CODECS[codec]
    torn = v2(pack(AREA), number, 1)
    directory = write(tmp_path, BEFORE + torn[: len(torn) * 6 // 10])
    least = 0 if codec == "zstd" else COUNT // 2
    rows = [json.loads(row) for row in kseg("dump", "--deep-iteration", "--format", "json", directory).out.splitlines()]
    assert [row["type"] for row in rows[:3]] == ["batch", "record", "damage"]
    assert {row["position"] for row in rows[2:]} == {len(BEFORE)}
    assert len(rows[3:]) >= least
    text = kseg("dump", "--print-data-log", directory)
    assert text.out.splitlines()[-1].startswith(b"Found ")
    assert f"position {len(BEFORE)}: --format json prints the readable records" in text.err
    assert_first_records(recovered(kseg, directory), least, 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit(kseg: Kseg, tmp_path: Path, codec: str) -> None:
    number, pack = CODECS[codec]
    broken = bytearray(v2(pack(AREA), number))
    broken[61 + (len(broken) - 61) * 3 // 4] ^= 16
    directory = write(tmp_path, bytes(broken) + batch([record(0, value=b"after")], COUNT))
    found = recovered(kseg, directory)
    whole = [row for row in found if row["value"].encode() == VALUES[row["offset"]]]
    assert len(whole) >= (0 if codec == "zstd" else COUNT * 7 // 10)


def test_a_batch_with_a_wrong_length(kseg: Kseg, tmp_path: Path) -> None:
    broken = bytearray(v2(AREA, 0))
    broken[10] ^= 1
    directory = write(tmp_path, bytes(broken) + batch([record(0, value=b"after")], COUNT))
    shown = kseg("dump", "--print-data-log", "--offsets", "0..9", directory).out.decode()
    assert [*map(int, re.findall(r"(?m)^\| proven: false \| offset: (\d+) .* payload: ", shown))] == [*range(10)]


def test_text_has_the_records_before_the_line_of_damage(kseg: Kseg, tmp_path: Path) -> None:
    directory = write(tmp_path, v2(STREAMS["gzip without a trailer"][1], GZIP))
    shown = kseg("dump", "--print-data-log", directory).out.decode().splitlines()
    assert [line[:9] for line in shown[3:-1]] == ["| offset:"] * COUNT
    assert shown[-1].startswith("| damage: undecodable-records position: 0 ")


def test_bytes_behind_a_fault_that_look_like_records_are_no_records(kseg: Kseg, tmp_path: Path) -> None:
    area = b"".join([*RECORDS[:3], record(2, value=b"again"), *RECORDS[3:]])
    assert_first_records(recovered(kseg, write(tmp_path, v2(gzip.compress(area)[:-8], GZIP))), 3)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("missing", [8, 6000])
def test_message_sets(kseg: Kseg, tmp_path: Path, magic: int, missing: int) -> None:
    """Offsets of v0 are in the messages; those of v1 continue the batch before if the last message is missing."""
    first = message(0, magic, b"k", b"before")
    inner = b"".join(message(i if magic else i + 1, magic, b"k%d" % i, value) for i, value in enumerate(VALUES))
    wrapper = message(COUNT, magic, None, gzip.compress(inner)[:-missing], attributes=GZIP)
    directory = write(tmp_path, first + wrapper)
    dumped = lines(kseg("dump", "--print-data-log", "--format", "json", directory).out)[1:]
    least = COUNT if missing == 8 else 80
    assert_first_records(dumped, least, 1)
    assert_first_records(recovered(kseg, directory, "--drop-undecodable"), least, 1)
    torn = first + wrapper[: len(wrapper) * 8 // 10]
    (directory / f"{0:020d}.log").write_bytes(torn)
    assert_first_records(recovered(kseg, directory), COUNT // 2, 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_compressed_twice_is_read_and_converted(kseg: Kseg, tmp_path: Path, magic: int) -> None:
    inner = b"".join(message(i, magic, b"k%d" % i, b"v") for i in range(1, 4))
    once = message(3, magic, None, gzip.compress(inner), attributes=GZIP)
    set_of_both = message(0, magic, b"k0", b"v") + once
    directory = write(tmp_path, message(3, magic, None, gzip.compress(set_of_both), attributes=GZIP))
    text = kseg("dump", "--deep-iteration", directory)
    damage = f"| damage: compressed-twice position: 0 length: {(directory / f'{0:020d}.log').stat().st_size}".encode()
    shown = [line if line == damage else line[:11] for line in text.out.splitlines()[3:]]
    assert shown == [
        b"| offset: 0", damage, b"| offset: 1", b"| offset: 2", b"| offset: 3",
    ]  # fmt: skip
    dumped = kseg("dump", "--print-data-log", "--format", "json", directory)
    assert (text.status, dumped.status) == (1, 1)
    assert [row["offset"] for row in lines(dumped.out) if "proven" not in row] == [0, 1, 2, 3]
    found = kseg("verify", "--level", "deep", "--format", "json", directory)
    (command,) = json.loads(found.out.splitlines()[-1])["next"]
    assert kseg(*command[1:]).status == 0
    assert kseg("verify", "--level", "deep", directory).status == 0
    converted = lines(kseg("dump", "--print-data-log", "--format", "json", directory).out)
    assert [(row["offset"], row["key"]) for row in converted] == [(i, f"k{i}") for i in range(4)]


@pytest.mark.parametrize("level", ["quick", "full", "deep"])
def test_totals_do_not_repeat_the_claim_of_a_header(kseg: Kseg, tmp_path: Path, level: str) -> None:
    most = (1 << 31) - 1
    lie = batch([], count=most, last_delta=most - 1)
    directory = write(tmp_path, lie + batch([RECORDS[0], b"\x40cut"], most, count=1000, last_delta=999))
    totals = json.loads(kseg("verify", "--level", level, "--format", "json", directory).out.splitlines()[-1])
    fits = (len(RECORDS[0]) + 4) // 7
    assert totals["records"] == (1 if level == "deep" else fits)
    assert json.loads(kseg("dump", "--summary", "--format", "json", directory).out)["records"] == 1
