"""How small files beside the segments are opened and read: thousands of them, with as few system calls as will do."""

import os
from typing import Final

# Without O_NONBLOCK a pipe of that name would never be opened.
READ_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def first_bytes(path: str, most: int) -> bytes:
    """At most so many bytes from the beginning of a file; room is made for all of them. Raises OSError."""
    descriptor = os.open(path, READ_FLAGS)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
