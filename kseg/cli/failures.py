"""Partitions and paths that a changing command cannot do: each is told at once, and the others are still done."""

from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote

from kseg.errors import KsegError, text_of
from kseg.output.notices import Notices
from kseg.stores.unreadable import is_disk_error


class Failures:
    """``status``: the highest exit status of what failed so far, 0 for none; ``places``: which paths and directories of
    partitions failed."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.status = 0
        self.places: set[str] = set()

    def add(self, error: KsegError, place: str) -> None:
        """``place``: the path, or the directory of a partition."""
        cause = error.__cause__
        if error.exit_status == KsegError.exit_status and isinstance(cause, OSError) and is_disk_error(cause):
            hint = f"kseg verify {quote(place)} shows what is lost, kseg recover --mode salvage keeps the rest"
            self._notices.error(f"{error}; {place} is left as it is: {hint}")
        else:
            self._notices.error(error)
        self.status = max(self.status, error.exit_status)
        self.places.add(place)

    def refused(self) -> None:
        """Something was refused, and told."""
        self.status = max(self.status, KsegError.exit_status)

    @contextmanager
    def of(self, place: str) -> Iterator[None]:
        """Errors inside are told and do not leave the block. ``place``: what is named where the system's error names
        no file."""
        try:
            yield
        except KsegError as error:
            self.add(error, place)
        except OSError as error:
            named = text_of(error) if error.filename else f"{place}: {text_of(error)}"
            failure = KsegError(named)
            failure.__cause__ = error
            self.add(failure, place)
