"""What can go wrong that is not a finding about bytes: one small tree, each class with its exit status.

    KsegError                       3
    ├── RequestError                2   options that contradict the files they are for
    ├── PathError                   3   missing, unreadable, not a kind of file that kseg knows
    │   └── UnreadableError         3   bytes of a file that its disk cannot give
    ├── UnsupportedError            3   known, but not done by this command or release
    ├── DamageError                 3   damage where it was not to be skipped
    ├── KernelError                 3   KSEG_KERNEL=compiled where the kernel is not compiled
    ├── BrokerRunningError          3   the lock of the log directory is held
    └── StoppedHalfwayError         4   no space or an I/O error in the middle of a change

Readers never raise for bad bytes: what the bytes are is told by items and problems (see `kseg.segment`).
"""

import os


class KsegError(Exception):
    """Base of all errors that end a command with one line on standard error."""

    exit_status = 3


def text_of(error: BaseException) -> str:
    """One line for people; of an error of the system the file, where it names one, and what the system says."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    return f"{place}: {error.strerror or error}" if place else str(error.strerror or error)


class RequestError(KsegError):
    """Options that contradict each other or the files they are for."""

    exit_status = 2


class PathError(KsegError):
    """A path that cannot be opened or is not what the command reads."""


class UnreadableError(PathError):
    """Bytes of a file that its disk cannot give."""


class UnsupportedError(KsegError):
    """Something that exists, but that this command does not do."""


class DamageError(KsegError):
    """Damage, or a batch that cannot be read, where it was not to be skipped.

    ``item``: the `kseg.Damage` or `kseg.Batch`, if the Python interface met it.
    """

    def __init__(self, text: str, item: object = None) -> None:
        super().__init__(text)
        self.item = item

    def __reduce__(self) -> tuple[type["DamageError"], tuple[str, object]]:
        return type(self), (str(self), self.item)


class KernelError(KsegError, ImportError):
    """The kernel that KSEG_KERNEL asks for is not there."""


class BrokerRunningError(KsegError):
    """A live broker holds the log directory."""


class StoppedHalfwayError(KsegError):
    """A change stopped before its end; repeating the command or ``kseg undo`` settles it."""

    exit_status = 4
