"""A file is replaced at once, whatever an interrupted replacement has left."""

from pathlib import Path

import pytest

from kseg.changes.disk import Disk, is_temporary


def replace(path: Path, content: bytes) -> None:
    with Disk().replacement(str(path)) as temporary:
        Path(temporary).touch(exist_ok=False)
        Path(temporary).write_bytes(content)


def interrupt(path: Path) -> None:
    with Disk().replacement(str(path)) as temporary:
        Path(temporary).write_bytes(b"half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["points", ".hidden"])
def test_a_left_temporary_file_is_removed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupt(path)
    assert path.read_bytes() == b"old"
    assert [is_temporary(each.name) for each in sorted(tmp_path.iterdir())].count(True) == 1
    replace(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(name, b"new")]
