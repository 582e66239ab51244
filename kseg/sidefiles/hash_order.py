"""Iteration orders of hash maps of Java and Scala: with Long keys, those of entries in producer snapshots; with String
keys, those of lists in records of metadata.

java.util.HashMap is the map of brokers since 3.5. Buckets come by number; keys within a bucket in insertion order. The
table starts with 16 buckets. It doubles when it holds more keys than three quarters of its buckets, or when a key is
added to a bucket of 8 keys in a table of fewer than 64 buckets. It never shrinks. (HashMap of Java 8 and later. Java
turns a bucket of 9 keys into a tree if the table has 64 or more buckets; here it stays a list.)"""

import struct
from collections.abc import Callable, Iterable
from operator import mul
from typing import Any, TypeVar

FIRST_CAPACITY = 16
MIN_TREE_CAPACITY = 64
LIST_LENGTH = 8
_MASK = 0xFFFFFFFF
_UNITS = 64
"""Units of UTF-16 that are hashed at once."""
_POWERS = [31**exponent & _MASK for exponent in range(_UNITS + 1)]

Key = TypeVar("Key")


def spread(key: int) -> int:
    """HashMap's hash of a Long, 32 bits unsigned."""
    folded = (key ^ (key & 0xFFFFFFFFFFFFFFFF) >> 32) & _MASK
    return folded ^ folded >> 16


def string_hash(text: str) -> int:
    """Java's String.hashCode, 32 bits signed."""
    data, found = text.encode("utf-16-be", "surrogatepass"), 0
    units = struct.unpack(f">{len(data) // 2}H", data)
    for start in range(0, len(units), _UNITS):
        part = units[start : start + _UNITS]
        found = (found * _POWERS[len(part)] + sum(map(mul, reversed(part), _POWERS))) & _MASK
    return found - (1 << 32) if found >= 1 << 31 else found


def coordinator_hash(name: str) -> int:
    """Returns the hash by which a group or transactional id is assigned to a partition of a coordinator's topic
    (GroupCoordinatorService.partitionFor; Utils.abs gives 0 for the lowest number)."""
    found = string_hash(name)
    return 0 if found == -(1 << 31) else abs(found)


def coordinator_partition(name: str, count: int) -> int:
    """Returns which of the ``count`` partitions of a coordinator's topic holds a group or transactional id."""
    return coordinator_hash(name) % count


def string_spread(text: str) -> int:
    """HashMap's hash of a String, 32 bits unsigned."""
    found = string_hash(text) & _MASK
    return found ^ found >> 16


def hash_map_order(
    keys: Iterable[Key], capacity: int = FIRST_CAPACITY, spread_of: Callable[[Any], int] = spread
) -> list[Key]:
    """Returns the distinct ``keys``, inserted in the given order, in the map's iteration order.

    ``capacity`` is the initial number of buckets: more than 16 for a map that once held more keys. ``spread_of``: the
    map's hash of a key.
    """
    distinct, spreads = list(dict.fromkeys(keys)), list[int]()
    for key in distinct:
        bucket = spread_of(key) & capacity - 1
        if capacity < MIN_TREE_CAPACITY and sum(one & capacity - 1 == bucket for one in spreads) >= LIST_LENGTH:
            capacity *= 2
        spreads.append(spread_of(key))
        if len(spreads) > capacity * 3 // 4:
            capacity *= 2
    return sorted(distinct, key=lambda key: spread_of(key) & capacity - 1)  # a table that doubles keeps the order


# scala.collection.mutable.HashMap is the map of brokers of 0.11 to 3.4.
#
# A table starts with 16 buckets, and doubles. Up to Scala 2.12 (HashTable) the bucket number is made of the highest
# bits of a mixed hash; buckets come last to first, and keys in a bucket newest first. Since Scala 2.13 it is made of
# the lowest bits; buckets come first to last, and keys in a bucket by rising hash.

_FIRST_BITS = 4
_MIX = 0x9E3775CD


def hash_of(key: int) -> int:
    """Scala's ## of a Long, 32 bits unsigned: the hash of the equal Int if the value fits in one."""
    return (key if -(1 << 31) <= key < 1 << 31 else key ^ (key & (1 << 64) - 1) >> 32) & _MASK


def scala_2_12_order(keys: Iterable[int]) -> list[int]:
    """Returns the distinct ``keys``, inserted in the given order, in the iteration order of Scala up to 2.12."""
    capacity, seen = FIRST_CAPACITY, set[int]()
    buckets: list[list[int]] = [[] for _ in range(capacity)]
    for key in keys:
        if key in seen:
            continue
        seen.add(key)
        buckets[_bucket(key, capacity)].insert(0, key)
        if len(seen) > capacity * 3 // 4:
            old, capacity = buckets, 2 * capacity
            buckets = [[] for _ in range(capacity)]
            for bucket in reversed(old):
                for moved in bucket:
                    buckets[_bucket(moved, capacity)].insert(0, moved)
    return [key for bucket in reversed(buckets) for key in bucket]


def _bucket(key: int, capacity: int) -> int:
    bits = capacity.bit_length() - 1
    mixed = int.from_bytes((hash_of(key) * _MIX & _MASK).to_bytes(4, "little"), "big") * _MIX & _MASK
    # Rotated by the bits of the initial table, whatever its present size.
    return (mixed >> _FIRST_BITS | mixed << 32 - _FIRST_BITS & _MASK) >> 32 - bits


def scala_2_13_order(keys: Iterable[int]) -> list[int]:
    """Returns the distinct ``keys``, inserted in the given order, in the iteration order of Scala since 2.13."""
    capacity, put = FIRST_CAPACITY, dict.fromkeys(keys)
    while len(put) >= capacity * 3 // 4:
        capacity *= 2

    def place(key: int) -> tuple[int, int]:
        found = hash_of(key)
        found ^= found >> 16
        return found & capacity - 1, found ^ 1 << 31  # hashes are signed

    return sorted(put, key=place)
