"""Finds the addresses of C library functions, which the kernel calls directly."""

from collections.abc import Callable
from typing import Any

_kept: list[Any] = []
"""Keeps libraries loaded so that their addresses stay valid."""


def addresses_in(path: str, names: tuple[str, ...], is_right: Callable[[Any], bool]) -> tuple[int, ...] | None:
    """Returns addresses, valid for the life of the process; ``is_right`` checks the ctypes library.

    None if the library does not exist or does not export the functions.
    """
    import ctypes

    try:
        library = ctypes.CDLL(path)
        if not is_right(library):
            return None
        found = tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names)
    except (OSError, AttributeError):
        return None
    _kept.append(library)
    return found if all(found) else None
