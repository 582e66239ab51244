"""Statistics of a partition as text, or as a panel on a terminal."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kseg.formats.json_values import name_of
from kseg.output.notices import Paint, on_one_line
from kseg.output.terminal import clipped, drawn
from kseg.quantities import plural, show_span, shown_bytes, shown_time
from kseg.segment.recompression import Saving
from kseg.segment.summary import Row, ratio_of, records_per_hour

_SHOWN_GROUPS = 5
_MUCH_MORE = 1.5
"""Other files than segments are told from this multiple of the segments' size on; indexes take less."""


_LABEL_WIDTH = 20
_SHOWN, _LARGEST = 3, 2
"""Header keys that are shown; keys and records."""
_KEY_WIDTH = _LABEL_WIDTH - 3


class Fact(NamedTuple):
    """One line of a summary: a label, a number and a remark."""

    label: str
    number: str
    more: str = ""
    color: str | None = None


def summary_lines(row: Row, path: str, savings: Sequence[Saving], paint: Paint) -> list[str]:
    """Returns the summary as text, at most 80 columns wide except for the path."""
    counted, contained = summary_facts(row)
    lines = [f"{paint(on_one_line(path), bold=True)}: {summary_size(row)}", *map(_line, counted)]
    if row["forms"]:
        cells = [("format", "codec", "batches", "records", "bytes", "ratio"), *map(_form_cells, row["forms"])]
        lines += ["", *("  {:<7}{:<9}{:>12}{:>14}{:>12}{:>8}".format(*each) for each in cells), ""]
    lines += [paint(_line(fact), fact.color) if fact.color else _line(fact) for fact in contained]
    return lines + savings_lines(savings, paint)


def summary_size(row: Row) -> str:
    """Returns the number of files, if there are several, and their size."""
    files = "" if row["files"] == 1 else f"{row['files']} files, "
    more = row.get("allBytes")
    whole = ""
    if more is not None and more > row["bytes"] * _MUCH_MORE:
        whole = f"; all files of the directory {shown_bytes(more)}"
    return f"{files}{shown_bytes(row['bytes'])} ({row['bytes']:,} bytes){whole}"


def summary_facts(row: Row) -> tuple[list[Fact], list[Fact]]:
    """Returns the facts above the table of formats (batches, records), and those below it."""
    counted = [
        Fact("batches", f"{row['batches']:,}", _sizes(row["batchSize"], shown_bytes)),
        Fact("records", f"{row['records']:,}", _sizes(row["recordsPerBatch"], "{:,}".format, " a batch")),
        *_counts(row, ("controlRecords", "control records")),
    ]
    facts = _content_facts(row) + _share_facts(row) + _header_facts(row) + _offset_facts(row)
    if row["batchesWithProducer"]:
        place = f"with ids, in {plural(row['batchesWithProducer'], 'batch', 'batches', ',')}"
        facts.append(Fact("producers", _distinct(row["producers"]), place))
        ends = f"batches; commits: {row['commits']:,}, aborts: {row['aborts']:,}"
        facts += [fact._replace(more=ends) for fact in _counts(row, ("transactionalBatches", "transactional"))]
    facts += _counts(
        row, ("controlBatches", "control batches"), ("headerOnlyBatches", "header-only batches"),
        ("deleteHorizonBatches", "with delete horizon"),
    )  # fmt: skip
    for code, times in row["problems"].items():
        facts.append(Fact(code, f"{times:,}", "batches; their records are not counted above", "red"))
    if row["damagedRanges"]:
        shown = f"{plural(row['damagedRanges'], 'range', 'ranges', ',')}, {shown_bytes(row['damagedBytes'])}"
        kinds = ", ".join(f"{code} {times:,}" for code, times in row["damage"].items())
        facts += [Fact("damage", shown, color="red"), Fact("", kinds, color="red")]
    else:
        facts.append(Fact("damage", "none"))
    if row["cleaner"] is not None:
        facts.append(Fact("log cleaner", "", on_one_line(row["cleaner"]["state"])))
    for each in (row.get("groups") or ())[:_SHOWN_GROUPS]:
        text = f"{plural(each['records'], 'record', 'records', ',')} of group {on_one_line(name_of(each['group']))}"
        facts.append(Fact("group", shown_bytes(each["bytes"]), text))
    return counted, facts


def _counts(row: Row, *labels: tuple[str, str]) -> list[Fact]:
    """Returns the numbers of these fields that are not 0."""
    return [Fact(label, f"{row[name]:,}") for name, label in labels if row[name]]


def _line(fact: Fact) -> str:
    return f"  {fact.label:<{_LABEL_WIDTH}}{fact.number:<11} {fact.more}".rstrip()


def _sizes(sizes: Row | None, shown: Callable[[int], str], unit: str = "") -> str:
    if sizes is None:
        return ""
    if sizes["least"] == sizes["largest"]:
        return f"{shown(sizes['least'])}{unit or ' each'}"
    return f"{shown(sizes['least'])} to {shown(sizes['largest'])}, median {shown(sizes['median'])}{unit}"


def _distinct(number: Row) -> str:
    return f"{number['count']:,}" if number["isExact"] else f"~{number['count']:,}"


def _form_cells(form: Row) -> tuple[str, ...]:
    """Returns format, codec, batches, records, bytes and ratio."""
    ratio = ratio_of(form)
    numbers = f"{form['batches']:,}", f"{form['records']:,}", shown_bytes(form["bytes"])
    return form["format"], form["compression"], *numbers, "-" if ratio is None else f"{ratio:.2f}"


def _content_facts(row: Row) -> list[Fact]:
    if not row["records"]:
        return []
    keys, values = row["distinctKeys"], row["valueSize"]
    facts = []
    if keys["count"]:
        how = "" if keys["isExact"] else " (an estimate, 1 % off or so)"
        facts.append(Fact("different keys", _distinct(keys), _sizes(row["keySize"], shown_bytes) + how))
    if values is not None:
        facts.append(Fact("values", f"{values['count']:,}", _sizes(values, shown_bytes)))
    facts += _counts(row, ("nullKeys", "null keys"), ("emptyKeys", "empty keys"))
    if row["nullValues"] or row["emptyValues"]:
        tombstones = f"{row['tombstones']:,} of them tombstones" if row["nullValues"] else ""
        facts.append(Fact("null values", f"{row['nullValues']:,}", tombstones))
        facts.append(Fact("empty values", f"{row['emptyValues']:,}"))
    for label, largest in (("largest keys", row["largestKeys"]), ("largest records", row["largestRecords"])):
        for each in largest[:_LARGEST]:
            place = "" if each["offset"] is None else f"at offset {each['offset']}"
            facts.append(Fact(label, shown_bytes(each["bytes"]), place))
            label = ""
    return facts


def _share_facts(row: Row) -> list[Fact]:
    """Returns what the decompressed bytes are."""
    shares = (
        ("keys", row["keyBytes"], ""), ("values", row["valueBytes"], ""),
        ("headers", row["headerBytes"], "keys and values"),
        ("framing", row["framingBytes"], "lengths, times, control records"),
        ("batch headers", row["batchHeaderBytes"], ""),
    )  # fmt: skip
    total = sum(size for _, size, _ in shares)
    if not total:
        return []
    facts = [Fact("decompressed", shown_bytes(total), "of which are")]
    return facts + [
        Fact(f"  {label}", shown_bytes(size), f"{size / total:6.1%}  {what}".rstrip())
        for label, size, what in shares
        if size
    ]


def _header_facts(row: Row) -> list[Fact]:
    """Returns the commonest header keys."""
    distinct = row["distinctHeaderKeys"]["count"]
    if not distinct:
        return []
    keys = plural(distinct, "different key", "different keys")
    place = f"in {plural(row['recordsWithHeaders'], 'record', 'records', ',')}; {keys}"
    facts = [Fact("headers", f"{row['headers']:,}", place)]
    for each in row["headerKeys"][:_SHOWN]:
        key = clipped(on_one_line(name_of(each["key"])), _KEY_WIDTH)
        facts.append(Fact(f"  {key}", f"{each['count']:,}", shown_bytes(each["bytes"])))
    if row["otherHeaders"]:
        more = f"{shown_bytes(row['otherHeaderBytes'])}; beyond the first {distinct:,}"
        facts.append(Fact("  uncounted keys", f"{row['otherHeaders']:,}", more))
    return facts


def _offset_facts(row: Row) -> list[Fact]:
    facts = []
    if row["firstOffset"] is not None:
        facts.append(Fact("offsets", f"{row['firstOffset']} to {row['lastOffset']}"))
        gaps = f"in {plural(row['gaps'], 'gap', 'gaps', ',')}" if row["gaps"] else ""
        facts.append(Fact("missing offsets", f"{row['missingOffsets']:,}", gaps))
    facts += _counts(row, ("offsetsNotRising", "offsets not rising"))
    if (first := row["leastTimestamp"]) is not None:
        last, rate = row["maxTimestamp"], records_per_hour(row)
        facts.append(Fact("times", f"{shown_time(first)} to {shown_time(last)}"))
        shown = "" if rate is None else f"{rate:,.{int(rate < 10)}f} records an hour"
        facts.append(Fact("", show_span(last - first), shown))
    return facts


def savings_lines(savings: Sequence[Saving], paint: Paint) -> list[str]:
    """Returns the savings of one codec as sentences, of several as a table."""
    if len(savings) < 2:
        return [line for saving in savings for line in _saving_lines(saving, paint)]
    titles = f"    {'what if':10s} {'size':>11s} {'of now':>7s} {'speed':>12s}"
    lines = ["", paint(titles, bold=True), f"    {'now':10s} {shown_bytes(savings[0].before):>11s} {'100.0%':>7s}"]
    for saving in savings:
        share = f"{saving.after / saving.before:.1%}" if saving.before else "-"
        speed = saving.megabytes_per_second
        shown = "-" if speed is None else f"{speed:,.0f} MB/s"
        lines.append(f"    {saving.target!s:10s} {shown_bytes(saving.after):>11s} {share:>7s} {shown:>12s}")
    tried = savings[0]
    if not tried.is_exact:
        lines.append(f"    from {tried.sampled:,} of {tried.batches:,} batches")
    return lines


def total_line(savings: Sequence[Saving]) -> str:
    """Returns the sum over all directories for one codec."""
    before, after = (sum(getattr(saving, name) for saving in savings) for name in ("before", "after"))
    about = "" if all(saving.is_exact for saving in savings) else "about "
    share = f" ({abs(before - after) / before:.1%})" if before else ""
    verb = "save" if after <= before else "cost"
    return f"In all {len(savings)}: {savings[0].target} would {verb} {about}{shown_bytes(abs(before - after))}{share}"


def _saving_lines(saving: Saving, paint: Paint) -> list[str]:
    lines = ["", f"  {paint(f'what if {saving.target}', bold=True)}"]
    if not saving.batches:
        return [*lines, "    no batch can be recompressed"]
    if not saving.sampled:
        return [*lines, "    the sample holds no batch: take a larger one"]
    saved = saving.before - saving.after
    share = f"{abs(saved) / saving.before:.1%}" if saving.before else "0.0%"
    after = ("" if saving.is_exact else "about ") + shown_bytes(saving.after)
    verdict = f"{shown_bytes(abs(saved))} ({share}) {'saved' if saved >= 0 else 'more'}"
    verdict = paint(verdict, "green" if saved > 0 else "yellow")
    lines.append(f"    {shown_bytes(saving.before)} would become {after}: {verdict}")
    if saving.is_exact:
        lines.append(f"    all {saving.batches:,} batches were compressed; a broker's libraries differ a little")
    else:
        error = "" if saving.error is None else f", off by {shown_bytes(saving.error)} at most in 19 cases of 20"
        lines.append(f"    from {saving.sampled:,} of {saving.batches:,} batches{error}")
    if saving.untouched:
        lines.append(f"    {shown_bytes(saving.untouched)} would stay as they are")
    return lines


_BAR_WIDTH = 16


def summary_panel(row: Row, path: str, savings: Sequence[Saving], paint: Paint) -> str:
    """Returns the panel as text. A title is cut at the width of the terminal, so the whole path stands below it."""
    from rich.bar import Bar
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    counted, contained = summary_facts(row)
    head = [Text(on_one_line(path), overflow="fold"), Text(summary_size(row))]
    parts: list[Any] = [*head, Text(), _grid(counted), Text()]
    if row["forms"]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("format", "codec", "batches", "records", "bytes", "ratio", "share"):
            table.add_column(name, justify="left" if name in ("format", "codec", "share") else "right")
        total = sum(form["bytes"] for form in row["forms"]) or 1
        for form in row["forms"]:
            table.add_row(*_form_cells(form), Bar(total, 0, form["bytes"], width=_BAR_WIDTH, color="green"))
        parts += [table, Text()]
    parts.append(_grid(contained))
    parts += [Text.from_ansi(line) for line in savings_lines(savings, paint)]
    title = Text(on_one_line(os.path.basename(path) or path), "bold")
    return drawn(Panel(Group(*parts), title=title, title_align="left"), paint.is_on)


def _grid(facts: list[Fact]) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for fact in facts:
        number = f"{fact.number}  {fact.more}" if fact.more else fact.number
        grid.add_row(Text(fact.label, fact.color or "cyan"), Text(number, fact.color or ""))
    return grid
