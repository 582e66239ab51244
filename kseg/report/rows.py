"""The HTML page, and the reports of commands that print rows: ``dump --summary``, ``--image``, ``retain --explain``,
every plan.

Such a command prints its JSON Lines into the sink of `html_report`; the page shows these rows. Also makes the tables
for notebooks.
"""

import json
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from kseg import __version__
from kseg.errors import UnsupportedError
from kseg.output.notices import on_one_line
from kseg.output.sink import MemorySink, Sink
from kseg.quantities import plural, shown_bytes, shown_time

# The page is a template with autoescape, style and script inside, and the data as JSON.
# Nothing that comes from a log is ever part of a script: names, keys and messages are JSON in a data block, and the
# script shows them as text only. A Content Security Policy allows only the page's own script and style, by their
# digests, so that no markup can run or load anything.

_STYLES = ("base.css", "parts.css", "layout.css")
_SCRIPTS = ("text.js", "lists.js", "strip.js", "verify.js", "rows.js", "start.js")
_LARGEST_EXACT = (1 << 53) - 1
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(slots=True)
class Card:
    """A figure at the head of the page. ``tone``: error, warning, info, good or "" for none."""

    label: str
    value: str
    tone: str = ""

    @classmethod
    def counted(cls, label: str, count: int, tone: str = "") -> "Card":
        """Returns a card with a count; it has the ``tone`` if the count is not 0."""
        return cls(label, f"{count:,}", tone if count else "")


@dataclass(slots=True)
class NextStep:
    """A command to run and its purpose; ``command`` is "" for other needs."""

    command: str
    reason: str


@dataclass(slots=True)
class Page:
    """``data`` is for the script: its ``kind`` is verify or a kind of rows. ``tone`` is the verdict's."""

    title: str
    verdict: str
    tone: str
    paths: Sequence[str]
    cards: list[Card]
    next_steps: list[NextStep]
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def page_bytes(page: Page) -> bytes:
    """Returns the whole page as UTF-8. Raises UnsupportedError if Jinja2 is not installed."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise UnsupportedError("--format html needs Jinja2: pip install 'kseg[report]'") from error
    folder = files("kseg.report") / "templates"
    style = "".join((folder / name).read_text("utf-8") for name in _STYLES)
    script = "".join((folder / name).read_text("utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'  # names of the script are its own
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in (style, script))
    style_digest, script_digest = (f"sha256-{digest}" for digest in digests)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "page.html").read_text("utf-8"))
    text = template.render(
        page=page,
        version=__version__,
        made_at=shown_time(int(time.time() * 1000)),
        style=Markup(style),  # the package's own files
        script=Markup(script),
        style_digest=style_digest,
        script_digest=script_digest,
        # JSON that is inert inside a script element: ASCII without markup
        data=Markup(json.dumps(_exact(page.data), separators=(",", ":")).translate(_ESCAPES)),
    )
    return text.encode("utf-8", "replace")


def _exact(value: Any) -> Any:
    """Returns the value; integers that JavaScript would round become text."""
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) > _LARGEST_EXACT else value


SUMMARY, IMAGE, RETENTION, PLAN = "summary", "image", "retention", "plan"
Row = dict[str, Any]


@contextmanager
def html_report(sink: Sink, kind: str, title: str, paths: Sequence[str]) -> Iterator[Sink]:
    """Yields a sink for the JSON Lines of a command, and writes the page of these rows to ``sink`` at the end.
    ``kind``: SUMMARY, IMAGE, RETENTION, PLAN."""
    printed = MemorySink()
    yield printed
    printed.flush()
    rows = [json.loads(line) for line in printed.data.splitlines() if line]
    make = {SUMMARY: _summary, IMAGE: _image, RETENTION: _retention, PLAN: _plan}[kind]
    names, data = [on_one_line(path) for path in paths], {"kind": kind, "rows": rows}
    verdict, tone, cards = make(rows)
    sink.write(page_bytes(Page(title, verdict, tone, names, cards, [], data)))
    sink.flush()


Made = tuple[str, str, list[Card]]


def _summary(rows: list[Row]) -> Made:
    found = [row for row in rows if row["type"] == "summary"]
    damaged = sum(row["damagedBytes"] for row in found)
    broken = sum(sum(row["problems"].values()) for row in found)
    old = sum(form["batches"] for row in found for form in row["forms"] if form["format"] != "v2")
    total = {name: sum(row[name] for row in found) for name in ("bytes", "batches", "records")}
    verdict = f"{plural(len(found), 'partition', 'partitions')}, {shown_bytes(total['bytes'])}"
    if damaged:
        verdict += f", {shown_bytes(damaged)} of it damaged"
    if broken:
        verdict += f", {plural(broken, 'batch', 'batches')} with wrong checksums or records"
    cards = [
        Card.counted("partitions", len(found)),
        Card("size", shown_bytes(total["bytes"])),
        Card.counted("batches", total["batches"]),
        Card.counted("records", total["records"]),
        Card("damaged", shown_bytes(damaged), "error" if damaged else ""),
        Card.counted("broken batches", broken, "error"),
        Card.counted("batches of v0 and v1", old, "info"),
    ]
    return f"{verdict}.", "error" if damaged or broken else "good", cards


def _image(rows: list[Row]) -> Made:
    heads = [row for row in rows if row["type"] == "metadataImage"]
    ends = [on_one_line(row["message"]) for row in rows if row["type"] == "imageEnd"]
    changes = Counter(row["change"] for row in rows if row["type"] == "imageChange")
    cards = [Card(f"records {change}", f"{count:,}") for change, count in sorted(changes.items())]
    for head in heads:
        cards += [Card.counted("offset", head['offset']), Card.counted("epoch", head['epoch']),
                  Card("metadata.version", head["metadataVersion"] or "unknown")]  # fmt: skip
    tables = (row for row in rows if row["type"] == "imageTable")
    topics = ", ".join(row["title"] for row in tables if row["columns"][0]["title"] == "TOPIC")
    verdict = plural(changes.total(), "record differs", "records differ", ",") if changes else topics or "No topics"
    return "; ".join(ends) or verdict, "error" if ends else "good", cards


def _retention(rows: list[Row]) -> Made:
    partitions = [row for row in rows if row["type"] == "retention"]
    before, after = (sum(row[name] for row in partitions) for name in ("bytes", "bytesAfter"))
    goes = sum(row["goes"] for row in partitions)
    cards = [
        Card.counted("partitions", len(partitions)),
        Card.counted("segments", sum(row["segments"] for row in partitions)),
        Card.counted("to be deleted", goes, "warning"),
        Card("size now", shown_bytes(before)),
        Card("size after", shown_bytes(after)),
    ]
    if not goes:
        return "Retention deletes nothing now.", "good", cards
    verdict = f"Retention deletes {plural(goes, 'segment', 'segments')}, {shown_bytes(before - after)}."
    return verdict, "warning", cards


def _plan(rows: list[Row]) -> Made:
    actions = [row for row in rows if row["type"] == "action"]
    total: Row = next((row for row in reversed(rows) if row["type"] == "summary"), {})
    counts = Counter(row["action"] for row in actions)
    damaged = sum(row["type"] == "damage" for row in rows)
    left_out = sum(row["intactRecords"] for row in rows if row["type"] == "leftOut")
    removed, missing = total.get("removedRecords", 0), total.get("missingOffsets", 0)
    compacted = sum(row["records"] - row["kept"] for row in rows if row["type"] == "compaction")
    cards = [
        Card.counted("directories", total.get("directories", 0)),
        Card.counted("file operations", len(actions)),
        *([Card.counted("damaged ranges", damaged, "error")] if damaged else []),
        *([Card.counted("missing offsets", missing, "error")] if missing else []),
        Card("records removed", f"{removed + compacted:,}", "error" if removed else ""),
        Card("bytes removed", shown_bytes(total.get("removedBytes", 0))),
        Card("bytes written", shown_bytes(total.get("newBytes", 0))),
        Card("disk space needed", shown_bytes(total.get("peakBytes", 0))),
    ]
    if not actions:
        return "Nothing would change.", "good", cards
    parts = ", ".join(f"{count:,} {action}" for action, count in sorted(counts.items()))
    verdict = f"{plural(len(actions), 'file operation', 'file operations', ',')} would be done: {parts}."
    if compacted:
        verdict = f"Compaction removes {plural(compacted, 'record', 'records', ',')}. {verdict}"
    harm = [
        plural(damaged, "damaged range", "damaged ranges") if damaged else "",
        f"{plural(left_out, 'intact record', 'intact records')} left out" if left_out else "",
        f"{plural(missing, 'offset', 'offsets')} missing" if missing else "",
    ]
    if any(harm):
        verdict = f"{', '.join(filter(None, harm))}. {verdict}"
    return verdict, "error" if removed or any(harm) else "info", cards


# Rows as an HTML table, for notebooks.

MAX_ROWS = 100
"""Rows that are shown; the others are counted."""


def html_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], failures: Sequence[str] = ()
) -> str:
    """Returns a table, or only the caption if there are no rows, and a list of failures. None is an empty cell."""
    lines, left_out = list[str](), 0
    for row in rows:
        if len(lines) < MAX_ROWS:
            lines.append(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>")
        else:
            left_out += 1
    if left_out:
        lines.append(f'<tr><td colspan="{len(columns)}">and {left_out} more</td></tr>')
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    table = f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{''.join(lines)}</table>"
    items = [f"<li>{_cell(failure)}</li>" for failure in failures[:MAX_ROWS]]
    if len(failures) > MAX_ROWS:
        items.append(f"<li>and {len(failures) - MAX_ROWS} more</li>")
    failed = f"<p>Failed:</p><ul>{''.join(items)}</ul>" if items else ""
    return (table if lines else f"<p>{escape(caption)}</p>") + failed


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text.encode("utf-8", "backslashreplace").decode())
