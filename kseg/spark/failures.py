"""Errors of tasks as values, because an exception in Spark loses the exit status."""

from typing import NamedTuple

from kseg.errors import KsegError


class RemoteError(KsegError):
    """An error in a task, with the same exit status as on this machine."""

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status


class Failure(NamedTuple):
    """``number``: errno of an OSError, None for a KsegError."""

    text: str
    exit_status: int
    number: int | None = None
    path: str | None = None

    def error(self) -> KsegError | OSError:
        """Returns the exception, to be raised as if the error had occurred here."""
        if self.number is not None:
            return OSError(self.number, self.text, self.path)
        return RemoteError(self.text, self.exit_status)


def failure_of(error: KsegError | OSError) -> Failure:
    if isinstance(error, KsegError):
        return Failure(str(error), error.exit_status)
    path = error.filename if isinstance(error.filename, str) else None
    return Failure(error.strerror or str(error), KsegError.exit_status, error.errno or 0, path)
