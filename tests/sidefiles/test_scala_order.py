"""The iteration order of Scala's mutable.HashMap, compared with lists printed by scala-library itself."""

import json
from pathlib import Path

import pytest

from kseg.sidefiles.hash_order import scala_2_12_order, scala_2_13_order

LISTS = Path(__file__).resolve().parents[2] / "testdata" / "side-files" / "scala" / "order.json"


@pytest.mark.parametrize(("keys", "until_2_12", "since_2_13"), json.loads(LISTS.read_text()))
def test_keys_are_listed_as_scala_lists_them(keys: list[int], until_2_12: list[int], since_2_13: list[int]) -> None:
    assert scala_2_12_order(keys) == until_2_12
    assert scala_2_13_order(keys) == since_2_13


def test_a_key_that_is_put_again_stays_where_it_is() -> None:
    assert scala_2_12_order([5, 1, 5]) == scala_2_12_order([5, 1])
    assert scala_2_13_order([5, 1, 5]) == scala_2_13_order([5, 1])
