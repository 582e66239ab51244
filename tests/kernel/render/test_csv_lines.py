"""Limits of columns that are printed as CSV: exactly long enough, one item too short, one record too many."""

import pytest

from kernel.rendering import int64s
from kseg.kernel.render.csv_lines import CsvLines, TextColumn

COUNT = 9
"""Records: their bits take two bytes."""


def int32s(*values: int) -> memoryview:
    found = memoryview(bytearray(4 * len(values))).cast("i")
    for index, value in enumerate(values):
        found[index] = value
    return found


def texts(data: bytes = b"k" * COUNT, ends: int = COUNT + 1, valid: int = 2, count: int = COUNT) -> TextColumn:
    return TextColumn(data, int32s(*range(ends)), b"\xff" * valid, count)


def lines(**short: int) -> CsvLines:
    """Lines of COUNT records, with columns of these lengths in place of those that suffice."""
    lengths = {
        "offsets": COUNT,
        "times": COUNT,
        "timed": 2,
        "kinds": COUNT,
        "header_ends": COUNT + 1,
        "count": COUNT,
        **short,
    }
    return CsvLines(
        b"t,0", lengths["count"], int64s(list(range(lengths["offsets"]))), int64s(lengths["times"]),
        b"\xff" * lengths["timed"], int32s(*[0] * lengths["kinds"]), texts(), texts(),
        int32s(*[0] * lengths["header_ends"]),
    )  # fmt: skip


@pytest.mark.parametrize("short", [{"data": b"k" * (COUNT - 1)}, {"ends": COUNT}, {"valid": 1}, {"count": COUNT + 1}])
def test_texts_that_are_too_short_are_refused(short: dict[str, object]) -> None:
    texts()
    texts(count=0, data=b"", ends=1, valid=0)
    with pytest.raises(ValueError, match="too short"):
        texts(**short)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "short",
    [
        {"offsets": COUNT - 1}, {"times": COUNT - 1}, {"timed": 1}, {"kinds": COUNT - 1}, {"header_ends": COUNT},
        {"count": COUNT + 1}, {"count": -1},
    ],
)  # fmt: skip
def test_columns_that_are_too_short_are_refused(short: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="too short"):
        lines(**short)


@pytest.mark.parametrize(("written", "first"), [(-1, 0), (2001, 0), (0, -1), (0, COUNT + 1)])
def test_places_outside_are_refused(written: int, first: int) -> None:
    found, out = lines(), bytearray(2000)
    found.written = written
    with pytest.raises(ValueError, match="no such place"):
        found.put(first, out)


def test_lines_fill_an_output_to_its_last_byte() -> None:
    """The ends of the output and of the records are places, too."""
    found, out = lines(), bytearray(20_000)
    assert found.put(COUNT, out) == COUNT
    assert (found.written, found.needed) == (0, 0)
    found.written = len(out)
    assert found.put(0, out) == 0
    assert (found.written, found.needed > 0) == (len(out), True)
    found.written = 0
    assert found.put(0, out) == COUNT
    expected = b"".join(b't,0,%d,0,"CreateTime","k","k","[]"\r\n' % offset for offset in range(COUNT))
    assert bytes(out[: found.written]) == expected
    assert found.needed == 0
    found.written = 0
    assert found.put(0, bytearray(1)) == 0
    needed = found.needed
    assert found.put(0, bytearray(needed - 1)) == 0
    assert found.put(0, bytearray(needed)) >= 1
