"""The interface through which long passes over files report how many bytes they have read."""

from typing import Protocol


class Progress(Protocol):
    """A display of progress, as a context manager. ``is_on``: whether anything is shown."""

    total: int | None
    """Bytes to be read, None if unknown."""
    is_on: bool

    def __enter__(self) -> "Progress": ...

    def __exit__(self, *error: object) -> None: ...

    def at(self, path: str) -> None:
        """Sets the current file or directory."""

    def advance(self, count: int) -> None:
        """Adds ``count`` bytes."""

    def erase(self) -> None:
        """Removes the display until the next `advance`, so that other output can be written."""


class _NoProgress:
    total: int | None = None
    is_on = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def at(self, path: str) -> None:
        """Shows nothing."""

    def advance(self, count: int) -> None:
        """Shows nothing."""

    def erase(self) -> None:
        """Shows nothing."""


NO_PROGRESS: Progress = _NoProgress()
