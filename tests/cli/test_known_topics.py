"""What __cluster_metadata of a log directory says of topics is what commands take, and not what indexes look like."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg
from kseg.sidefiles.partition_metadata import PartitionMetadata, read_partition_metadata

CLEAN = TESTDATA / "log-directories" / "4.3.1-rounds" / "clean"
INTERVALS = {"txn-5": 512, "zs-2": 2048, "gz-0": 1024, "cmptx-4": 1024, "lz-2": None}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CLEAN, tmp_path / "logs"))


@pytest.mark.parametrize("command", [["recover"], ["reindex"], ["convert", "--codec", "gzip", "--in-place"]])
def test_commands_take_the_interval_of_the_topic_and_say_so(kseg: Kseg, logs: Path, command: list[str]) -> None:
    """The indexes are gone, so that there is nothing to guess it from."""
    for path in [*(logs / "zs-2").glob("*.index"), *(logs / "zs-2").glob("*.timeindex")]:
        path.unlink()
    done = kseg(*command, logs / "zs-2")
    assert done.status == 0, done.err
    assert "index.interval.bytes 2048, as __cluster_metadata-0 has it" in " ".join(done.err.split())


def test_what_is_given_counts_more(kseg: Kseg, logs: Path) -> None:
    for path in (logs / "zs-2").glob("*.index"):
        path.unlink()
    done = kseg("reindex", "--index-interval-bytes", "512", logs / "zs-2")
    assert "index.interval.bytes" not in done.err


def test_recover_takes_the_topic_id_of_the_metadata(kseg: Kseg, logs: Path) -> None:
    path = logs / "zs-2" / "partition.metadata"
    before = path.read_bytes()
    path.write_bytes(b"\0")
    assert kseg("recover", logs / "zs-2").status == 0
    assert [PartitionMetadata(0, before.decode().rpartition(" ")[2])] == list(
        read_partition_metadata(path.read_bytes())
    )


def test_recover_says_what_keeps_the_node_from_starting(kseg: Kseg, logs: Path) -> None:
    assert kseg("recover", logs).status == 0
    (logs / "__cluster_metadata-0" / "quorum-state").write_bytes(b"\0\1")
    (logs / "meta.properties").unlink()
    done = kseg("recover", logs)
    assert done.status == 1
    words = " ".join(done.err.split())
    assert "meta.properties: is missing: a node of KRaft does not start without it" in words
    assert "a node of KRaft does not start with it; move it away" in words
