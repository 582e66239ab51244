"""Whatever the bytes are: every reading command ends, with a status that is documented, in little memory, and says the
same with both kernels."""

import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.folders import kinds
from fuzz.programs import Outcome, Program
from kseg.kernel import COMPILED

ROUNDS = int(os.environ.get("KSEG_FUZZ_ROUNDS", "3"))
SEED = os.environ.get("KSEG_FUZZ_SEED", "1")
KEEP = os.environ.get("KSEG_FUZZ_KEEP")
MAX_KIBIBYTES = int(os.environ.get("KSEG_FUZZ_KIBIBYTES", str(256 << 10)))
"""A command holds 50 to 70 MiB, and a few buffers for what a batch decompresses to, of at most 16 MiB."""
NOW = ["--now", "1795300000000"]
"""Findings about time, and the delete horizon that a compaction counts timestamps from, go by it."""
LIMIT = ["--max-batch-bytes", str(16 << 20)]
NOT_ERRORS = {"decompression-limit", "bytes-behind-records"}
"""Problems of a batch that are warnings to verify."""

SEGMENTS = (".log", ".kafka")
TIMES = re.compile(rb'"seconds":[0-9.e-]+,?')

DUMP = ["dump", *LIMIT, "--jobs", "1"]
DEEP_JSON = [*DUMP, "--all", "--deep-iteration", "--print-data-log", "--format", "json", "."]
VERIFY = ["verify", *LIMIT, "--jobs", "1", "--level", "deep", *NOW, "--format", "json", "."]
OTHERS = (
    [*DUMP, "--all", "--print-data-log", "."],
    [*DUMP, "--hex", "--deep-iteration", "."],
    ["stats", *LIMIT, "--jobs", "1", "--format", "json", "."],
    [*DUMP, "--all", "--format", "table", "."],
    [*DUMP, "--offsets", "5..100050", "--format", "json", "."],
    [*DUMP, "--isolation", "read_committed", "--print-data-log", "."],
    ["verify", *LIMIT, "--jobs", "1", "--level", "quick", *NOW, "."],
    ["recover", "--dry-run", "--format", "json", "."],
    ["recover", "--mode", "salvage", "--dry-run", "--format", "json", "."],
    ["reindex", "--check", "--format", "json", "."],
    [
        "compact",
        *NOW,
        "--dry-run",
        "--include-active",
        "--force-policy",
        "--min-cleanable-ratio",
        "0",
        "--format",
        "json",
        ".",
    ],
    ["convert", *LIMIT, "--to", "jsonl", "-o", "-", "."],
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Program]]:
    folder = tmp_path_factory.mktemp("servers")
    found = [Program(kernel, folder) for kernel in (("compiled", "python") if COMPILED else ("python",))]
    yield found
    for program in found:
        program.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds())
def test_any_bytes(kind: str, programs: list[Program], tmp_path: Path) -> None:
    for number in range(ROUNDS):
        chance = random.Random(f"{SEED}/{kind}/{number}")
        folder = tmp_path / f"{number}" / "fuzz-0"
        folder.mkdir(parents=True)
        kinds()[kind](folder, chance)
        try:
            judge(folder, chance, programs)
        except AssertionError:
            if KEEP:
                shutil.copytree(folder, Path(KEEP) / f"{SEED}-{kind}-{number}" / folder.name, dirs_exist_ok=True)
            raise
        shutil.rmtree(folder.parent)


def judge(folder: Path, chance: random.Random, programs: list[Program]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    dumped, judged = run(DEEP_JSON, folder, programs), run(VERIFY, folder, programs)
    for arguments in chance.sample(OTHERS, 4):
        run(arguments, folder, programs)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before, "a command that reads wrote"
    damaged = tile(dumped, folder)
    if judged.status != 3:
        *_, summary = map(json.loads, judged.output.splitlines())
        assert summary["type"] == "summary"
        assert judged.status == (1 if summary["errors"] else 0)
        assert judged.status == 1 or not damaged, f"verify finds nothing, dump {damaged}"


def run(arguments: list[str], folder: Path, programs: list[Program]) -> Outcome:
    """The outcome, which is the same of all programs."""
    first, *rest = (program.run(arguments, folder) for program in programs)
    for outcome in (first, *rest):
        assert outcome.signal == 0, f"{arguments}: signal {outcome.signal}\n{outcome.errors[-3000:]}"
        assert "Traceback" not in outcome.errors, f"{arguments}\n{outcome.errors[-3000:]}"
        assert outcome.status in (0, 1, 3), f"{arguments}: exit status {outcome.status}\n{outcome.errors[-3000:]}"
        assert outcome.status != 3 or outcome.errors.strip(), f"{arguments}: exit status 3 without a word"
        assert outcome.kibibytes <= MAX_KIBIBYTES, f"{arguments}: {outcome.kibibytes} KiB"
    for outcome in rest:
        assert outcome.status == first.status, arguments
        shown, expected = (TIMES.sub(b"", found.output) for found in (outcome, first))
        assert shown == expected, f"{arguments}: {difference(expected, shown)}"
    if "json" in arguments:
        for line in first.output.splitlines():
            assert "type" in json.loads(line), arguments
    return first


def difference(one: bytes, other: bytes) -> str:
    """The first lines that differ."""
    pairs = zip([*one.splitlines(), b""], [*other.splitlines(), b""], strict=False)
    return next((f"{a[:500]!r}\n{b[:500]!r}" for a, b in pairs if a != b), "one ends early")


def tile(dumped: Outcome, folder: Path) -> list[str]:
    """Checks that the items of each segment tile it; what is wrong with them."""
    ends: dict[str, int] = {}
    wrong = []
    for row in map(json.loads, dumped.output.splitlines()):
        name = Path(row["file"]).name
        if row["type"] not in ("batch", "damage") or not name.endswith(SEGMENTS):
            continue
        assert row["position"] == ends.get(name, 0), f"a hole or an overlap: {row}"
        ends[name] = row["position"] + (row["size"] if row["type"] == "batch" else row["length"])
        if row["type"] == "damage":
            wrong.append(row["code"])
        else:
            wrong += [code for code in row["problems"] if code not in NOT_ERRORS]
    for path in folder.iterdir():
        if not path.name.endswith(SEGMENTS):
            continue
        assert ends.get(path.name, 0) == path.stat().st_size, f"{path.name}: not all of it is told"
    return wrong
