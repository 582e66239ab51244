"""The reader tiles every input exactly, keeps every intact batch, and classifies the bytes between them."""

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import kseg
from kernel.rendering import batch, message
from kseg.kernel import COMPILED
from kseg.segment import reader
from kseg.segment.items import DAMAGE_CODES, PROBLEM_CODES
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.survey import FULL, open_survey
from kseg.stores.source import SMALL_BYTES, open_source
from segment.segments import SAMPLES, TESTDATA, entries, name_of, sample


def read(tmp_path: Path, data: bytes, name: str = "00000000000000000000.log", **options: object) -> list:
    """Returns the items of ``data``, after asserting that they tile it and use known codes."""
    path = tmp_path / name
    path.write_bytes(data)
    items = list(kseg.open(path, **options))
    at = 0
    for item in items:
        assert item.position == at, "overlap or hole"
        at = item.end
        if isinstance(item, kseg.Damage):
            assert item.length > 0
            assert item.code in DAMAGE_CODES
        else:
            assert {problem.code for problem in item.check()} <= PROBLEM_CODES
            assert bytes(item.data) == data[item.position : item.end]
            list(item)
    assert at == len(data), "the items end before the file"
    return items


def intact(items: list) -> list[bytes]:
    return [bytes(item.data) for item in items if not isinstance(item, kseg.Damage) and item.is_valid]


def damage(items: list) -> list[tuple[str, int, int]]:
    return [(item.code, item.position, item.length) for item in items if isinstance(item, kseg.Damage)]


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("kafka-*/*/*/*.log")), ids=name_of)
def test_what_a_healthy_broker_wrote_has_no_damage(path: Path, tmp_path: Path) -> None:
    items = read(tmp_path, path.read_bytes())
    assert [item for item in items if isinstance(item, kseg.Damage) or item.check()] == []
    assert [bytes(item.data) for item in items] == entries(path.read_bytes())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("apart", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SAMPLES)
def test_each_byte_flipped(name: str, apart: int, tmp_path: Path) -> None:
    """Whichever byte is changed, the other batches are kept, and the changed one is never reported as another."""
    data = sample(name)
    parts = entries(data)
    heads = [sum(map(len, parts[:i])) + at for i in range(len(parts)) for at in range(27)]
    for at in sorted({*range(0, len(data), apart if COMPILED else 11), *heads, len(data) - 1}):
        for bit in (0, 7):
            broken = bytearray(data)
            broken[at] ^= 1 << bit
            items = read(tmp_path, bytes(broken))
            kept = intact(items)
            hit = next(i for i in range(len(parts)) if sum(map(len, parts[: i + 1])) > at)
            others = parts[:hit] + parts[hit + 1 :]
            assert [part for part in others if part not in kept] == [], f"byte {at} bit {bit}"
            assert len(kept) <= len(parts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("apart", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SAMPLES)
def test_each_truncation_length(name: str, apart: int, tmp_path: Path) -> None:
    data = sample(name)
    ends = [0]
    for part in entries(data):
        ends.append(ends[-1] + len(part))
    beside = [end + by for end in ends for by in (-1, 0, 1, 11, 12, 13, 16, 17, 60, 61)]
    every = {*range(0, len(data) + 1, apart if COMPILED else 13), *beside}
    for length in sorted(length for length in every if 0 <= length <= len(data)):
        items = read(tmp_path, data[:length])
        whole = max(end for end in ends if end <= length)
        assert b"".join(intact(items)) == data[:whole]
        expected = [("truncated-batch", whole, length - whole)] if length > whole else []
        assert damage(items) == expected
        live = [item.end for item in read_live(tmp_path, data[:length])]
        assert live[-1:] == [whole][: len(live)], "a batch that is being written is no damage"


def read_live(tmp_path: Path, data: bytes) -> list:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    return list(kseg.open(path, live=True))


NONSENSE = {
    "zeros-9": (bytes(9), "zero-block"),
    "zeros-4096": (bytes(4096), "zero-block"),
    "random-100": (random.Random(1).randbytes(100), "nonsense-block"),
    "random-5000": (random.Random(2).randbytes(5000), "nonsense-block"),
    "text": (b"this is no record batch at all, but a line of some log file\n" * 3, "nonsense-block"),
    "ones": (b"\xff" * 200, "nonsense-block"),
    "twos": (b"\x02" * 200, "nonsense-block"),
}


@pytest.mark.parametrize("kind", NONSENSE)
@pytest.mark.parametrize("name", SAMPLES)
def test_nonsense_at_each_boundary(name: str, kind: str, tmp_path: Path) -> None:
    """Inserted bytes are reported exactly, and nothing around them is lost."""
    block, code = NONSENSE[kind]
    parts = entries(sample(name))
    for k in range(len(parts) + 1):
        before = b"".join(parts[:k])
        items = read(tmp_path, before + block + b"".join(parts[k:]))
        assert intact(items) == parts
        assert damage(items) == [(code, len(before), len(block))]
        if k < len(parts):
            live = read_live(tmp_path, before + block + b"".join(parts[k:]))
            assert [item.end for item in live] == [item.end for item in items], "only the end may grow"


@pytest.mark.parametrize("name", SAMPLES)
def test_nonsense_inside_a_batch(name: str, tmp_path: Path) -> None:
    parts = entries(sample(name))
    middle = parts[1]
    for at in range(1, len(middle), max(1, len(middle) // 16)):
        items = read(tmp_path, parts[0] + middle[:at] + b"\xa5" * 700 + middle[at:] + parts[2])
        assert [part for part in (parts[0], parts[2]) if part not in intact(items)] == []


@pytest.mark.parametrize("value", [0, 1, 13, 14, 48, 49, -1, -(1 << 31), (1 << 31) - 1, 1 << 20])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_wrong_length_costs_one_batch(name: str, value: int, tmp_path: Path) -> None:
    parts = entries(sample(name))
    wrong = parts[1][:8] + value.to_bytes(4, "big", signed=True) + parts[1][12:]
    items = read(tmp_path, parts[0] + wrong + parts[2])
    assert intact(items) == [parts[0], parts[2]]
    assert damage(items) == [("bad-length", len(parts[0]), len(wrong))]


def test_a_magic_that_names_no_format_is_a_batch_that_is_not_valid(tmp_path: Path) -> None:
    parts = entries(sample("v2"))
    wrong = parts[1][:16] + b"\x07" + parts[1][17:]
    items = read(tmp_path, parts[0] + wrong + parts[2])
    assert [(item.size, item.is_valid, [p.code for p in item.problems]) for item in items] == [
        (len(parts[0]), True, []),
        (len(wrong), False, ["bad-magic"]),
        (len(parts[2]), True, []),
    ]


def test_a_length_beyond_the_limit_needs_a_right_checksum(tmp_path: Path) -> None:
    whole = entries(sample("v2"))[1]
    assert len(intact(read(tmp_path, whole, max_batch_bytes=100))) == 1
    broken = whole[:-1] + bytes([whole[-1] ^ 1])
    assert [item.is_valid for item in read(tmp_path, broken)] == [False]
    assert damage(read(tmp_path, broken, max_batch_bytes=100)) == [("nonsense-block", 0, len(broken))]


def test_a_zero_page_over_several_batches(tmp_path: Path) -> None:
    parts = entries(sample("v2", 6))
    data = bytearray(b"".join(parts))
    start = len(parts[0]) + len(parts[1]) // 2
    stop = sum(map(len, parts[:4])) + len(parts[4]) // 2
    data[start:stop] = bytes(stop - start)
    items = read(tmp_path, bytes(data))
    assert intact(items) == [parts[0], parts[5]]
    assert damage(items) == [("nonsense-block", len(parts[0]), sum(map(len, parts[1:5])))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_mixture_of_batches_and_nonsense(data: st.DataObject, tmp_path: Path) -> None:
    """Every intact batch is found in any surroundings, unless the bytes before it form a batch that includes it."""
    pool = [part for name in SAMPLES for part in entries(sample(name))]
    pieces = data.draw(
        st.lists(
            st.one_of(st.sampled_from(pool), st.binary(min_size=1, max_size=80), st.integers(1, 300).map(bytes)),
            max_size=8,
        )
    )
    kept = intact(read(tmp_path, b"".join(pieces)))
    assert [piece for piece in pieces if piece in pool and piece not in kept] == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=600), suffix=st.sampled_from([".log", ".kafka", ".checkpoint", ".log.deleted", ""]))
@example(data=b"PK\3\4", suffix=".log")
@example(data=b"PK\5\6" + bytes(40), suffix=".log")
def test_any_bytes(data: bytes, suffix: str, tmp_path: Path) -> None:
    read(tmp_path, data, "00000000000000000000" + suffix)


def hostile(kind: str, size: int) -> bytes:
    """Bytes with a plausible header at every step, which claims all remaining bytes, or half of them if nested."""
    out, real = bytearray(), entries(sample("v2"))[0]
    v2 = batch([], count=1, last_delta=0)
    v0 = message(0, 0, None, b"")
    while len(out) < size:
        left = size - len(out)
        claim = max((left // 2 // 61 * 61 if kind == "nested" else left) - 12, 0).to_bytes(4, "big")
        offset = (len(out) + 1).to_bytes(8, "big")
        if kind in ("v2-headers", "nested"):
            out += offset + claim + v2[12:]
        elif kind == "v0-headers":
            out += offset + claim + v0[12:-4] + max(left - 26, 0).to_bytes(4, "big")
        elif kind == "batch-then-claim":
            out += real + offset + claim + v2[12:]
        elif kind == "wrong-batches":
            out += offset + real[8:-1] + bytes([real[-1] ^ 1])
        else:
            out += {"ones": b"\1", "twos": b"\2", "zeros": b"\0"}[kind] * 4096
    return bytes(out[:size])


HOSTILE = ("v2-headers", "nested", "v0-headers", "batch-then-claim", "wrong-batches", "ones", "twos", "zeros")


@pytest.mark.skipif(COMPILED, reason="counts the bytes that the interpreted kernel takes checksums of")
@pytest.mark.parametrize("kind", HOSTILE)
def test_work_is_linear_in_the_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts bytes that are checksummed and searched, never seconds."""
    from kseg.kernel.scan import frames

    counted = [0]

    def counting(function):
        def count(crc, p, start, end):
            counted[0] += end - start
            return function(crc, p, start, end)

        return count

    def searching(p, i, *others, search=frames.next_candidate):
        found = search(p, i, *others)
        searched[0] += found - i
        return found

    searched = [0]
    monkeypatch.setattr(frames, "next_candidate", searching)
    monkeypatch.setattr(frames, "crc32c", counting(frames.crc32c))
    monkeypatch.setattr(frames, "crc32", counting(frames.crc32))
    work = []
    for size in (20_000, 80_000):
        counted[0] = searched[0] = 0
        read(tmp_path, hostile(kind, size))
        work.append(counted[0])
        assert counted[0] <= 40 * size
        assert searched[0] <= 3 * size
    assert work[1] <= 6 * work[0] + 80_000


@pytest.mark.skipif(not COMPILED, reason="as many bytes take the interpreted kernel minutes")
@pytest.mark.parametrize("mebibytes", [1, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", HOSTILE)
def test_megabytes_of_hostile_headers_are_read_to_the_end(kind: str, mebibytes: int, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(hostile(kind, mebibytes << 20))
    assert sum(item.end - item.position for item in kseg.open(path)) == mebibytes << 20


def test_standard_input_as_a_pipe_and_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(sample("v2"))
    program = "import kseg; print([(i.position, i.size) for i in kseg.open('-')])"
    expected = repr([(item.position, item.size) for item in kseg.open(path)])
    with path.open("rb") as file:
        from_file = subprocess.run([sys.executable, "-c", program], stdin=file, capture_output=True, check=True)
    from_pipe = subprocess.run(
        [sys.executable, "-c", program], input=path.read_bytes(), capture_output=True, check=True
    )
    assert from_file.stdout.decode().strip() == from_pipe.stdout.decode().strip() == expected


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    """Reading continues to the new end, and no signal kills the process."""
    whole = (TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log").read_bytes()
    path = tmp_path / "00000000000000000000.log"
    for seed in range(2):
        path.write_bytes(whole * 40)
        keep = random.Random(seed).randrange(len(whole) * 20)
        program = (
            "import os, sys, kseg\n"
            "path, keep = sys.argv[1], int(sys.argv[2])\n"
            "end = 0\n"
            "for n, item in enumerate(kseg.open(path)):\n"
            "    if n == 3: os.truncate(path, keep)\n"
            "    assert item.position == end\n"
            "    end = item.end\n"
            "    if not isinstance(item, kseg.Damage): item.check()\n"
            "print(end)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, path, str(keep)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) >= keep


def test_a_file_that_shrinks_before_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes((TESTDATA / "speed/100b.log").read_bytes())
    source = open_source(str(path))
    os.truncate(path, SMALL_BYTES)
    with open_survey(str(path), FULL, source=source) as survey:
        *_, last = survey
    assert last.end == SMALL_BYTES


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(sample("v2"))
    ends = []
    for item in kseg.open(path):
        with path.open("ab") as file:
            file.write(sample("v0"))
        ends.append(item.end)
    assert ends[-1] == len(sample("v2"))


@pytest.mark.parametrize("size", [1, 1000, 20_000, 1 << 30])
def test_pieces_are_the_run(size: int) -> None:
    segment = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log"
    with open_source(str(segment)) as source:
        for item in SegmentReader(source).runs():
            assert isinstance(item, Run)
            found = list(item.pieces(size))
            assert [part.count > 0 for part in found] == [True] * len(found)
            assert sum(part.count for part in found) == item.count
            assert found[0].position == item.position
            assert found[-1].end == item.end
            assert all(a.end == b.position for a, b in pairwise(found))
            assert len(found) > 1 or size > 90_000
            assert all(part.count == 1 or part.end - part.position <= size + 4096 for part in found)


@pytest.mark.parametrize("name", ["v0", "v2"])
def test_the_checksum_of_too_large_a_batch_is_not_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = entries(sample(name))[0]
    wrong = first[:8] + b"\x00\x7f" + first[10:]

    def is_whole() -> bool:
        return "a complete batch" in reader.describe(wrong, 0, len(wrong), False, False, -1).message

    assert is_whole()
    monkeypatch.setattr(reader, "MAX_BATCH_BYTES", len(wrong))
    assert is_whole()
    monkeypatch.setattr(reader, "MAX_BATCH_BYTES", len(wrong) - 1)
    monkeypatch.setattr(reader, "crc_holds", None)
    assert not is_whole()
