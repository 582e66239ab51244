"""Opens and reads small files with few system calls; a log directory has thousands of them."""

from kseg.stores.regular_files import open_at_once


def first_bytes(path: str, most: int) -> bytes:
    """Returns at most ``most`` bytes from the start of a file; allocates a buffer of that size. Raises OSError."""
    extent = open_at_once(path)
    try:
        return extent.pread(most, 0)
    finally:
        extent.close()
