"""Topic settings that commands take from the log directory of a partition."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA
from kseg.node.node import Nodes

CLEAN = TESTDATA / "log-directories" / "4.3.1-rounds" / "clean"
INTERVALS = {"txn-5": 512, "zs-2": 2048, "gz-0": 1024, "cmptx-4": 1024, "lz-2": None}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CLEAN, tmp_path / "logs"))


@pytest.mark.parametrize("name", INTERVALS)
def test_the_metadata_know_the_interval(logs: Path, name: str) -> None:
    """As the topics were made (the README of the log directory)."""
    assert Nodes().partition(str(logs / name)).interval_bytes[0] == INTERVALS[name]


def test_a_topic_that_the_metadata_do_not_know_has_none(logs: Path) -> None:
    (logs / "txn-5").rename(logs / "other-5")
    assert Nodes().partition(str(logs / "other-5")).interval_bytes[0] is None
