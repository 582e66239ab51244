"""Feeds a printer with segments and collects its output."""

import io
import re
from pathlib import Path
from typing import Any

from kseg.formats.rows import Scratch
from kseg.output import sink
from kseg.segment.files import segment_file
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
SEGMENTS = sorted(
    path
    for path in [*TESTDATA.glob("**/*.log"), *TESTDATA.glob("**/*.kafka")]
    if path.is_file() and path.stat().st_size < 60_000 and "findings" not in path.parts
)


STYLES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A stream in memory that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def words(lines: list[str]) -> list[str]:
    """The words of a panel, without its frame and bars."""
    return re.sub("[╭╮╰╯│─█▏▎▍▌▋▊▉▐▕]", " ", " ".join(lines)).split()


class MemorySink(sink.MemorySink):
    """A sink in memory that may claim to be a terminal."""

    def __init__(self, is_terminal: bool = False) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    @property
    def written(self) -> bytearray:
        self.flush()
        return self.data

    @property
    def lines(self) -> list[str]:
        return self.written.decode("utf-8").splitlines()


def feed(printer: Any, *paths: Path, scratch: Scratch | None = None, unproven: bool = False) -> None:
    """Feeds all items of files, as ``kseg dump`` does; ``unproven``: the records of broken batches, too."""
    for path in paths:
        file = segment_file(str(path))
        with open_source(str(path)) as source:
            reader = SegmentReader(source, file.kind == ".kafka", file.base_offset or 0, scratch=scratch)
            try:
                printer.begin(file)
                printer.attend(reader)
                for item in reader.runs():
                    if isinstance(item, Damage):
                        printer.damage(item)
                        if unproven and (batch := reader.broken_batch(item)):
                            printer.unproven(batch)
                    else:
                        printer.run(reader, item)
                printer.finish()
            except BaseException:
                printer.abandon()
                raise
    printer.close()
