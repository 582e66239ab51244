"""The table: aligned, of limited width, with correct totals."""

from pathlib import Path

import pytest

from kseg.formats.rows import Scratch
from kseg.output import table
from kseg.output.fleet_table import SUMMARY_FIELDS, fleet_table
from kseg.output.notices import Paint
from kseg.output.printer import Style
from kseg.output.table import TablePrinter
from kseg.output.terminal import display_width
from kseg.quantities import plural
from kseg.segment.items import Damage
from output.feeding import SEGMENTS, TESTDATA, MemorySink, feed
from segment.reading import items_at
from segment.segments import sealed
from verification.partitions import of_records, plain_record

MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log"
TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0/00000000000000001187.log"
ZEROS = next((TESTDATA / "damaged/4.3.1-mid-append-zeros4096").glob("*/*.log"))


def show(*paths: Path, style: Style | None = None, terminal: bool = False, **options) -> list[str]:
    sink = MemorySink(terminal)
    scratch = Scratch(1 << 20)
    feed(TablePrinter(sink, style or Style(), scratch, **options), *paths, scratch=scratch)
    return sink.lines


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_80_columns_are_enough(path: Path) -> None:
    lines = show(path, style=Style(deep=True, contents=True))
    assert [line for line in lines if display_width(line) > 80 and line != str(path)] == []


@pytest.mark.parametrize("width", range(60, 120, 4))
def test_columns_leave_space_for_numbers_that_grow(width: int) -> None:
    """A table that is wider than the terminal drops columns, so that longer numbers of later batches fit, too."""
    title = show(TRANSACTIONS, width=width)[0]
    assert display_width(title) <= width - table.SLACK


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_the_footer_adds_up(path: Path) -> None:
    items = list(items_at(path))
    batches = [item for item in items if not isinstance(item, Damage)]
    records = sum(len(list(batch)) for batch in batches if batch.is_valid and not batch.check())
    text = "\n".join(show(path, style=Style(deep=True)))
    assert f"{plural(len(batches), 'batch', 'batches', ',')}, " in text
    assert f"({path.stat().st_size:,} bytes)" in text
    damaged = [item.length for item in items if isinstance(item, Damage)]
    wrong = sum(bool(batch.check()) for batch in batches)
    if damaged or wrong:
        ranges = plural(len(damaged), "range", "ranges")
        assert f"damage: {ranges}, {sum(damaged):,} bytes; batches with problems: {wrong}" in text
    elif path.suffix == ".log":
        assert f", {plural(records, 'record', 'records', ',')}, " in text


@pytest.mark.parametrize("contents", [False, True])
def test_markers_are_shown_as_such(contents: bool) -> None:
    lines = [line for line in show(TRANSACTIONS, style=Style(deep=True, contents=contents)) if "endTxnMarker" in line]
    markers = [item for item in items_at(TRANSACTIONS) if not isinstance(item, Damage) and item.is_control]
    assert len(lines) == len(markers) > 0


def test_control_characters_never_reach_a_terminal() -> None:
    for path in SEGMENTS[:40]:
        lines = show(path, style=Style(deep=True, contents=True))
        assert all(line.isprintable() for line in lines)


def test_damage_is_red_and_in_its_place() -> None:
    lines = show(ZEROS, paint=Paint("always"))
    (at,) = [i for i, line in enumerate(lines) if "damage: zero-block" in line]
    assert lines[at].startswith("\x1b[31m")
    assert not any("\x1b" in line for line in show(ZEROS, terminal=True))


def test_a_wrong_checksum_and_records_that_make_no_sense_are_told_apart(tmp_path: Path) -> None:
    good = of_records([plain_record(0)], 0)
    path, style = tmp_path / f"{0:020}.log", Style(deep=True)
    for data, word in ((good[:-1] + b"?", "INVALID"), (sealed(good, 57, (9).to_bytes(4, "big")), "BROKEN")):
        path.write_bytes(data)
        assert [found for found in ("INVALID", "BROKEN") if any(found in line for line in show(path, style=style))] == [
            word
        ]


def test_no_color_if_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Paint("auto", is_terminal=True).is_on
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not Paint("auto", is_terminal=True).is_on
    monkeypatch.setenv("TERM", "xterm")
    assert Paint("auto", is_terminal=True).is_on
    assert not Paint("auto", is_terminal=False).is_on


def test_only_the_first_rows_are_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FIRST_ROWS", 5)
    sink = MemorySink()
    printer = TablePrinter(sink, Style(), Scratch())
    held = []
    monkeypatch.setattr(printer.sink, "put", lambda _line: held.append(len(printer._rows)))
    feed(printer, MIXED)
    assert len(held) > 100
    assert max(held) == 0


def summary(
    path: object, size: int, oldest: int | None = None, codec: str = "none", damaged: int = 0, dirty: int | None = None
) -> dict:
    form = {"format": "v2", "compression": codec, "batches": size, "bytes": size}
    return {
        "path": path, "bytes": size, "files": 2, "batches": size, "records": 10 * size, "forms": [form],
        "damagedBytes": damaged, "leastBaseTimestamp": oldest, "maxTimestamp": oldest,
        "cleaner": None if dirty is None else {"state": f"dirty {dirty}%", "dirtyBytes": dirty},
    }  # fmt: skip


def lines(sort: str, width: int = 200) -> list[str]:
    rows = [summary("/logs/b-0", 30, 1000), summary("/logs/a-0", 10, 2000, "lz4", 5, 7)]
    rows.append(summary({"base64": "L2xvZ3Mv/w=="}, 20, dirty=9))
    return fleet_table(rows, sort, Paint("never"), width).splitlines()


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("name", "a-0"), ("size", "b-0"), ("segments", "a-0"), ("batches", "b-0"), ("records", "b-0"),
        ("damage", "a-0"), ("oldest", "b-0"), ("newest", "a-0"), ("cleaner", "\\udcff"),
    ],
)  # fmt: skip
def test_the_order(sort: str, first: str) -> None:
    assert sort in SUMMARY_FIELDS
    assert lines(sort)[1].split()[0] == first


def test_the_total_has_the_bytes_of_all_files() -> None:
    rows = [summary(f"/logs/a-{number}", 1024) | {"allBytes": size} for number, size in enumerate((2048, None, 3072))]
    assert fleet_table(rows, "name", Paint(), 200).splitlines()[4].split()[:4] == ["3", "partitions", "6.0", "KiB"]


def test_a_narrow_terminal_leaves_columns_out() -> None:
    assert all(len(line) <= 40 for line in lines("size", 40)[:5])
    assert "PARTITION" in lines("size", 40)[0]
