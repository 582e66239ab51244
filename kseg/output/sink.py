"""Destinations of results: standard output, or a file that is replaced atomically."""

import io
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from kseg.errors import PathError, StoppedHalfwayError, errors_at
from kseg.formats.rows import BytesLike
from kseg.kernel.files.system import WriteBehind
from kseg.limits import OUTPUT_BYTES
from kseg.signals import ENDING_SIGNALS, mask
from kseg.stores.place import Place

STANDARD_OUTPUT = "-"

_CONTROLS = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xd8[\x80-\x85\x9c]|\xdb\x9d|\xdc\x8f|\xe0\xa2[\x90\x91]|\xe0\xa3\xa2|\xe1\xa0\x8e"
    rb"|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xa4\xa6-\xaf]|\xef\xbb\xbf|\xef\xbf[\xb9-\xbb]|\xf0\x91\x82\xbd"
    rb"|\xf0\x91\x83\x8d|\xf0\x93\x90[\xb0-\xbf]|\xf0\x9b\xb2[\xa0-\xa3]|\xf0\x9d\x85[\xb3-\xba]"
    rb"|\xf3\xa0\x80[\x81\xa0-\xbf]|\xf3\xa0\x81[\x80-\xbf]"
)
"""UTF-8 characters that JSON does not escape but that are unsafe on a terminal.

DEL, the C1 controls (U+009B is ESC [), line separators and format characters (U+202E reverses the text direction).
"""
_BEGUN = re.compile(rb"(?:[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})\Z")
"""An incomplete character at the end of a buffer."""


def _as_json_escape(found: re.Match[bytes]) -> bytes:
    from json import dumps  # few dumps to a terminal have such characters

    return dumps(found[0].decode())[1:-1].encode()


class Sink:
    """Buffers output and writes it in large blocks to a descriptor.

    A terminal never receives control or format characters. Raises BrokenPipeError as the system does,
    StoppedHalfwayError for any other write error.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._cut = b""
        self._behind: WriteBehind | None = None
        self.failures: list[str] = []
        """Sentences on what the output lacks, because it could not be read: a page shows them."""
        self.is_terminal = os.isatty(descriptor)

    def write_behind(self) -> None:
        """Starts writing to disk early. Only for a regular file that is written from its start and then synced."""
        self._behind = WriteBehind(self._descriptor)

    def wait(self) -> None:
        """Returns when the caller may write. This sink has only one writer."""

    def write(self, data: bytes) -> None:
        self._pieces.append(data)
        self._gathered += len(data)
        if self._gathered >= OUTPUT_BYTES or self.is_terminal:
            self.flush()

    def put(self, line: str) -> None:
        """Writes a line of text; names in it are as on disk."""
        self.write(f"{line}\n".encode("utf-8", "surrogateescape"))

    def put_row(self, row: dict[str, Any]) -> None:
        """Writes an object as a line of JSON."""
        from kseg.formats.json_values import encode  # with json, which a dump as text does without

        self.write(encode(row) + b"\n")

    def write_view(self, view: BytesLike) -> None:
        """Writes a buffer that will be reused; no reference is kept."""
        self.flush()
        self._write_all(view)

    def flush(self) -> None:
        if self._pieces:
            self._write_all(memoryview(b"".join(self._pieces)))
            self._pieces.clear()
            self._gathered = 0

    def _write_all(self, view: BytesLike) -> None:
        done = 0
        if self.is_terminal:  # unsafe characters become JSON escapes
            data = self._cut + bytes(view)
            begun = _BEGUN.search(data)
            self._cut = begun[0] if begun else b""
            data = data[: len(data) - len(self._cut)]
            view = memoryview(_CONTROLS.sub(_as_json_escape, data))
        try:
            while done < len(view):
                try:
                    done += os.write(self._descriptor, view[done:])
                except BlockingIOError:  # another process made the shared pipe non-blocking
                    select.select([], [self._descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StoppedHalfwayError(f"{self._name}: {error.strerror}") from error
        if self._behind is not None:
            self._behind.wrote(done)


class MemorySink(Sink):
    """Keeps the output as ``data``."""

    def __init__(self) -> None:
        super().__init__(-1, "memory")
        self.data = bytearray()

    def _write_all(self, view: BytesLike) -> None:
        self.data += view


@contextmanager
def open_sink(path: str | None) -> Iterator[Sink]:
    """Opens standard output for None or ``-``, or a file that is replaced if the block succeeds and unchanged
    otherwise.

    An existing path that is not a regular file (FIFO, device) is written to directly. Raises PathError if it cannot be
    written.
    """
    if path is None or path == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise PathError("standard output is closed")
        sys.stdout.flush()
        sink = Sink(sys.stdout.fileno(), "standard output")
        yield sink
        sink.flush()
        return
    if not os.path.basename(path):
        raise PathError(f"{path!r} is not a file name")
    target = os.path.realpath(path)  # a symbolic link stays, its target is replaced
    is_special = Place(target).exists() and not Place(target).is_file()
    with (_open_special if is_special else _replace)(target, path) as sink:
        yield sink


class ReportSink(Sink):
    """Standard output of a command that changes files. Write errors are stored in ``failure`` instead of raised.

    The change is more important than its report.
    """

    def __init__(self) -> None:
        super().__init__(-1 if sys.stdout is None else sys.stdout.fileno(), "standard output")
        self.failure = "standard output is closed" if sys.stdout is None else ""

    def _write_all(self, view: BytesLike) -> None:
        if self.failure:
            return
        try:
            super()._write_all(view)
        except BrokenPipeError as error:
            self.failure = f"standard output: {error.strerror}"
        except StoppedHalfwayError as error:
            self.failure = str(error)


@contextmanager
def open_report(is_dry: bool, report_error: Callable[[str], None]) -> Iterator[Sink]:
    """Opens standard output for plans and their results: for a dry run a plain sink, otherwise a `ReportSink`.

    ``report_error`` gets a message at the end if output was lost.
    """
    if is_dry:
        with open_sink(None) as sink:
            yield sink
        return
    if sys.stdout is not None:
        sys.stdout.flush()
    report = ReportSink()
    try:
        yield report
    finally:
        report.flush()
        if report.failure:
            report_error(f"the report could not be delivered: {report.failure}")


@contextmanager
def _open_special(target: str, path: str) -> Iterator[Sink]:
    with errors_at(path):
        descriptor = os.open(target, os.O_WRONLY)
    try:
        if stat.S_ISBLK(os.fstat(descriptor).st_mode):
            raise PathError(f"{path}: is a block device")
        sink = Sink(descriptor, path)
        yield sink
        sink.flush()
    finally:
        os.close(descriptor)


@contextmanager
def _replace(target: str, path: str) -> Iterator[Sink]:
    from kseg.changes.disk import umask

    with ExitStack() as stack:
        with errors_at(path):
            file, temporary = stack.enter_context(temporary_file(Place(target).parent))
        sink = Sink(file.fileno(), path)
        sink.write_behind()
        yield sink
        sink.flush()
        with errors_at(path, StoppedHalfwayError):
            if hasattr(os, "fchmod"):  # Windows has no permissions of that kind
                os.fchmod(file.fileno(), 0o666 & ~umask())
            os.fsync(file.fileno())
            file.close()  # Windows renames only closed files
            os.replace(temporary, target)


@contextmanager
def temporary_file(directory: str) -> Iterator[tuple[io.FileIO, str]]:
    """Yields a new file and its path. At the end the file is closed, and removed if it still has that name.

    Signals that end a process raise an exception (`kseg.signals`), so they end this block, too. Only the process that
    created the file removes it, not a forked child. Raises OSError if the file cannot be created.
    """
    import tempfile

    owner = os.getpid()
    # A signal between creating the file and entering the block below would leave the file behind.
    blocked = mask("SIG_BLOCK", ENDING_SIGNALS)
    try:
        descriptor, path = tempfile.mkstemp(prefix=".kseg-", suffix=".tmp", dir=directory)
        file = io.FileIO(descriptor, "w")
        try:
            mask("SIG_SETMASK", blocked)
            yield file, path
        finally:
            try:
                file.close()  # Windows removes only closed files
            finally:
                if os.getpid() == owner:
                    with suppress(FileNotFoundError):
                        os.unlink(path)
    finally:
        mask("SIG_SETMASK", blocked)
