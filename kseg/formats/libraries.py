"""Where functions of a C library are in memory, for the kernel, which calls them with no Python between."""

from collections.abc import Callable
from typing import Any

_kept: list[Any] = []
"""Libraries whose functions are asked for stay, as their addresses do."""


def addresses_in(path: str, names: tuple[str, ...], is_right: Callable[[Any], bool]) -> tuple[int, ...] | None:
    """Addresses good as long as the process lives; ``is_right``: judges the library, as ctypes has it.

    None where there is no such library, or one that hides its functions.
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
