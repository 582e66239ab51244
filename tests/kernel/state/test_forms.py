"""Counts of batches by format and codec."""

from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import BATCH_ATTRIBUTES, BATCH_MAGIC, BATCH_SIZE, BATCH_STATE, BATCH_WIDTH
from kseg.kernel.state.tally import CODECS, FORMS_WIDTH, count_forms


def counted(batches: list[tuple[int, int, int, int]], is_07: bool = False) -> dict[tuple[int, int], tuple[int, int]]:
    """``batches``: magic, attributes, size, state. Returns batches and bytes by format and codec."""
    rows, found = int64s(max(1, len(batches)) * BATCH_WIDTH), int64s(FORMS_WIDTH)
    for i, (magic, attributes, size, state) in enumerate(batches):
        for column, value in (
            (BATCH_MAGIC, magic), (BATCH_ATTRIBUTES, attributes), (BATCH_SIZE, size), (BATCH_STATE, state),
        ):  # fmt: skip
            rows[i * BATCH_WIDTH + column] = value
    count_forms(rows, len(batches), is_07, found)
    pairs = {(i // CODECS, i % CODECS): (found[2 * i], found[2 * i + 1]) for i in range(FORMS_WIDTH // 2)}
    return {form: numbers for form, numbers in pairs.items() if any(numbers)}


def test_batches_are_counted_by_format_and_codec() -> None:
    zstd_transactional = 4 | 16
    batches = [(2, zstd_transactional, 100, 1), (2, 4, 50, 3), (1, 0, 30, 1), (0, 1, 20, 1)]
    assert counted(batches) == {(2, 4): (2, 150), (1, 0): (1, 30), (0, 1): (1, 20)}
    assert counted([(1, 2, 20, 1), (0, 0, 10, 1)], is_07=True) == {(3, 2): (1, 20), (3, 0): (1, 10)}


def test_batches_that_are_not_intact_do_not_count() -> None:
    assert counted([(2, 0, 100, 0), (9, 0, 100, 1), (-1, 0, 100, 1)]) == {}
    assert counted([]) == {}
