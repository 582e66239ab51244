"""Kafka's own DumpLogSegments, of the release whose lines kseg prints, as the judge of what kseg dump prints as text.

One JVM dumps real segments, damaged ones and seeded mutations of them, and kseg dumps the same files.
"""

import re
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker import jars
from fuzz.batches import mutated
from kseg.cli.main import main

KAFKA = "4.4.0"
TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
FLAGS = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--skip-record-metadata",),
)
MUTATIONS = 200
BATCH_LINE = re.compile(rb"(?:baseOffset|offset): .* position: (\d+) .* magic: (-?\d+) ")
DAMAGE_LINE = b"| damage: "

pytestmark = pytest.mark.broker

Run = tuple[str, ...]
Told = tuple[bytes, str]


@pytest.fixture(scope="module")
def class_path() -> str:
    return jars.class_path("kafka-tools", KAFKA)


def told_by_kafka(runs: Iterable[Run], class_path: str, folder: Path) -> list[Told]:
    """What the tool printed and threw ("" if nothing) in each run."""
    results = folder / "results"
    driver = str(Path(__file__).with_name("DumpMany.java"))
    subprocess.run(
        ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", class_path, driver, str(results)],
        input="".join("\t".join(run) + "\n" for run in runs).encode(),
        check=True,
    )
    data, at, parts = results.read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        parts.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return [(parts[i], parts[i + 1].decode()) for i in range(0, len(parts), 2)]


def told_by_kseg(run: Run, folder: Path) -> bytes:
    output = folder / "dumped"
    main.main(["dump", "--quiet", "-o", str(output), *run], prog_name="kseg", standalone_mode=False)
    return output.read_bytes()


def verdict(told: Told, ours: bytes) -> str:
    """How kseg's text stands to the tool's: equal, up to its exception, one of the known departures, or different.

    Known are: damage has a line of its own, behind which lines are only compared by position, and a magic outside 0-2
    is not valid. Where the tool threw, its last line may be half a line.
    """
    text, thrown = told
    theirs, lines = text.split(b"\n"), ours.split(b"\n")
    if thrown:
        theirs.pop()
    has_odd_magic = False
    for i, line in enumerate(theirs):
        if i >= len(lines):
            return "different: shorter"
        if line == lines[i]:
            continue
        if lines[i].startswith(DAMAGE_LINE):
            return "damage" if agree_by_position(theirs[i:], lines[i:]) else "different: behind damage"
        if not is_invalid_for_its_magic(line, lines[i]):
            return f"different: {line!r} is {lines[i]!r}"
        has_odd_magic = True
    if not thrown and len(lines) > len(theirs):
        return "different: longer"
    return "thrown" if thrown else "magic" if has_odd_magic else "equal"


def is_invalid_for_its_magic(theirs: bytes, ours: bytes) -> bool:
    head = BATCH_LINE.match(theirs)
    odd = head is not None and int(head[2]) not in (0, 1, 2)
    return odd and theirs.replace(b"isvalid: true", b"isvalid: false") == ours


def agree_by_position(theirs: list[bytes], ours: list[bytes]) -> bool:
    """Whether batch lines of the same position are the same."""
    ours_at = {head[1]: line for line in ours if (head := BATCH_LINE.match(line))}
    return all(
        ours_at.get(head[1], line) == line or is_invalid_for_its_magic(line, ours_at[head[1]])
        for line in theirs
        if (head := BATCH_LINE.match(line))
    )


def judged(runs: list[Run], class_path: str, folder: Path) -> list[tuple[Run, str]]:
    told = told_by_kafka(runs, class_path, folder)
    assert len(told) == len(runs)
    return [(run, verdict(one, told_by_kseg(run, folder))) for run, one in zip(runs, told, strict=True)]


def wrong(found: list[tuple[Run, str]], allowed: set[str]) -> list[tuple[Run, str]]:
    return [(run, kind) for run, kind in found if kind not in allowed]


def test_real_segments_read_the_same_with_every_flag(class_path: str, tmp_path: Path) -> None:
    files = [*TESTDATA.glob("kafka-*/*/*/*.log"), *TESTDATA.glob("kafka-*/*/*/*.checkpoint")]
    files = [path for path in sorted(files) if path.name[0].isdigit()]
    runs = [("--files", str(path), *flags) for path in files for flags in FLAGS]
    runs += [("--files", str(path), "--max-bytes", str(path.stat().st_size * 2 // 3)) for path in files]
    assert len(runs) > 300
    assert wrong(judged(runs, class_path, tmp_path), {"equal"}) == []


def test_damaged_segments_read_the_same_up_to_the_damage(class_path: str, tmp_path: Path) -> None:
    files = sorted(TESTDATA.glob("damaged/*/*/*.log"))
    runs = [("--files", str(path), *flags) for path in files for flags in FLAGS]
    found = judged(runs, class_path, tmp_path)
    assert wrong(found, {"equal", "thrown", "damage", "magic"}) == []
    assert Counter(kind for _, kind in found)["equal"] > len(runs) // 2


def test_mutated_segments_read_the_same_up_to_the_damage(class_path: str, tmp_path: Path) -> None:
    runs: list[Run] = []
    for seed in range(MUTATIONS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = folder / "00000000000000000000.log"
        path.write_bytes(mutated(seed))
        runs += [("--files", str(path), *flags) for flags in FLAGS]
        runs.append(("--files", str(path), "--deep-iteration", "--max-bytes", str(path.stat().st_size // 2)))
    found = judged(runs, class_path, tmp_path)
    assert wrong(found, {"equal", "thrown", "damage", "magic"}) == []
    kinds = Counter(kind for _, kind in found)
    assert kinds["equal"] > len(runs) // 2
    assert min(kinds["thrown"], kinds["damage"]) > 20


@pytest.mark.parametrize(
    "theirs, thrown, ours, kind",
    [
        (b"a\nb\n", "", b"a\nb\n", "equal"),
        (b"a\nb", "CorruptRecordException", b"a\nc\nd\n", "thrown"),
        (b"a\nb\n", "", b"a\nb\nc\n", "different"),
        (b"a\nb\n", "", b"a\n", "different"),
        (b"a\nb\n", "", b"a\nc\n", "different"),
        (b"a\nb\n", "", b"a\n| damage: nonsense-block position: 1 length: 2\n", "damage"),
    ],
)
def test_the_judge_knows_right_from_wrong(theirs: bytes, thrown: str, ours: bytes, kind: str) -> None:
    assert verdict((theirs, thrown), ours).startswith(kind)
