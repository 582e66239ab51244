"""Who makes a change, for the record of it: user, host, version of kseg and the words of the command line."""

import os
from dataclasses import dataclass

import kseg


@dataclass(frozen=True, slots=True)
class Author:
    """``arguments``: the words of the command line after ``kseg``, None for a change made from Python."""

    user: str
    host: str
    version: str
    arguments: tuple[str, ...] | None

    @classmethod
    def present(cls, arguments: tuple[str, ...] | None = None) -> "Author":
        """Returns the user of this process."""
        return cls(_user(), os.uname().nodename, kseg.__version__, arguments)


def _user() -> str:
    import pwd

    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
