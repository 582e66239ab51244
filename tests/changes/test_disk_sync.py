"""`Disk.sync` reaches the system: the model of power cuts replaces it, and would not notice."""

import os
from pathlib import Path

import pytest

from kseg.changes.disk import Disk


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are named by /proc")
def test_files_and_directories_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with open(path, "rb") as file:
        Disk().sync(file.fileno())
    Disk().sync_directory(str(tmp_path))
    assert synced == [str(path), str(tmp_path)]
