"""The iteration order of java.util.HashMap; the expected orders were printed by Java 17."""

import json
from pathlib import Path

import pytest

from kseg.sidefiles.hash_order import hash_map_order, scala_2_12_order, scala_2_13_order


def test_buckets_come_by_number_and_in_a_bucket_as_put() -> None:
    assert hash_map_order([17, 1, 33, 0, 16, 2]) == [0, 16, 17, 1, 33, 2]


def test_both_halves_of_a_long_count() -> None:
    keys = [1 << 40, -1, -2, -(1 << 63), (1 << 63) - 1, 5000000001, 3]
    assert hash_map_order(keys) == [1 << 40, -1, -(1 << 63), (1 << 63) - 1, -2, 3, 5000000001]


def test_nine_keys_in_a_bucket_of_a_small_table_make_it_grow() -> None:
    assert hash_map_order(range(160, 16, -16)) == [160, 128, 96, 64, 32, 144, 112, 80, 48]


def test_a_table_that_held_more_keys_stays_large() -> None:
    assert hash_map_order([257, 1, 129, 255], capacity=256) == [257, 1, 129, 255]
    assert hash_map_order([16, 1], capacity=256) == [1, 16]
    assert hash_map_order([16, 1]) == [16, 1]


def test_a_key_put_twice_keeps_its_place() -> None:
    assert hash_map_order([16, 0, 16]) == [16, 0]


def test_a_table_doubles_above_three_quarters() -> None:
    assert hash_map_order([16, *range(12)])[:2] == [0, 1]
    assert hash_map_order([16, *range(11)])[:2] == [16, 0]


# The iteration order of Scala's mutable.HashMap, compared with lists printed by scala-library itself.

LISTS = Path(__file__).resolve().parents[2] / "testdata" / "side-files" / "scala" / "order.json"


@pytest.mark.parametrize(("keys", "until_2_12", "since_2_13"), json.loads(LISTS.read_text()))
def test_keys_are_listed_as_scala_lists_them(keys: list[int], until_2_12: list[int], since_2_13: list[int]) -> None:
    assert scala_2_12_order(keys) == until_2_12
    assert scala_2_13_order(keys) == since_2_13


def test_a_key_that_is_put_again_stays_where_it_is() -> None:
    assert scala_2_12_order([5, 1, 5]) == scala_2_12_order([5, 1])
    assert scala_2_13_order([5, 1, 5]) == scala_2_13_order([5, 1])
