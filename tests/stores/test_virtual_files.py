"""Files that are given under a path are found there by every way of looking, and by none elsewhere."""

from pathlib import Path

import pytest

from kseg.errors import PathError
from kseg.stores import trees
from kseg.stores.source import Source, open_source
from kseg.stores.trees import VirtualLog, VirtualSideFile, open_extent, read_regular

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
LOG = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log"


def test_a_side_file_is_opened_by_its_path(tmp_path: Path) -> None:
    path, beside = str(tmp_path / "0.index"), str(tmp_path / "1.index")
    with trees.given({path: VirtualSideFile(lambda: b"entries")}):
        extent = open_extent(path)
        assert extent.pread(100, 0) == b"entries"
        extent.close()
        assert read_regular(path, 100) == b"entries"
        assert (trees.isfile(path), trees.getsize(path), trees.exists(beside)) == (True, 7, False)
    assert not trees.exists(path)


def test_a_given_file_hides_the_one_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"stored otherwise")
    with trees.given({str(path): VirtualSideFile(lambda: b"entries")}):
        assert read_regular(str(path), 100) == b"entries"
    assert read_regular(str(path), 100) == b"stored otherwise"


def size_of_log() -> int:
    return LOG.stat().st_size


def test_a_log_is_opened_as_its_source(tmp_path: Path) -> None:
    path = str(tmp_path / "0.log")
    with trees.given({path: VirtualLog(size_of_log, lambda: open_source(str(LOG)))}):
        with open_source(path) as source:
            assert isinstance(source, Source)
            assert bytes(source.buffer[: source.size]) == LOG.read_bytes()
        assert trees.getsize(path) == LOG.stat().st_size
        with pytest.raises(OSError, match="stored in chunks"):
            open_extent(path)
        with pytest.raises(NotADirectoryError):
            trees.listdir(path)


def failing() -> bytes:
    raise FileNotFoundError(2, "no such part of the segment")


def missing_size() -> int:
    raise PathError("no such object")


def missing() -> Source:
    raise PathError("no such object")


def test_what_cannot_be_restored_is_not_there(tmp_path: Path) -> None:
    index, log = str(tmp_path / "0.index"), str(tmp_path / "0.log")
    with trees.given({index: VirtualSideFile(failing), log: VirtualLog(missing_size, missing)}):
        with pytest.raises(FileNotFoundError):
            open_extent(index)
        with pytest.raises(PathError, match="no such object"):
            open_source(log)
        assert (trees.exists(index), trees.exists(log)) == (False, False)
