"""Files that are given under a path are found there by every way of looking, and by none elsewhere."""

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kseg.errors import PathError
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source
from kseg.stores.trees import VirtualLog, VirtualSideFile
from segment.segments import TESTDATA

LOG = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log"


def test_a_side_file_is_opened_by_its_path(tmp_path: Path) -> None:
    """Also if another file has the same path."""
    (tmp_path / "0.index").write_bytes(b"stored otherwise")
    place = Place(str(tmp_path / "0.index"), VirtualSideFile(lambda: b"entries"))
    extent = place.open_extent()
    assert extent.pread(100, 0) == b"entries"
    extent.close()
    assert place.read(100) == b"entries"
    assert (place.is_file(), place.size(), (place.parent / "1.index").exists()) == (True, 7, False)


def test_a_log_is_opened_as_its_source(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "0.log"), VirtualLog(lambda: LOG.stat().st_size, lambda: open_source(str(LOG))))
    with open_source(place) as source:
        assert isinstance(source, Source)
        assert bytes(source.buffer[: source.size]) == LOG.read_bytes()
    assert place.size() == LOG.stat().st_size
    with pytest.raises(OSError, match="stored in chunks"):
        place.open_extent()
    with pytest.raises(NotADirectoryError):
        place.names()


def test_what_cannot_be_restored_is_not_there(tmp_path: Path) -> None:
    index = Place(
        str(tmp_path / "0.index"), VirtualSideFile(MagicMock(side_effect=FileNotFoundError(2, "no such part")))
    )
    missing = MagicMock(side_effect=PathError("no such object"))
    log = Place(str(tmp_path / "0.log"), VirtualLog(missing, missing))
    with pytest.raises(FileNotFoundError):
        index.open_extent()
    with pytest.raises(PathError, match="no such object"):
        open_source(log)
    assert (index.exists(), log.exists()) == (False, False)
