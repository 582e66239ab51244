"""``kseg verify --against --by``: logs with other offsets are compared by what their records hold."""

import random
from pathlib import Path
from typing import Any

import pytest

import kseg
from kseg.verification import content
from kseg.verification.content import out_of_order

START = 1_790_000_000_000


def row(i: int) -> dict[str, Any]:
    return {"key": b"k%d" % (i % 40), "value": b"v%d" % i, "headers": [("n", b"%d" % i)], "timestamp": START + i}


def written(path: Path, rows: list[dict[str, Any]], first: int = 0) -> Path:
    with kseg.writer(path, batch_bytes=2000) as writer:
        for n, each in enumerate(rows):
            writer.append(**each, offset=first + n)
    return path


def compared(here: Path, there: Path, by: str = "content") -> Any:
    verdict = kseg.verify(here, against=there, by=by)
    (found,) = verdict.comparisons
    differences = {each.details["difference"]: each for each in verdict.findings if each.code == "records-differ"}
    return found, differences


def test_a_mirror_with_four_missing_two_twice_and_one_swapped(tmp_path: Path) -> None:
    rows = [row(i) for i in range(2500)]
    source = written(tmp_path / "a/orders-0", rows, 100)
    copy = [each for i, each in enumerate(rows) if i not in (17, 503, 1200, 2001)]
    at = copy.index(rows[1800])
    copy[at], copy[at + 1] = copy[at + 1], copy[at]
    copy.insert(copy.index(rows[700]), rows[699])
    copy.insert(copy.index(rows[2400]), rows[40])
    found, told = compared(source, written(tmp_path / "b/orders-0", copy))
    assert (found.only_here, found.only_there, found.repeated_here, found.repeated_there) == (4, 0, 0, 2)
    assert (found.out_of_order, found.same, found.is_identical) == (1, 2496, False)
    assert told["only-here"].details["offsets"] == [117, 603, 1300, 2101]
    assert told["more-often-here"].details["count"] == 2
    assert told["out-of-order"].details["offsets"][0] in (1900, 1901)
    assert {name: each.file.split("/")[-2] for name, each in told.items()} == {
        "only-here": "a", "more-often-here": "b", "out-of-order": "a",
    }  # fmt: skip
    back, _ = compared(tmp_path / "b/orders-0", source)
    assert (back.only_there, back.repeated_here, back.out_of_order) == (4, 2, 1)


def test_the_same_records_at_other_offsets_in_other_batches(tmp_path: Path) -> None:
    rows = [row(i) for i in range(900)]
    one = written(tmp_path / "a/t-0", rows)
    with kseg.writer(tmp_path / "b/t-0", codec="zstd", batch_bytes=50_000) as writer:
        for n, each in enumerate(rows):
            writer.append(**each, offset=5 + 3 * n)
    found, told = compared(one, tmp_path / "b/t-0")
    assert (found.is_identical, found.same, told) == (True, 900, {})


@pytest.mark.parametrize("by, differs", [
    ("key", False), ("key,value", False), ("headers", True), ("timestamp", True), ("content", True),
    ("value,timestamp", True),
])  # fmt: skip
def test_only_the_chosen_fields_count(tmp_path: Path, by: str, differs: bool) -> None:
    rows = [row(i) for i in range(50)]
    one = written(tmp_path / "a/t-0", rows)
    rows[20] = rows[20] | {"headers": [], "timestamp": 1}
    found, _ = compared(one, written(tmp_path / "b/t-0", rows), by)
    assert found.is_identical != differs
    assert (found.only_here, found.only_there) == ((1, 1) if differs else (0, 0))


def test_null_is_not_empty_and_parts_do_not_run_together(tmp_path: Path) -> None:
    one = written(tmp_path / "a/t-0", [{"key": None, "value": b"ab"}, {"key": b"a", "value": b"b"}])
    other = written(tmp_path / "b/t-0", [{"key": b"", "value": b"ab"}, {"key": b"ab", "value": b""}])
    found, _ = compared(one, other, "key,value")
    assert (found.same, found.only_here, found.only_there) == (0, 2, 2)


def test_moved_records_are_counted_as_few_as_possible(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [row(i) for i in range(3000)]
    moved = list(rows)
    for each in draw.sample(rows, 5):
        moved.remove(each)
        moved.insert(draw.randrange(len(moved)), each)
    found, _ = compared(written(tmp_path / "a/t-0", rows), written(tmp_path / "b/t-0", moved))
    assert found.out_of_order == 5
    assert found.same == 3000


def test_the_first_offsets_of_many_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests come by bucket, not in the order of the log."""
    monkeypatch.setattr(content, "_LISTED", 5)
    rows = [row(i) for i in range(600)]
    _, told = compared(written(tmp_path / "a/t-0", rows), written(tmp_path / "b/t-0", rows[599:], 599))
    details = told["only-here"].details
    assert (details["offsets"], details["firstOffset"], details["count"]) == ([0, 1, 2, 3, 4], 0, 599)


def test_longest_rising_sequences() -> None:
    def length(values: list[int]) -> int:
        best: list[int] = []
        for i, value in enumerate(values):
            best.append(1 + max((best[k] for k in range(i) if values[k] < value), default=0))
        return max(best, default=0)

    draw = random.Random(1)
    for _ in range(300):
        values = draw.sample(range(50), draw.randrange(12))
        left = out_of_order(values)
        kept = [value for i, value in enumerate(values) if i not in left]
        assert kept == sorted(kept)
        assert len(kept) == length(values)


def test_fields_are_checked(tmp_path: Path) -> None:
    with pytest.raises(kseg.RequestError, match="neither content nor"):
        kseg.verify(tmp_path, against=tmp_path, by="keys")
    with pytest.raises(kseg.RequestError, match="--against"):
        kseg.verify(tmp_path, by="key")
