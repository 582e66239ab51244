"""Writeback during writing: each range is requested once, and a failed request is ignored, because the later sync
reports the error."""

import os
from pathlib import Path

import pytest

from kseg.kernel.files.system import begin_writing
from kseg.output.sink import open_sink
from kseg.runtime import write_behind
from kseg.runtime.write_behind import STEP_BYTES


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Returns the positions and sizes whose writeback was requested."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(write_behind, "begin_writing", lambda _, position, size: asked.append((position, size)))
    return asked


def test_a_large_file_is_written_behind(tmp_path: Path, begun: list[tuple[int, int]]) -> None:
    piece = bytes(STEP_BYTES // 4 + 1)
    with open_sink(str(tmp_path / "out")) as sink:
        for _ in range(10):
            sink.write_view(piece)
    assert begun == [(0, 4 * len(piece)), (4 * len(piece), 4 * len(piece))]
    assert (tmp_path / "out").read_bytes() == 10 * piece


def test_a_small_file_is_not(tmp_path: Path, begun: list[tuple[int, int]]) -> None:
    with open_sink(str(tmp_path / "out")) as sink:
        sink.write(b"some")
    assert not begun


def test_a_failed_writeback_request_is_ignored() -> None:
    begin_writing(-1, 0, STEP_BYTES)
    reading, writing = os.pipe()
    begin_writing(writing, 0, STEP_BYTES)
    os.close(reading)
    os.close(writing)
