"""Where results go: standard output or a file that appears whole or not at all."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kseg.errors import PathError
from kseg.limits import OUTPUT_BYTES


class Sink:
    """Gathers output and writes it in large pieces to a descriptor. Raises BrokenPipeError as the system does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pieces: list[bytes] = []
        self._gathered = 0
        self.is_terminal = os.isatty(descriptor)

    def write(self, data: bytes) -> None:
        self._pieces.append(data)
        self._gathered += len(data)
        if self._gathered >= OUTPUT_BYTES or self.is_terminal:
            self.flush()

    def write_view(self, view: Any) -> None:
        """Writes a buffer that will be reused: at once, nothing of it is kept."""
        self.flush()
        _write_all(self._descriptor, view)

    def flush(self) -> None:
        if self._pieces:
            _write_all(self._descriptor, memoryview(b"".join(self._pieces)))
            self._pieces.clear()
            self._gathered = 0


def _write_all(descriptor: int, view: Any) -> None:
    done = 0
    while done < len(view):
        done += os.write(descriptor, view[done:])


@contextmanager
def open_sink(path: str | None) -> Iterator[Sink]:
    """Standard output, or ``path``: replaced when the block ends well, untouched when it does not.

    Raises PathError where the file cannot be made.
    """
    if path is None:
        sys.stdout.flush()
        sink = Sink(sys.stdout.fileno())
        yield sink
        sink.flush()
        return
    folder = os.path.dirname(os.path.abspath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".tmp", dir=folder)
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    try:
        sink = Sink(descriptor)
        yield sink
        sink.flush()
        os.fchmod(descriptor, 0o666 & ~_umask())
        os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
