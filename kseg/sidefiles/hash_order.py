"""The order in which a java.util.HashMap with Long keys is walked: that of the entries of a producer snapshot.

Older brokers (2.8 for one) kept the state in a map of Scala's, which has another order.

Buckets by number, in a bucket as put. The table has 16 buckets at first and doubles when more than three quarters as
many keys are in it, or when a key comes to 8 others in a bucket of a table below 64. It never shrinks. (HashMap of
Java 8 and later. Buckets that Java turns into trees, 9 keys in one of 64 or more buckets, are walked as lists here.)
"""

from collections.abc import Iterable

FIRST_CAPACITY = 16
LEAST_TREE_CAPACITY = 64
LIST_LENGTH = 8


def spread(key: int) -> int:
    """HashMap's hash of a Long, 32 bits."""
    folded = (key ^ (key & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
    return folded ^ folded >> 16


def hash_map_order(keys: Iterable[int], capacity: int = FIRST_CAPACITY) -> list[int]:
    """The different ``keys``, put in the order given, as the map lists them.

    ``capacity`` is the number of buckets to begin with: more than 16 for a map that once held more keys.
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
        if is_long and capacity < LEAST_TREE_CAPACITY:
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
