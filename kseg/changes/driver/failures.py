"""Collects the errors of single paths and partitions, so that a changing command continues with the others."""

from collections.abc import Iterator
from contextlib import contextmanager

from kseg.changes.driver.reporter import Messages
from kseg.errors import KsegError, RequestError, text_of
from kseg.stores.stored_object import shown
from kseg.stores.unreadable import is_disk_error


class Failures:
    """``status``: the highest exit status so far, 0 for none. ``errors``: by path or directory of a partition."""

    def __init__(self, reporter: Messages) -> None:
        self._reporter = reporter
        self.status = 0
        self.errors: dict[str, KsegError] = {}

    @property
    def paths(self) -> set[str]:
        """The paths and the directories of partitions that failed."""
        return set(self.errors)

    def add(self, error: KsegError, path: str) -> None:
        """Reports an error. ``path``: the path, or the directory of a partition."""
        cause, path = error.__cause__, shown(path)
        if error.exit_status == KsegError.exit_status and isinstance(cause, OSError) and is_disk_error(cause):
            hint = "kseg verify shows what is lost, kseg recover --mode salvage keeps the rest"
            self._reporter.error(f"{error}; {path} is left as it is: {hint}")
        else:
            self._reporter.error(error)
        self.status = max(self.status, error.exit_status)
        self.errors[path] = error

    def refused(self) -> None:
        """Records that something was refused and has been reported."""
        self.status = max(self.status, KsegError.exit_status)

    @contextmanager
    def of(self, path: str) -> Iterator[None]:
        """Reports errors of the block instead of raising them. ``path``: named if a system error names no file.

        Raises RequestError, as wrong options end the command.
        """
        try:
            yield
        except RequestError:
            raise
        except KsegError as error:
            self.add(error, path)
        except OSError as error:
            named = text_of(error) if error.filename else f"{shown(path)}: {text_of(error)}"
            failure = KsegError(named)
            failure.__cause__ = error
            self.add(failure, path)
