"""The iteration order of java.util.HashMap; the expected orders were printed by Java 17."""

from kseg.sidefiles.hash_order import hash_map_order


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
