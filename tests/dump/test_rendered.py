"""Parts of a dump that other processes rendered are printed and counted as if this process had done it."""

import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from dump.asked import TXN
from kseg.dump.options import DumpOptions, Rendered, rendered_text
from kseg.dump.run import Dump
from kseg.output.sink import open_sink
from kseg.segment.files import SegmentFile

LOGS = sorted(TXN.glob("*.log"))


class Elsewhere:
    """Renders the first segment of ``files`` as two parts, and leaves the others to the caller."""

    def __init__(self, files: Iterable[tuple[SegmentFile, bool]], parts: list[Rendered]) -> None:
        self.files, self._parts = list(files), parts

    def rendered(self, file: SegmentFile) -> list[Rendered] | None:
        return self._parts if file == self.files[0][0] else None


def dumped(target: Path, parts: list[Rendered]) -> tuple[str, int, list[Elsewhere]]:
    """The text of a dump of a partition, its exit status, and the renderers that it made."""
    made: list[Elsewhere] = []

    def make(files: Iterable[tuple[SegmentFile, bool]]) -> Elsewhere:
        made.append(Elsewhere(files, parts))
        return made[-1]

    with open_sink(str(target)) as sink:
        status = Dump(sink, DumpOptions([str(TXN)], live=True), make).run()
    return target.read_text(), status, made


def part(text: str, **counts: int | str) -> Rendered:
    return Rendered(zlib.compress(text.encode()), **counts)  # type: ignore[arg-type]


def test_parts_take_the_place_of_a_segment_in_order(tmp_path: Path) -> None:
    text, status, made = dumped(tmp_path / "out", [part("one\n", batches=1), part("two\n", batches=2, end=9)])
    lines = text.splitlines()
    assert lines[0] == f"Dumping {LOGS[0]}"
    assert lines[2:4] == ["one", "two"]
    assert lines.index(f"Dumping {LOGS[1]}") > lines.index("two")
    assert status == 0
    assert [file.path for file, _ in made[0].files] == [str(path) for path in LOGS]
    assert [is_live for _, is_live in made[0].files] == [path == LOGS[-1] for path in LOGS]


def test_damage_in_a_part_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [part("one\n", errors=3, damaged_ranges=2, damaged_bytes=30), part("two\n", shrank="x: the file shrank")]
    _, status, _ = dumped(tmp_path / "out", parts)
    assert status == 1
    told = capsys.readouterr().err
    assert "x: the file shrank" in told
    assert "damaged ranges: 2, bytes in them: 30, problems with batches: 1" in told


def test_the_text_is_what_was_compressed() -> None:
    assert rendered_text(part("any text")) == b"any text"
    with pytest.raises(zlib.error):
        rendered_text(Rendered(b"nothing"))
