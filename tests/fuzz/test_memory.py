"""Memory goes by the largest batch, not by the file, whatever the command."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.batches import GZIP, NONE, ZSTD, packed
from fuzz.programs import Program
from kernel.rendering import batch, message, record
from kseg.kernel import COMPILED

BATCHES = 16
BATCH_BYTES = 6 << 20
"""Of the records of each batch."""
MAX_KIBIBYTES = (64 << 10) + 8 * (BATCH_BYTES >> 10)
"""What kseg takes anyway, and eight times a batch: two are in work at a time, and JSON is longer than what it shows.
Pages of a mapped file count as well, though the system takes them back when it likes."""

COMMANDS = {
    "text": ["dump", "--print-data-log", "."],
    "json": ["dump", "--print-data-log", "--format", "json", "."],
    "table": ["dump", "--format", "table", "."],
    "hex": ["dump", "--hex", "--deep-iteration", "."],
    "summary": ["stats", "."],
    "verify": ["verify", "--level", "deep", "."],
    "recover": ["recover", "--full", "--dry-run", "."],
    "salvage": ["recover", "--mode", "salvage", "--dry-run", "."],
    "reindex": ["reindex", "--check", "."],
    "compact": ["compact", "--dry-run", "--force-policy", "--include-active", "--min-cleanable-ratio", "0", "."],
    "convert": ["convert", "--to", "v2", "--codec", "lz4", "--dry-run", "--in-place", "."],
}


@pytest.fixture(scope="module", params=[(2, NONE), (2, ZSTD), (1, GZIP)])
def partition(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment of large batches of a format and codec."""
    magic, codec = request.param
    folder = tmp_path_factory.mktemp("large") / "large-0"
    folder.mkdir()
    with (folder / f"{0:020}.log").open("wb") as stream:
        for number in range(BATCHES):
            stream.write(batch_v2(number, codec) if magic == 2 else set_v1(number, codec))
    return folder


def values(number: int) -> list[bytes]:
    chance = random.Random(number)
    return [b"%032x" % chance.getrandbits(128) * 32 for _ in range(BATCH_BYTES // 1100)]


def batch_v2(number: int, codec: int) -> bytes:
    area = [record(k, 0, b"%04d" % (k % 10000), value) for k, value in enumerate(values(number))]
    count = len(area)
    return batch([packed(codec, b"".join(area))], number * 100_000, codec, count=count, last_delta=count - 1)


def set_v1(number: int, codec: int) -> bytes:
    inner = [message(k, 1, b"%04d" % (k % 10000), value) for k, value in enumerate(values(number))]
    last = number * 100_000 + len(inner) - 1
    return message(last, 1, b"", packed(codec, b"".join(inner)), attributes=codec)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    found = Program("compiled", tmp_path_factory.mktemp("server"))
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="takes minutes where the kernel is interpreted")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_holds_many_batches(name: str, partition: Path, program: Program) -> None:
    outcome = program.run(COMMANDS[name], partition)
    assert (outcome.signal, outcome.status in (0, 1)) == (0, True), outcome.errors[-2000:]
    mapped = sum(path.stat().st_size for path in partition.iterdir()) >> 10
    assert outcome.kibibytes <= MAX_KIBIBYTES + mapped
