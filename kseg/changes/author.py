"""Who makes a change, for the record of it: user, host, version of kseg and the words of the command line."""

import os
from typing import Any, NamedTuple

import kseg


class Author(NamedTuple):
    """``arguments``: the words of the command line after ``kseg``, None for a change made from Python."""

    user: str
    host: str
    version: str
    arguments: tuple[str, ...] | None

    @classmethod
    def present(cls, arguments: tuple[str, ...] | None = None) -> "Author":
        """Returns the user of this process."""
        return cls(_user(), os.uname().nodename, kseg.__version__, arguments)

    def row(self) -> dict[str, Any]:
        """Returns an object of JSON, for records of changes."""
        return self._asdict()

    @classmethod
    def of(cls, row: Any) -> "Author | None":
        """Parses `row`; None for a record that names no author. Raises KeyError, TypeError, ValueError."""
        if row is None:
            return None
        words = row["arguments"]
        return cls(
            str(row["user"]), str(row["host"]), str(row["version"]), None if words is None else tuple(map(str, words))
        )


def _user() -> str:
    import pwd

    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
