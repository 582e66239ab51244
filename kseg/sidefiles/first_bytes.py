"""Opens and reads small files with few system calls; a log directory has thousands of them."""

import os
from typing import Final

# Without O_NONBLOCK, opening a FIFO of that name would block.
READ_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def first_bytes(path: str, most: int) -> bytes:
    """Returns at most ``most`` bytes from the start of a file; allocates a buffer of that size. Raises OSError."""
    descriptor = os.open(path, READ_FLAGS)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
