"""The interpreted and the compiled kernel give the same items, problems, records and lines for the same bytes."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.batches import out_of_place
from kseg.kernel import COMPILED
from segment.segments import SAMPLES, TESTDATA, entries, sample

PROGRAM = """
import hashlib, os, sys
from kseg.kernel import description
from kseg.segment import Damage
from kseg.segment.files import segment_file
from kseg.segment.reader import open_segment

print(description())
for name in sorted(os.listdir(sys.argv[1])):
    digest = hashlib.sha256()
    file = segment_file(os.path.join(sys.argv[1], name))
    with open_segment(file) as reader:
        for item in reader:
            if isinstance(item, Damage):
                digest.update(repr(item).encode())
            else:
                fields = (item.position, item.size, item.magic, item.is_valid, item.header, item.check(), list(item))
                digest.update(repr(fields).encode())
    print(name, digest.hexdigest())
"""


def mutated(seed: int) -> bytes:
    """A few batches of any era with one to eight seeded changes, of the kinds that disks and people make."""
    chance = random.Random(seed)
    pool = [part for name in SAMPLES for part in entries(sample(name))]
    return out_of_place(b"".join(chance.choices(pool, k=6)), chance)


def lines(mode: str, command: list[str], folder: Path) -> list[str]:
    # Not run in the project's root, where kseg/ may be uncompiled.
    done = subprocess.run(
        [sys.executable, *command], env=os.environ | {"KSEG_KERNEL": mode}, cwd=folder, capture_output=True
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.stdout.decode(errors="backslashreplace").splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mutated")
    for seed in range(250):
        (made / f"{seed:020}.log").write_bytes(mutated(seed))
    for seed in range(50):
        old = (TESTDATA / "kafka-0.7.2/direct/codecs-0/00000000000000000000.kafka").read_bytes()[:4000]
        rng = random.Random(seed)
        at = rng.randrange(len(old))
        (made / f"{seed:020}.kafka").write_bytes(
            old[:at] + rng.randbytes(rng.randrange(40)) + old[at + rng.randrange(9) :]
        )
    return made


@pytest.mark.skipif(not COMPILED, reason="this run is interpreted: there is nothing to compare with")
def test_items_and_records(folder: Path) -> None:
    command = ["-c", PROGRAM, "."]
    compiled, interpreted = lines("compiled", command, folder), lines("python", command, folder)
    assert (compiled[0], interpreted[0]) == ("compiled", "interpreted")
    assert compiled[1:] == interpreted[1:]
    assert len(compiled) == 301


@pytest.mark.sampled(2)
@pytest.mark.skipif(not COMPILED, reason="this run is interpreted: there is nothing to compare with")
@pytest.mark.parametrize("form", ["text", "json"])
def test_dumps(form: str, folder: Path) -> None:
    command = ["-m", "kseg", "dump", "--print-data-log", "--format", form, "."]
    compiled, interpreted = lines("compiled", command, folder), lines("python", command, folder)
    assert compiled == interpreted
    assert len(compiled) > 1000
