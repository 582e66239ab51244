"""Finds where two files begin to differ."""


def common_prefix(one: bytes, other: bytes) -> int:
    """Returns the length of the common prefix. Compares slices, not single bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
