"""The pages: what they hold, what stays inert in a browser, and that they can be used."""

import html
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from cli.command import FLIPPED, LOGS_4_4, TESTDATA, Kseg, findings_of
from kseg.output.sink import MemorySink
from kseg.report.pages import MAX_ROWS, PLAN, Card, Page, html_report, html_table, page_bytes
from report.browser import axe, dom_of, needs_browser, page_of

EVIL = "<img src=x onerror=document.title='ran'>-0"


def log_directory(tmp_path: Path, *names: str) -> Path:
    root = tmp_path / "logs <b>&"
    for name in names:
        shutil.copytree(FLIPPED, root / name)
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (root / "replication-offset-checkpoint").write_text("0\n1\na 0 140\n")
    return root


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def test_rows_are_complete() -> None:
    """The sink writes in large pieces: what it still holds belongs to the rows."""
    sink = MemorySink()
    with html_report(sink, PLAN, "kseg undo", ["a-0"]) as rows:
        rows.write(b'{"type":"leftOut","intactRecords":1}\n')
    assert data_of(sink.data.decode())["rows"] == [{"type": "leftOut", "intactRecords": 1}]


@pytest.fixture
def page(kseg: Kseg, tmp_path: Path) -> Path:
    root, out = log_directory(tmp_path, "a-0", EVIL), tmp_path / "report.html"
    done = kseg("verify", "--format", "html", "-o", out, root)
    assert (done.status, done.out) == (1, b"")
    assert done.err.startswith("kseg: files: ")
    return out


def test_the_page_holds_every_finding(kseg: Kseg, tmp_path: Path, page: Path) -> None:
    told = findings_of(kseg, tmp_path / "logs <b>&")
    data = data_of(page.read_text())
    assert [(row["code"], row["position"], row["file"]) for row in told] == [
        (row["code"], row["position"], row["file"]) for row in data["findings"]
    ]
    assert {row["code"] for row in told} == data["codes"].keys()


def test_a_directory_without_a_strip_says_why(kseg: Kseg, tmp_path: Path) -> None:
    root = tmp_path / "kafka-1"
    shutil.copytree(FLIPPED, root / "orders-0")
    (root / "empty-0").mkdir()
    (root / "left-0").mkdir()
    shutil.copy(next((root / "orders-0").glob("*.log")), root / "left-0" / "00000000000000000000.log.deleted")
    (root / "recovery-point-offset-checkpoint").write_text("damaged")
    packed = shutil.make_archive(str(tmp_path / "logs"), "tar", root, "orders-0")
    page = page_of(kseg, tmp_path, "verify", root, packed).read_text()
    notes = {row["path"]: row["note"] for row in data_of(page)["partitions"] if row["strip"] is None}
    assert notes.pop(str(root)) == "log directory"
    assert notes.pop(str(root / "empty-0")) == "no segments"
    assert notes.pop(str(root / "left-0")) == "no segments but 00000000000000000000.log.deleted"
    assert notes
    assert set(notes.values()) == {"segments are drawn for local directories only"}


@pytest.mark.parametrize("words", [("stats",), ("cluster",), ("retain", "--explain")])
def test_a_page_says_what_could_not_be_read(kseg: Kseg, tmp_path: Path, words: tuple[str, ...]) -> None:
    logs = LOGS_4_4
    report = "--report" if words[0] == "retain" else "-o"
    done = kseg(*words, "--format", "html", report, tmp_path / "page.html", logs, tmp_path / "none").expect(3)
    page = html.unescape((tmp_path / "page.html").read_text())
    assert f"Not read: {done.err.splitlines()[-1].removeprefix('kseg: ')}" in page
    assert "Not all could be read" in page


def test_a_step_names_the_place_that_needs_another_replica(kseg: Kseg, tmp_path: Path) -> None:
    path = TESTDATA / "kafka-4.3.1/compacted/e-plain-0"
    text = html.unescape(page_of(kseg, tmp_path, "verify", path).read_text())
    assert f"another replica is needed for gap-unexplained in {path}" in text


def test_a_cluster_has_its_copies_losses_and_commands(kseg: Kseg, tmp_path: Path) -> None:
    nodes = [TESTDATA / "damaged/findings/leader-copy-behind/cluster" / name for name in ("node1", "node2")]
    page = page_of(kseg, tmp_path, "verify", *nodes).read_text()
    (cluster,) = kseg("verify", "--format", "json", *nodes).objects[-1]["clusters"]
    data = data_of(page)
    assert data["nodeCopies"] == cluster["copies"]
    (lost,) = data["losses"]
    assert (lost["partition"], lost["outcome"], lost["leader"], lost["records"]) == ("d-0", "depends", 2, 150)
    assert html.escape(" ".join(cluster["commands"][0])) in page
    assert "in this order, before a start of nodes 1 and 2" in page
    assert "node 2: does not fit (leader-copy-behind)" in page


def test_places_with_the_same_need_share_a_step(kseg: Kseg, tmp_path: Path) -> None:
    root = log_directory(tmp_path, "a-0", "c-0")
    shutil.copytree(TESTDATA / "damaged/findings/early-timestamp/dplain-0", root / "b-0")
    text = html.unescape(page_of(kseg, tmp_path, "verify", "--now", 10**12, root).read_text())
    assert f"a decision is needed for future-timestamp in {root / 'a-0'}, {root / 'c-0'}" in text
    assert f"a decision is needed for early-timestamp in {root / 'b-0'}" in text


@needs_browser
def test_the_summary_shows_what_the_bytes_are(kseg: Kseg, tmp_path: Path) -> None:
    shown = dom_of(page_of(kseg, tmp_path, "stats", TESTDATA / "kafka-4.3.1/clients"))
    assert [title for title in ("Decompressed bytes", "Header keys", "Largest records") if title not in shown] == []
    assert re.search(r'class="time"[^>]*>\d{4}-\d\d-\d\d \d\d:\d\dZ<', shown)


def test_a_finding_has_its_bytes_and_repair(page: Path, tmp_path: Path) -> None:
    data = data_of(page.read_text())
    found = next(row for row in data["findings"] if row["code"] == "crc-mismatch")
    log = (FLIPPED / "00000000000000000116.log").read_bytes()
    start = found["hex"]["start"]
    assert start <= found["position"] == 7129
    assert bytes.fromhex(found["hex"]["bytes"]) == log[start : start + 160]
    assert found["repair"].startswith("kseg recover --mode salvage '")


@pytest.mark.parametrize(
    ("partition", "tones"),
    [
        (FLIPPED, {"errors": "error", "warnings": "", "infos": ""}),
        (TESTDATA / "kafka-0.10.2.2/codecs/compact-lz4-0", {"errors": "", "warnings": "", "infos": "info"}),
    ],
    ids=["damaged", "old"],
)
def test_counts_other_than_zero_are_colored(kseg: Kseg, tmp_path: Path, partition: Path, tones: dict[str, str]) -> None:
    page = page_of(kseg, tmp_path, "verify", partition).read_text()
    (summary,) = kseg("verify", "--format", "json", partition).of_type("summary")
    cards = re.findall(r'<div class="card ([a-z]*)"><dt[^>]*>(\w+)</dt><dd>([0-9,]+)<', page)
    shown = {label: (int(value.replace(",", "")), tone) for tone, label, value in cards}
    for label, tone in tones.items():
        assert shown[label] == (summary[label], tone)
        assert bool(tone) == (summary[label] > 0)


def test_a_strip_has_segments_offsets_and_marks(page: Path) -> None:
    data = data_of(page.read_text())
    strip = next(each["strip"] for each in data["partitions"] if each["name"] == "a-0")
    (segment,) = strip["segments"]
    assert (segment["size"], segment["base"], strip["highWatermark"]) == (14274, 116, 140)
    assert segment["anchors"][0] == [0, 116, segment["anchors"][0][2]]


def test_names_are_never_markup(page: Path) -> None:
    text = page.read_text()
    assert "<img" not in text
    assert "logs <b>" not in text
    assert "logs &lt;b&gt;&amp;" in text


def test_nothing_is_loaded_from_elsewhere(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|@import|url\(", text)
    assert "default-src 'none'" in text


def test_browsers_before_2024_draw_the_page(page: Path) -> None:
    assert re.findall(r"light-dark\([^)]|\.groupBy\(", page.read_text()) == []


@needs_browser
@pytest.mark.parametrize(("dark", "color"), [(False, "rgb(27, 32, 39)"), (True, "rgb(230, 233, 238)")])
def test_text_has_the_color_of_the_scheme(page: Path, dark: bool, color: str) -> None:
    script = "document.title = 'told ' + getComputedStyle(document.body).color;"
    assert f"<title>told {color}</title>" in dom_of(page, script, dark=dark)


def test_data_in_a_script_is_inert_and_exact() -> None:
    data = {"a": "</script><!--\u2028\x00&", "b": [(1 << 63) - 1, 5, True]}
    found = re.search(r'id="data">(.*)</script>', page_bytes(Page("", "", "", [], [], [], data)).decode())
    assert found is not None
    assert not re.search(r"[<>&\x80-\U0010ffff]", found[1])
    assert json.loads(found[1]) == {"a": "</script><!--\u2028\x00&", "b": [str((1 << 63) - 1), 5, True]}


def test_the_template_escapes() -> None:
    evil = "</title><script>alert(1)</script>\"'"
    text = page_bytes(Page(evil, evil, "error", [evil], [Card(evil, evil)], [], {"kind": "plan", "rows": []})).decode()
    assert "<script>alert" not in text
    assert html.escape("<script>alert(1)</script>") in text


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("stats",), "stats"),
        (("retain", "--explain"), "retention"),
        (("retain", "--dry-run", "--retention-ms", "1"), "plan"),
        (("recover", "--dry-run"), "plan"),
        (("recover", "--mode", "salvage", "-n"), "plan"),
        (("reindex", "--dry-run"), "plan"),
        (("compact", "--dry-run", "--force-policy"), "plan"),
        (("convert", "--codec", "zstd", "--in-place", "--dry-run"), "plan"),
        (("convert", "--codec", "zstd", "--output", "OUT", "--dry-run"), "plan"),
    ],
)
def test_every_plan_and_view_has_a_page(
    kseg: Kseg, tmp_path: Path, arguments: tuple[str, ...], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = TESTDATA / "damaged/4.3.1-control-clean/dplain-0" if arguments[0] in ("compact", "convert") else FLIPPED
    shutil.copytree(source, tmp_path / "dplain-0")
    monkeypatch.chdir(tmp_path)
    name = "--report" if arguments[0] == "convert" else "-o"
    done = kseg(*arguments, "--format", "html", name, "page.html", "dplain-0")
    plain = kseg(*arguments, "--format", "json", "dplain-0")
    assert done.status == plain.status
    assert done.out == b""
    data = data_of((tmp_path / "page.html").read_text())
    assert data["kind"] == kind
    wanted = {"stats": "summary", "retention": "segmentRetention", "plan": "action"}[kind]
    assert [row for row in data["rows"] if row["type"] == wanted] == plain.of_type(wanted)


@pytest.mark.slow
@needs_browser
def test_a_plan_begins_with_what_is_damaged_and_missing(kseg: Kseg, tmp_path: Path) -> None:
    """The files of a segment that are deleted for one reason are one row."""
    shutil.copytree(FLIPPED, tmp_path / "dplain-0")
    for suffix in (".log.deleted", ".index.deleted", ".timeindex.deleted"):
        (tmp_path / f"dplain-0/00000000000000000007{suffix}").write_bytes(bytes(1000))
    dom = dom_of(page_of(kseg, tmp_path, "recover", "--mode", "salvage", "-n", tmp_path / "dplain-0"))
    assert re.search(r"<h1>[1-9] damaged ranges?, [0-9]+ offsets missing\. [0-9]+ file operations would be done", dom)
    at = [dom.index(f'id="{section}-title"') for section in ("damage", "gaps", "actions")]
    assert at == sorted(at)
    (folded,) = [row for row in re.findall("<tr.*?</tr>", dom) if "000007." in row]
    assert all(suffix in folded for suffix in (".log.deleted", ".index.deleted", ".timeindex.deleted", "2.9 KiB"))


IMAGES = TESTDATA / "kafka-4.3.1" / "internal"


@pytest.mark.parametrize("options", [(), ("--redact",), ("--redact", "--since", 100)], ids=str)
def test_an_image_has_a_page(kseg: Kseg, tmp_path: Path, options: tuple[object, ...]) -> None:
    done = kseg("cluster", *options, "--format", "html", "-o", tmp_path / "page.html", IMAGES)
    assert (done.status, done.out, done.err) == (0, b"", "")
    data = data_of((tmp_path / "page.html").read_text())
    rows = kseg("cluster", *options, "--format", "json", IMAGES).objects
    assert data["kind"] == "cluster"
    assert data["rows"][0] == rows[0]
    tables = {row["title"]: row for row in data["rows"] if row["type"] == "imageTable"}
    partitions = [row for row in rows if row.get("recordType") == "PARTITION_RECORD"]
    assert [row for row in data["rows"] if row["type"] == "imageChange"] == [row for row in rows if "change" in row]
    if "--since" not in options:
        assert len(tables["19 topics, 41 partitions"]["rows"]) == len(partitions) == 41
        assert all(len(row) == len(each["columns"]) for each in tables.values() for row in each["rows"])
    secrets = [row["data"]["salt"] for row in rows if row.get("recordType") == "USER_SCRAM_CREDENTIAL_RECORD"]
    assert set(secrets) == {"<redacted>"} or "--redact" not in options


def test_a_page_says_where_an_image_ends(kseg: Kseg, tmp_path: Path) -> None:
    logs, page = TESTDATA / "damaged" / "findings" / "metadata-record-refused" / "logs", tmp_path / "page.html"
    done = kseg("cluster", "--format", "html", "-o", page, logs).expect(1)
    (end,) = re.findall("<h1>(.*?)</h1>", page.read_text())
    assert "the image ends at offset" in end
    assert html.unescape(end) in done.err


def test_undo_has_a_page(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(FLIPPED, tmp_path / "dplain-0")
    assert kseg("recover", tmp_path / "dplain-0").status == 0
    assert kseg("undo", "-n", "--format", "html", "--report", tmp_path / "u.html", tmp_path / "dplain-0").status == 1
    assert data_of((tmp_path / "u.html").read_text())["rows"]
    assert kseg("undo", "--list", "--format", "html", tmp_path / "dplain-0").status == 2


@pytest.mark.parametrize("options", [("--format", "html"), ("--report", "x.html")])
def test_a_page_is_of_a_dry_run(kseg: Kseg, tmp_path: Path, options: tuple[str, ...]) -> None:
    shutil.copytree(FLIPPED, tmp_path / "dplain-0")
    assert "dry run" in kseg("recover", *options, tmp_path / "dplain-0").expect(2).err
    assert {path.name for path in (tmp_path / "dplain-0").iterdir()} == {path.name for path in FLIPPED.iterdir()}


def test_without_jinja_the_extra_is_named(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = kseg("verify", "--format", "html", FLIPPED)
    assert (done.status, done.out) == (3, b"")
    assert "kseg[report]" in done.err


@needs_browser
def test_markup_in_names_does_not_run(page: Path) -> None:
    dom = dom_of(page)
    assert 'data-ready="true"' in dom
    assert "<title>kseg verify" in dom
    assert "<img" not in dom
    assert "&lt;img src=x onerror" in dom


@pytest.mark.slow
@needs_browser
def test_without_the_policy_nothing_runs_either(page: Path) -> None:
    dom = dom_of(page, "document.querySelectorAll('details.finding').forEach(each => { each.open = true; })")
    assert "<title>kseg verify" in dom
    assert "<img" not in dom


@needs_browser
def test_filters_and_details_work(page: Path) -> None:
    script = """
    const shown = () => document.querySelectorAll('#findings details.finding').length;
    const told = [shown()];
    document.querySelector('button[data-severity=error]').click();
    told.push(shown());
    const first = document.querySelector('#findings details.finding');
    first.addEventListener('toggle', () => setTimeout(() => {
      told.push(first.querySelectorAll('.hex mark').length > 0);
      told.push(...[...first.querySelectorAll('button[data-copy]')].map(each => each.dataset.copy));
      document.title = 'told ' + JSON.stringify(told);
    }));
    first.open = true;
    """
    dom = dom_of(page, script)
    found = re.search(r"<title>told (.*?)</title>", dom)
    assert found is not None
    everything, errors, has_marks, repair, other = json.loads(html.unescape(found[1]))
    data = data_of(page.read_text())
    assert everything == len(data["findings"])
    assert errors == sum(row["severity"] == "error" for row in data["findings"])
    assert has_marks
    assert repair.startswith("kseg recover --mode salvage")
    assert other.startswith("kseg recover --full")


def violations(page: Path, size: str, dark: bool) -> list[list[str]]:
    script = axe()
    if script is None:
        pytest.skip("no axe-core: npm install axe-core")
    run = (
        script.read_text("utf-8").replace("</script>", "<\\/script>")
        + ";document.querySelectorAll('details').forEach(each => { each.open = true; });"
        "setTimeout(() => axe.run().then(found => { const out = document.createElement('pre'); out.id = 'axe';"
        "out.textContent = JSON.stringify(found.violations.map(each => [each.id, each.nodes[0].html]));"
        "document.body.append(out); }), 100);"
    )
    found = re.search(r'<pre id="axe">(.*?)</pre>', dom_of(page, run, size, dark), re.DOTALL)
    assert found is not None
    return json.loads(html.unescape(found[1]))


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", ["400,900", "1280,1000", "1920,1100"])
def test_axe_finds_no_violation(page: Path, size: str, dark: bool) -> None:
    assert violations(page, size, dark) == []


@needs_browser
@pytest.mark.parametrize(
    "arguments",
    [
        ("stats", "--what-if", "zstd"),
        ("retain", "--explain", "--retention-ms", "1"),
        ("recover", "--dry-run"),
        ("recover", "--mode", "salvage", "--dry-run"),
        ("cluster",),
        ("cluster", "--since", "100"),
    ],
    ids=" ".join,
)
def test_axe_finds_no_violation_on_other_pages(kseg: Kseg, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    root = log_directory(tmp_path, "a-0", "b-0", EVIL)
    out = page_of(kseg, tmp_path, *arguments, IMAGES if "cluster" in arguments else root)
    for size, dark in (("400,900", True), ("1280,1000", False)):
        assert violations(out, size, dark) == []


@pytest.mark.slow
@needs_browser
def test_the_summary_shows_damage_first(kseg: Kseg, tmp_path: Path) -> None:
    root = log_directory(tmp_path, "z-0")
    shutil.copytree(TESTDATA / "damaged/4.3.1-control-clean/dplain-0", root / "a-0")
    out = page_of(kseg, tmp_path, "stats", root)
    assert "with wrong checksums" in out.read_text()
    rows = re.findall(r'<tr[^>]*><td class="place"[^>]*><span title="[^"]*">([^<]*)</span>', dom_of(out))
    assert rows == ["z-0", "a-0"]


def test_the_page_tells_what_the_cleaner_waits_for(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(TESTDATA / "compaction/4.3.1/before/e-idem-0", tmp_path / "logs" / "e-idem-0")
    (tmp_path / "logs" / "cleaner-offset-checkpoint").write_text("0\n1\ne-idem 0 0\n")
    page = page_of(kseg, tmp_path, "verify", tmp_path / "logs").read_text()
    states = {each["name"]: each["cleaner"] for each in data_of(page)["partitions"]}
    assert states["e-idem-0"] == "due, dirty 100%"


@pytest.mark.slow
@needs_browser
def test_a_fleet_is_drawn_bit_by_bit(tmp_path: Path) -> None:
    strip = {"segments": [], "segmentsLeftOut": 0, "aborted": [], "logStartOffset": None, "highWatermark": None}
    partitions = [
        {"path": f"/logs/t-{i}", "name": f"t-{i}", "counts": [int(i == 1500), 0, 0], "strip": strip}
        for i in range(2000)
    ]
    data = {
        "kind": "verify", "partitions": partitions, "findings": [], "findingsLeftOut": 0, "comparisons": [],
        "nodeCopies": [], "losses": [],
        "codes": {}, "omitted": [],
    }  # fmt: skip
    (tmp_path / "fleet.html").write_bytes(page_bytes(Page("kseg verify", "1 error", "error", ["/logs"], [], [], data)))
    dom = dom_of(tmp_path / "fleet.html")
    names = re.findall(r'<div class="name">(.*?)</div>', dom)
    assert names[0] == "t-1500"
    assert len(names) < 100
    printed = dom_of(tmp_path / "fleet.html", "dispatchEvent(new Event('beforeprint'));")
    on_paper = printed.count('<div class="partition"')
    assert len(names) < on_paper < 300  # all of them would be more than a hundred sheets
    assert f">{2000 - on_paper:,} more</button>" in printed


@pytest.mark.slow
@needs_browser
def test_paper_has_more_rows_than_the_screen(kseg: Kseg, tmp_path: Path) -> None:
    out = page_of(kseg, tmp_path, "verify", log_directory(tmp_path, *(f"t-{i}" for i in range(40))))
    shown, printed = (
        dom_of(out, script).count('<div class="partition"')
        for script in (";", "dispatchEvent(new Event('beforeprint'));")
    )
    assert shown < printed == len(data_of(out.read_text())["partitions"])


def test_cells_are_escaped_and_none_is_empty() -> None:
    table = html_table("a & b", ["<x>", "y"], [("<script>", None), ("\udcff", 3)])
    assert "a &amp; b" in table
    assert "<th>&lt;x&gt;</th>" in table
    assert "<td>&lt;script&gt;</td><td></td>" in table
    assert "<td>\\udcff</td><td>3</td>" in table


def test_many_rows_are_counted() -> None:
    table = html_table("many", ["n"], [(n,) for n in range(MAX_ROWS + 7)])
    assert table.count("<tr>") == 1 + MAX_ROWS + 1
    assert "and 7 more" in table


def test_without_rows_there_is_no_table() -> None:
    assert html_table("nothing < 1", ["n"], []) == "<p>nothing &lt; 1</p>"
