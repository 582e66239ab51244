"""Errors that are not findings about bytes: one small tree, each class with its exit status.

    KsegError                       3
    ├── RequestError                2   options that contradict each other or the files; a ValueError
    ├── PathError                   3   missing, unreadable, not a file that kseg knows; an OSError
    │   └── UnreadableError         3   bytes of a file that the disk cannot read
    ├── UnsupportedError            3   known, but unsupported by this command or release
    ├── DamageError                 3   damage that was not to be skipped
    ├── KernelError                 3   KSEG_KERNEL=compiled, but the kernel is not compiled
    ├── BrokerRunningError          3   the lock of the log directory is held
    └── StoppedHalfwayError         4   a change stopped: no space, an I/O error, another program

Readers never raise for bad bytes: items and problems describe them (see `kseg.segment`).
"""

import copyreg
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard


class KsegError(Exception):
    """Base of all errors that end a command with one line on standard error.

    ``command``: a shell line that helps, which follows the text; on standard error on a line of its own.

    >>> try:
    ...     kseg.verify("nowhere-0")
    ... except kseg.KsegError as error:
    ...     print(type(error).__name__, error.exit_status, error)
    PathError 3 nowhere-0: no such file or directory
    """

    exit_status = 3
    command = ""

    @classmethod
    def with_command(cls, text: str, command: str) -> "KsegError":
        """Returns an error whose text leads to the command."""
        error = cls(text)
        error.command = command
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]

    @property
    def text(self) -> str:
        """The message without the command."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.text} {self.command}" if self.command else self.text


def is_system_error(error: BaseException | None) -> TypeGuard[OSError]:
    """Whether an error is of the system, and not a PathError, which says all that there is to say."""
    return isinstance(error, OSError) and not isinstance(error, KsegError)


def text_of(error: BaseException) -> str:
    """Returns the error as one line; for an OSError, its file (if any) and the system's message."""
    file = error.filename if isinstance(error, OSError) else None
    place = f"{os.fsdecode(file)}: " if file and isinstance(file, str | bytes) else ""
    return f"{place}{_message(error)}"


def _message(error: BaseException) -> str:
    """Returns the message of an error, for an OSError that of the system; the name of an error that has none."""
    return str((isinstance(error, OSError) and error.strerror) or error) or type(error).__name__


def caused(error: KsegError, cause: BaseException) -> KsegError:
    """Returns the error with its cause, to be raised later or kept."""
    error.__cause__ = cause
    return error


class RequestError(KsegError, ValueError):
    """Invalid options, and options that contradict each other or the files.

    >>> try:
    ...     kseg.scan("orders-0", offsets=(9, 5))
    ... except ValueError as error:
    ...     print(error)
    offsets=(9, 5): ends before it begins
    """

    exit_status = 2


class PathError(KsegError, OSError):
    """A path that cannot be opened, or that the command cannot read.

    >>> try:
    ...     kseg.open("nowhere-0")
    ... except OSError as error:
    ...     print(error)
    nowhere-0: no such file or directory
    """


class UnreadableError(PathError):
    """Bytes of a file that the disk cannot read.

    >>> issubclass(kseg.UnreadableError, kseg.PathError)
    True
    """


class UnsupportedError(KsegError):
    """An existing feature that this command does not support.

    >>> try:
    ...     kseg.scan("orders-0/00000000000000000000.index").to_arrow()
    ... except kseg.UnsupportedError as error:
    ...     print(error)
    orders-0/00000000000000000000.index: .index files hold no records
    """


class DamageError(KsegError):
    """Damage, or a batch that cannot be read, that was not to be skipped.

    ``item``: the `kseg.Damage` or `kseg.Batch`, if the Python interface found it.

    >>> try:
    ...     list(kseg.open("crashed-0").records())
    ... except kseg.DamageError as error:
    ...     print(error.item)
    <Batch 00000000000000000116.log:7129 305 bytes: offsets 134..135, v2, none, crc-mismatch>
    """

    def __init__(self, text: str, item: object = None) -> None:
        super().__init__(text)
        self.item = item


class KernelError(KsegError, ImportError):
    """The kernel that KSEG_KERNEL requires is missing."""


class BrokerRunningError(KsegError):
    """A live broker holds the log directory.

    >>> try:
    ...     result = kseg.reindex("orders-0").apply()
    ... except kseg.BrokerRunningError:
    ...     print("stop the broker first")
    """


class SelectionWarning(UserWarning):
    """A glob of topics that matches none.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", kseg.SelectionWarning)
    ...     rows = kseg.scan("kafka-logs", topics="nope*").count_rows()
    >>> print(rows, caught[0].message)
    0 topics: no topic matches 'nope*'
    """


class StoppedHalfwayError(KsegError):
    """A change stopped before its end. Repeat the command, or run ``kseg undo``.

    >>> kseg.StoppedHalfwayError.exit_status
    4
    """

    exit_status = 4


def refuse_if(is_wrong: object, text: str) -> None:
    """Raises RequestError with the text if something is wrong."""
    if is_wrong:
        raise RequestError(text)


@contextmanager
def errors_at(
    place: str, kind: type[KsegError] = PathError, then: str = "", of: type[Exception] = OSError
) -> Iterator[None]:
    """Turns exceptions of type ``of`` in the block into ``kind``, but no errors of kseg unless ``of`` is one. The text
    is ``place``, the message (for an OSError, that of the system) and ``then``."""
    try:
        yield
    except of as error:
        if isinstance(error, KsegError) and not issubclass(of, KsegError):
            raise
        raise kind(f"{place}: {_message(error)}{then}") from error
