"""Opens and reads small files with few system calls; a log directory has thousands of them."""

import os

from kseg.stores.regular_files import open_at_once


def first_bytes(path: str, most: int) -> bytes:
    """Returns at most ``most`` bytes from the start of a file; allocates a buffer of that size. Raises OSError."""
    descriptor = open_at_once(path)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
