"""Compaction with the compiled and the interpreted kernel gives identical bytes.

``--now`` is set because new batches store timestamps relative to the delete horizon (KIP-534), which depends on it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.kernel import COMPILED

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
CODECS = "kafka-0.10.2.2/codecs"
PARTITIONS = [
    f"{CODECS}/rec-gzip-0", f"{CODECS}/compact-lat-snappy-0",
    "kafka-4.3.1/clients/kafka-python-zstd-0", "kafka-4.3.1/clients/librdkafka-lz4-0",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (f"{CODECS}/rec-snappy-0", f"{CODECS}/rec-lz4-0", "kafka-4.3.1/clients/kafka-python-snappy-0")
    ),
]  # fmt: skip


def compacted(partition: Path, folder: Path, kernel: str) -> dict[str, bytes]:
    """Returns the files of a copy of the partition after compaction with the given kernel."""
    copy = folder / kernel / partition.name
    shutil.copytree(partition, copy)
    command = "compact --include-active --min-cleanable-ratio 0 --force-policy --drop-null-keys --now 1795300000000"
    done = subprocess.run(
        [sys.executable, "-m", "kseg", *command.split(), str(copy)],
        env=os.environ | {"KSEG_KERNEL": kernel}, capture_output=True, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file() and path.suffix != ".jsonl"}


@pytest.mark.sampled(4)
@pytest.mark.skipif(not COMPILED, reason="this run is interpreted: there is nothing to compare with")
@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_codec(partition: str, tmp_path: Path) -> None:
    source = TESTDATA / partition
    found = [compacted(source, tmp_path, kernel) for kernel in ("compiled", "python")]
    assert found[0] == found[1]
    before = {path.name: path.read_bytes() for path in source.iterdir() if path.suffix == ".log"}
    assert {name: found[0].get(name) for name in before} != before, "nothing was cleaned"
