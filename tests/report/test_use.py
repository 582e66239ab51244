"""The pages on narrow screens and without a mouse, and what they say about compaction and retention."""

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import FLIPPED, TESTDATA, Kseg
from report.browser import dom_of, needs_browser, page_of

pytestmark = [needs_browser, pytest.mark.slow]  # each starts a browser once or twice

NARROW = "400,900"


def answer(page: Path, script: str, size: str = "1280,1000") -> Any:
    """Runs a script that assigns to ``told``, and returns that."""
    dom = dom_of(page, f"let told; {script}; document.title = 'told ' + JSON.stringify(told);", size)
    found = re.search(r"<title>told (.*?)</title>", dom)
    assert found is not None
    return json.loads(html.unescape(found[1]))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in ("orders-0", "a-topic-with-a-long-name-0"):
        shutil.copytree(FLIPPED, tmp_path / "logs" / name)
    (tmp_path / "logs/recovery-point-offset-checkpoint").write_text("0\n0\n")
    return tmp_path / "logs"


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats", "--what-if", "zstd"),
        ("retain", "--explain", "--retention-ms", "1", "--keep-active"),
        ("recover", "--mode", "salvage", "--dry-run"),
        ("cluster", "--since", "100"),
    ],
    ids=" ".join,
)
def test_no_cell_is_beside_a_narrow_screen(kseg: Kseg, tmp_path: Path, logs: Path, arguments: tuple[str, ...]) -> None:
    source = TESTDATA / "kafka-4.3.1" / "internal" if "cluster" in arguments else logs
    page = page_of(kseg, tmp_path, *arguments, source)
    script = (
        "told = [...document.querySelectorAll('td')].filter(each => each.offsetWidth)"
        ".map(each => each.getBoundingClientRect().right - innerWidth)"
    )
    beyond = answer(page, script, NARROW)
    assert beyond
    assert max(beyond) <= 0


def test_a_cell_of_a_narrow_screen_has_the_title_of_its_column(kseg: Kseg, tmp_path: Path, logs: Path) -> None:
    page = page_of(kseg, tmp_path, "stats", logs)
    script = (
        "told = [...document.querySelector('#partitions tbody tr').cells]"
        ".map(each => [each.dataset.label, each.getAttribute('role')])"
    )
    titles = answer(page, "told = [...document.querySelectorAll('#partitions th')].map(each => each.textContent)")
    assert answer(page, script, NARROW) == [[title, "cell"] for title in titles]


def test_the_arrow_keys_move_over_a_strip(kseg: Kseg, tmp_path: Path, logs: Path) -> None:
    page = page_of(kseg, tmp_path, "verify", logs)
    script = """
    const strip = document.querySelector('.strip'), tip = document.getElementById('tip');
    const press = key => { strip.dispatchEvent(new KeyboardEvent('keydown', { key })); return tip.textContent; };
    strip.focus();
    told = [press('Home'), press('ArrowRight'), press('End'), (press('Escape'), tip.hidden)];
    """
    start, next_, end, is_hidden = answer(page, script)
    assert start.startswith("00000000000000000116.log\nposition 0\noffset 116 or a little later\n")
    assert re.search(r"position 1[34][0-9]\n", next_)
    assert "position 14,2" in end
    assert is_hidden


def test_damage_is_drawn_above_the_marks(kseg: Kseg, tmp_path: Path, logs: Path) -> None:
    page = page_of(kseg, tmp_path, "verify", logs)
    assert answer(page, "told = getComputedStyle(document.querySelector('.strip .damage')).zIndex") == "1"


def test_a_compaction_begins_with_the_records_that_it_removes(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(TESTDATA / "compaction/4.3.1/before/c-tomb-short-0", tmp_path / "c-tomb-short-0")
    ask = ("compact", "--dry-run", "--min-cleanable-ratio", "0", "--now", "1795252258000", tmp_path / "c-tomb-short-0")
    (facts,) = kseg(*ask, "--format", "json").of_type("compaction")
    dom = dom_of(page_of(kseg, tmp_path, *ask))
    assert f"<h1>Compaction removes {facts['records'] - facts['kept']} records. " in dom
    (row,) = re.findall(r'<section id="compactions".*?<tbody.*?</tbody>', dom, re.DOTALL)
    cells = re.findall(r"<td[^>]*>([^<]*)<", row)
    gone = [f"{count} {why}" for why, count in facts["gone"].items() if count]
    assert cells[1:4] == [str(facts["records"]), str(facts["kept"]), ", ".join(gone)]


def test_retention_shows_times_and_sizes_in_units(kseg: Kseg, tmp_path: Path, logs: Path) -> None:
    limits = "--retention-ms=5400000", "--retention-bytes=2048"
    dom = dom_of(page_of(kseg, tmp_path, "retain", "--explain", *limits, "--keep-active", "--topic=orders", logs))
    assert "retention.ms 5400000 = 1 h 30 min (option), retention.bytes 2.0 KiB (option)" in dom


def test_a_recompression_has_its_speed(kseg: Kseg, tmp_path: Path, logs: Path) -> None:
    dom = dom_of(page_of(kseg, tmp_path, "stats", "--what-if", "zstd", logs / "orders-0"))
    (section,) = re.findall(r'<section id="what-if".*?</section>', dom, re.DOTALL)
    assert re.search(r"<td[^>]*>[\d,.]+ MB/s</td>", section)


@pytest.mark.parametrize("name", ["logs", "kafka-1"])
def test_a_log_directory_is_named_as_such(kseg: Kseg, tmp_path: Path, logs: Path, name: str) -> None:
    """Even if its own name could be that of a partition."""
    logs = logs.rename(logs.with_name(name))
    dom = dom_of(page_of(kseg, tmp_path, "verify", logs))
    row = dom[dom.index(f'<div class="name">{name}</div>') :]
    assert re.findall(r'<div class="soft">(.*?)</div>', row)[:1] == ["log directory"]


def test_paper_has_all_next_steps(kseg: Kseg, tmp_path: Path) -> None:
    names = [f"t-{i}" for i in range(8)]
    for name in names:
        shutil.copytree(FLIPPED, tmp_path / name)
    page = page_of(kseg, tmp_path, "verify", *(tmp_path / name for name in names))
    steps = "[...document.querySelectorAll('#next li')].filter(each => each.checkVisibility()).length"
    shown, printed = answer(page, f"told = [{steps}, (dispatchEvent(new Event('beforeprint')), {steps})]")
    assert (shown, printed) == (5, 8)
