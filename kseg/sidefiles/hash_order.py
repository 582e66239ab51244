"""Iteration order of a java.util.HashMap with Long keys, which is the order of entries in a producer snapshot.

Brokers up to 3.4 used a Scala map, which has another order: see `kseg.sidefiles.scala_order`.

Buckets come by number; keys within a bucket in insertion order. The table starts with 16 buckets. It doubles when it
holds more keys than three quarters of its buckets, or when a key is added to a bucket of 8 keys in a table of fewer
than 64 buckets. It never shrinks. (HashMap of Java 8 and later. Java turns a bucket of 9 keys into a tree if the table
has 64 or more buckets; here it stays a list.)
"""

from collections.abc import Iterable

FIRST_CAPACITY = 16
MIN_TREE_CAPACITY = 64
LIST_LENGTH = 8


def spread(key: int) -> int:
    """HashMap's hash of a Long, 32 bits unsigned."""
    folded = (key ^ (key & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
    return folded ^ folded >> 16


def hash_map_order(keys: Iterable[int], capacity: int = FIRST_CAPACITY) -> list[int]:
    """Returns the distinct ``keys``, inserted in the given order, in the map's iteration order.

    ``capacity`` is the initial number of buckets: more than 16 for a map that once held more keys.
    """
    buckets: dict[int, list[int]] = {}
    seen: set[int] = set()
    for key in keys:
        if key in seen:
            continue
        seen.add(key)
        bucket = buckets.setdefault(spread(key) & capacity - 1, [])
        is_long = len(bucket) >= LIST_LENGTH
        bucket.append(key)
        if is_long and capacity < MIN_TREE_CAPACITY:
            capacity, buckets = _doubled(capacity, buckets)
        if len(seen) > capacity * 3 // 4:
            capacity, buckets = _doubled(capacity, buckets)
    return [key for number in sorted(buckets) for key in buckets[number]]


def _doubled(capacity: int, buckets: dict[int, list[int]]) -> tuple[int, dict[int, list[int]]]:
    capacity *= 2
    moved: dict[int, list[int]] = {}
    for bucket in buckets.values():
        for key in bucket:
            moved.setdefault(spread(key) & capacity - 1, []).append(key)
    return capacity, moved
