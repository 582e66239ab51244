"""Names of objects in both layouts, and names that only resemble them."""

import pytest

from kseg.stores.remote.recognition import AIVEN, LOCAL, is_topic, may_hold_segments, parse_object_name

ID, OTHER = "A-_bcdefghijklmnopqrst", "----------------------"
STEM = f"{7:020}-{OTHER}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"t-{ID}/0/{STEM}.log", (AIVEN, f"t-{ID}", "t", ID, 0, 7, OTHER, ".log")),
        (f"a/b_x-y-{ID}/12/{STEM}.rsm-manifest", (AIVEN, f"a/b_x-y-{ID}", "b_x-y", ID, 12, 7, OTHER, ".rsm-manifest")),
        (
            f"kafka-tiered-storage/t-1-0-{ID}/{STEM}.leader_epoch_checkpoint",
            (LOCAL, f"kafka-tiered-storage/t-1-0-{ID}", "t-1", ID, 0, 7, OTHER, ".leader_epoch_checkpoint"),
        ),
        (f"t-0-{ID}/{STEM}.txnindex", (LOCAL, f"t-0-{ID}", "t", ID, 0, 7, OTHER, ".txnindex")),
    ],
)  # fmt: skip
def test_names_are_parsed_from_the_right(name: str, expected: tuple[object, ...]) -> None:
    assert parse_object_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        f"t-{ID}/0/{STEM}.index",
        f"t-{ID}/00/{STEM}.log",
        f"t-{ID}/{1 << 31}/{STEM}.log",
        f"t-{ID}/0/{'9' * 20}-{OTHER}.log",
        f"t-{ID}/0/{STEM}x.log",
        f"t-{ID[:-1]}/0/{STEM}.log",
        f"t-{ID}/{STEM}.log",
        f"t-{ID}/0/{STEM}.log.deleted",
        "orders-0/00000000000000000007.log",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert parse_object_name(name) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("a.b_c-1", True), ("..", False), ("a/b", False), ("", False), (1, False)]
)
def test_topics(text: object, expected: bool) -> None:
    assert is_topic(text) is expected


def test_folders() -> None:
    assert may_hold_segments("kafka-tiered-storage")
    assert may_hold_segments(f"t-{ID}")
    assert not may_hold_segments("orders-0")
