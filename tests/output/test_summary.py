"""``kseg stats`` as text and JSON."""

import json
from pathlib import Path

import pytest

from kernel.rendering import batch, record
from kseg.formats.compressing import parse_target
from kseg.formats.rows import Scratch
from kseg.output.terminal import display_width
from kseg.quantities import show_span, shown_bytes, shown_time
from kseg.views.stats import StatsOptions, SummaryPrinter
from output.feeding import SEGMENTS, STYLES, TESTDATA, MemorySink, feed, words

MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log"
TRANSACTIONS = sorted((TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0").glob("*.log"))


ZSTD = parse_target("zstd")


def run(*paths: Path, **options) -> tuple[SummaryPrinter, list[str]]:
    sink = MemorySink()
    scratch = Scratch(1 << 20)
    printer = SummaryPrinter(sink, scratch, StatsOptions((), **options))
    feed(printer, *paths, scratch=scratch)
    return printer, sink.lines


def test_what_if() -> None:
    (found,) = map(json.loads, run(MIXED, form="json", what_if=(ZSTD,), jobs=2)[1])
    saving = found["whatIf"]
    assert (saving["compression"], saving["level"], saving["isExact"], saving["error"]) == ("zstd", 3, True, None)
    assert saving["bytesSaved"] == saving["bytesBefore"] - saving["bytesAfter"]
    assert saving["bytesBefore"] + saving["bytesUntouched"] == MIXED.stat().st_size
    text = "\n".join(run(MIXED, what_if=(ZSTD,))[1])
    assert "what if zstd:3" in text
    assert "would stay as they are" in text


def test_a_batch_that_cannot_be_decoded_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch([record(0), record(1)]) + batch([record(0), record(1)], 2, count=3))
    assert run(path)[0].errors == 1


def test_an_estimate_shows_its_error() -> None:
    paths = [MIXED] * 30
    objects = list(map(json.loads, run(*paths, form="json", what_if=(ZSTD,), sample=60)[1]))
    found = objects[-1]["whatIf"]
    text = "\n".join(run(*paths, what_if=(ZSTD,), sample=60)[1])
    assert 0 < found["sampledBatches"] < found["batches"]
    bound = f", off by {shown_bytes(found['error'])} at most in 19 cases of 20"
    assert f"from {found['sampledBatches']:,} of {found['batches']:,} batches{bound}\n" in text


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_80_columns_are_enough(path: Path) -> None:
    _, lines = run(path)
    assert lines[0].startswith(f"{path}: ")
    assert [line for line in lines[1:] if display_width(line) > 80 or line != line.rstrip()] == []


@pytest.mark.parametrize(
    "count, shown",
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1048575, "1.0 MiB"), (5 << 40, "5.0 TiB")],
)
def test_bytes(count: int, shown: str) -> None:
    assert shown_bytes(count) == shown


def test_times() -> None:
    assert shown_time(1500000010810) == "2017-07-14 02:40:10.810Z"
    assert shown_time(-1) == "1969-12-31 23:59:59.999Z"
    assert shown_time(1 << 62) == str(1 << 62)
    assert [show_span(ms) for ms in (0, 1500, 61_000, 3_661_000, 90_000_000)] == [
        "0.000 s", "1.500 s", "1 min 1 s", "1 h 1 min", "1 d 1 h",
    ]  # fmt: skip


SEGMENT = sorted((TESTDATA / "kafka-4.3.1" / "clients" / "librdkafka-txn-0").glob("*.log"))[0]
DAMAGED = sorted((TESTDATA / "damaged" / "4.3.1-last-flip-body" / "dplain-0").glob("*.log"))[0]


def shown(path: Path, is_terminal: bool, color: str = "auto") -> list[str]:
    sink = MemorySink(is_terminal)
    feed(SummaryPrinter(sink, Scratch(), StatsOptions((), color=color)), path)
    return sink.lines


@pytest.mark.parametrize("path", [SEGMENT, DAMAGED], ids=["intact", "damaged"])
@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_panel_shows_the_facts_of_the_lines(monkeypatch: pytest.MonkeyPatch, path: Path, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines, panel = shown(path, is_terminal=False), shown(path, is_terminal=True, color="never")
    assert panel[0].startswith("╭─ ")
    assert panel[-1].startswith("╰─")
    assert {len(line) for line in panel} == {min(columns, 120)}
    assert not any("\x1b" in line for line in panel)
    assert words(panel[1:]).count("share") == 1
    size = next(number for number, line in enumerate(panel) if " bytes)" in line)
    assert "".join(line.strip("│ ") for line in panel[1:size]) == str(path)
    assert [word for word in words(panel[size:]) if word != "share"] == words([lines[0].split(": ", 1)[1], *lines[1:]])


def test_a_panel_has_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    panel = shown(DAMAGED, is_terminal=True)
    assert any("\x1b[31m" in line for line in panel)
    assert {len(STYLES.sub("", line)) for line in panel} == {80}


def test_colored_lines_end_with_no_stray_reset() -> None:
    """As ``--color always`` in a pipe has them: only the path and what is wrong are colored."""
    lines = shown(SEGMENT, is_terminal=False, color="always")
    assert ["\x1b" in line for line in lines] == [True] + [False] * (len(lines) - 1)
