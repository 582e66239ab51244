"""The HTML pages: of ``kseg verify``, and of commands that print rows: ``stats``, ``cluster``, ``retain --explain``,
every plan.

`FindingsPage` collects the findings, and makes the page at the end. The other commands print their JSON Lines into the
sink of `html_report`; the page shows these rows. Also makes the tables for notebooks.
"""

import json
import os
import time
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import islice
from struct import Struct
from typing import Any

from kseg import __version__
from kseg.errors import KsegError, UnsupportedError
from kseg.findings.table import ERROR, INFO, SEVERITIES, WARNING, texts_of
from kseg.formats.json_values import fields_of, name_value, row_of
from kseg.formats.suffixes import INDEX, LOG, TRANSACTION_INDEX
from kseg.kernel.layout import headers
from kseg.node.node import Nodes
from kseg.output import findings
from kseg.output.notices import Notices, on_one_line
from kseg.output.progress import Progress
from kseg.output.sink import MemorySink, Sink
from kseg.positioned import read_at
from kseg.quantities import plural, shell_line, shown_bytes, shown_time
from kseg.segment.files import SegmentFile, directory_name, file_names, list_segments, parse_partition_name
from kseg.segment.paths import expand_path, is_log_directory, some
from kseg.segment.seek import OFFSET_ENTRY, index_path
from kseg.sidefiles.indexes import TransactionIndex
from kseg.stores.place import Place
from kseg.verification.report import Comparison, Finding, Report

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


STATS, CLUSTER, RETENTION, PLAN = "stats", "cluster", "retention", "plan"
Row = dict[str, Any]


@contextmanager
def html_report(sink: Sink, kind: str, title: str, paths: Sequence[str]) -> Iterator[Sink]:
    """Yields a sink for the JSON Lines of a command, and writes the page of these rows to ``sink`` at the end.
    ``kind``: STATS, CLUSTER, RETENTION, PLAN."""
    printed = MemorySink()
    yield printed
    printed.flush()
    rows = [json.loads(line) for line in printed.data.splitlines() if line]
    make = {STATS: _stats, CLUSTER: _cluster, RETENTION: _retention, PLAN: _plan}[kind]
    names, data = [on_one_line(path) for path in paths], {"kind": kind, "rows": rows}
    verdict, tone, cards = make(rows)
    notes = [f"Not read: {on_one_line(failure)}" for failure in printed.failures]
    if notes and kind != PLAN:  # which tells the directories that have no plan
        verdict, tone = f"{verdict.rstrip('.')}. Not all could be read: see the notes.", "error"
    sink.write(page_bytes(Page(title, verdict, tone, names, cards, [], data, notes)))
    sink.flush()


Made = tuple[str, str, list[Card]]


def _stats(rows: list[Row]) -> Made:
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


def _cluster(rows: list[Row]) -> Made:
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
    total: Row = next((row for row in reversed(rows) if row["type"] == "summary"), {})
    counts = Counter[str](total.get("actions", {}))  # a directory that is made as a whole has no row
    damaged = sum(row["type"] == "damage" for row in rows)
    left_out = sum(row["intactRecords"] for row in rows if row["type"] == "leftOut")
    removed, missing = total.get("removedRecords", 0), total.get("missingOffsets", 0)
    compacted = sum(row["records"] - row["kept"] for row in rows if row["type"] == "compaction")
    cards = [
        Card.counted("directories", total.get("directories", 0)),
        Card.counted("file operations", counts.total()),
        *([Card.counted("damaged ranges", damaged, "error")] if damaged else []),
        *([Card.counted("missing offsets", missing, "error")] if missing else []),
        Card("intact records removed", f"{removed + compacted:,}", "error" if removed else ""),
        Card("bytes removed", shown_bytes(total.get("removedBytes", 0))),
        Card("bytes replaced", shown_bytes(total.get("replacedBytes", 0))),
        Card("bytes written", shown_bytes(total.get("newBytes", 0))),
        Card("disk space needed", shown_bytes(total.get("peakBytes", 0))),
    ]
    if failed := total.get("failed"):
        verdict = f"{plural(len(failed), 'directory', 'directories')} could not be planned."
        return f"{verdict} {_operations(counts)}" if counts else verdict, "error", cards
    if not counts:
        return "Nothing would change.", "good", cards
    verdict = _operations(counts)
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


def _operations(counts: Counter[str]) -> str:
    parts = ", ".join(f"{count:,} {action}" for action, count in sorted(counts.items()))
    return f"{plural(counts.total(), 'file operation', 'file operations', ',')} would be done: {parts}."


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


# The strip of a partition: its segments to scale, with their known offsets and times.
#
# Only names, sizes, checkpoints, indexes and a few batch headers are read, whatever the size of the logs.

MAX_ANCHORS = 240
"""Approximate limit of batches of a partition whose offset and time are read."""
MAX_SEGMENTS = 2000
"""Limit of segments of a partition that are drawn."""
MAX_ABORTED = 1000
"""Limit of aborted transactions of a partition that are drawn."""
MAX_TXNINDEX_BYTES = 1 << 20

_INT64 = Struct(">q")


def strip_of(directory: str, nodes: Nodes) -> dict[str, Any] | None:
    """Returns the strip of a partition directory; None if it cannot be listed or has no segment."""
    try:
        found = [file for file in list_segments(directory) if file.is_segment and not file.leftover]
    except (KsegError, OSError):
        return None
    drawn = found[:MAX_SEGMENTS]
    if not drawn:
        return None
    state = nodes.partition(directory).state
    max_anchors, segments = max(2, MAX_ANCHORS // len(drawn)), []
    for file in drawn:
        with suppress(KsegError, OSError), Place(file.path).open() as stream:
            size = os.fstat(stream.fileno()).st_size
            anchors = list(_anchors(stream.fileno(), file, size, max_anchors))
            row = {"name": name_value(file.name), "base": file.base_offset, "size": size, "anchors": anchors}
            segments.append(row)
    return {
        "segments": segments,
        "segmentsLeftOut": len(found) - len(drawn),
        "aborted": list(islice(_aborted(drawn), MAX_ABORTED)),
        **fields_of(state, "log_start_offset", "high_watermark", "recovery_point"),
    }


def _anchors(log: int, file: SegmentFile, size: int, max_anchors: int) -> Iterator[tuple[int, int, int | None]]:
    """Yields (position, offset, timestamp) of the first batch and of batches in the index, by rising position. The
    timestamp is the largest of a v2 batch, that of a v1 message, None if there is none."""
    positions = [0]  # with those of the .index, evenly spread; none if there is no usable index
    with suppress(KsegError, OSError), Place(index_path(file, INDEX)).open() as stream:
        count = os.fstat(stream.fileno()).st_size // OFFSET_ENTRY.size
        chosen = range(0, count, max(1, count // max_anchors))
        entries = [read_at(stream.fileno(), OFFSET_ENTRY.size, i * OFFSET_ENTRY.size) for i in chosen]
        positions += [OFFSET_ENTRY.unpack(data)[1] for data in entries if len(data) == OFFSET_ENTRY.size]
    last = -1
    for position in positions:
        if not last < position < size:
            continue
        header = read_at(log, headers.V2_HEADER_BYTES, position)
        if len(header) <= headers.V1_TIMESTAMP + _INT64.size:
            continue
        (offset,) = _INT64.unpack_from(header, headers.ENTRY_OFFSET)
        magic, stamp = header[headers.ENTRY_MAGIC], None
        if magic == headers.MAGIC_V2 and len(header) == headers.V2_HEADER_BYTES:
            (stamp,) = _INT64.unpack_from(header, headers.V2_MAX_TIMESTAMP)
        elif magic == 1:
            (stamp,) = _INT64.unpack_from(header, headers.V1_TIMESTAMP)
        if magic > headers.MAGIC_V2 or offset < 0:
            continue
        last = position
        yield position, offset, None if stamp is None or stamp < 0 else stamp


def _aborted(files: list[SegmentFile]) -> Iterator[tuple[int, int]]:
    """Yields (first offset, last offset) of aborted transactions, from the transaction indexes."""
    for file in files:
        try:
            with Place(index_path(file, TRANSACTION_INDEX)).open() as stream:
                data = stream.read(MAX_TXNINDEX_BYTES)
        except (KsegError, OSError):
            continue
        for entry in TransactionIndex(data):
            yield entry.first_offset, entry.last_offset


MAX_HEX_VIEWS = 2000
"""Limit of findings whose bytes are part of the page."""
MAX_FINDINGS = 50_000
"""Limit of findings that are part of the page; all are counted."""
MAX_STEPS = 50
"""Limit of commands that are listed as next steps."""
MAX_PLACES = 5
"""Limit of places that are named in one step."""
HEX_BEFORE, HEX_BYTES = 32, 160
"""Least number of bytes shown before a finding's position, if the file has them, and number of all bytes shown."""
_TRANSACTIONS = frozenset({"open-transaction", "hanging-transaction"})


class FindingsPage(findings.FindingsPrinter):
    """Collects all findings, and writes the page at the end. ``paths``: those of the command line; ``parts``: the
    partitions and files there that are checked.
    """

    def __init__(
        self, sink: Sink, notices: Notices, progress: Progress, paths: tuple[str, ...], parts: list[str], level: str,
        least: str = INFO,
    ) -> None:  # fmt: skip
        super().__init__(sink, notices, progress, least)
        self._paths, self._checked, self._level = paths, parts, level
        self._findings: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._counts: list[Counter[str]] = []
        self._lowest_open: dict[int, int] = {}
        self._comparisons: list[dict[str, Any]] = []
        self._hexes = self._left_out = 0

    def show(self, finding: Finding) -> None:
        # The partition or log directory of the finding, or the directory that holds the file
        file, holder = finding.file, Place(finding.file).parent or "."
        own = directory_name(file)
        if Place(file).is_dir() and (parse_partition_name(own) or _parts(file) not in ([], [file])):
            holder = file.rstrip("/") or file
        place = self._place(holder)
        self._counts[place][finding.severity] += 1
        if finding.code in _TRANSACTIONS and finding.offset is not None:
            self._lowest_open[place] = min(finding.offset, self._lowest_open.get(place, finding.offset))
        if len(self._findings) >= MAX_FINDINGS:
            self._left_out += 1
            return
        details = dict(finding.details)
        other, abort = details.pop("otherRepair", ()), details.pop("abort", None)
        row = findings.finding_row(finding) | {
            "place": place,
            "details": {name: name_value(each) if isinstance(each, str) else each for name, each in details.items()},
            "repair": shell_line(finding.repair or ()),
            "otherRepair": shell_line(other),
            "abort": shell_line(abort or ()),
            "needs": findings.NEEDED.get(finding.needs or ""),
        }
        if self._hexes < MAX_HEX_VIEWS and finding.severity != INFO and finding.position is not None:
            row["hex"], start = None, max(0, (finding.position - HEX_BEFORE) // 16 * 16)
            with suppress(KsegError, OSError), Place(finding.file).open() as stream:
                stream.seek(start)
                row["hex"] = {"start": start, "bytes": stream.read(HEX_BYTES).hex()}
                self._hexes += 1
        self._findings.append(row)

    def compared(self, comparison: Comparison) -> None:
        self._comparisons.append(findings.comparison_row(comparison))

    def finish(self, report: Report) -> None:
        for part in self._checked:
            if Place(part).is_dir():
                self._place(part)
        shown = {finding["code"] for finding in self._findings}
        data = {
            "kind": "verify",
            "partitions": self._partitions(report.totals.partitions),
            "findings": self._findings,
            "findingsLeftOut": self._left_out,
            "comparisons": self._comparisons,
            "nodeCopies": [copy for one in report.clusters for copy in findings.state_row(one)["copies"]],
            "losses": [
                {"partition": name_value(f"{one.topic}-{one.partition}"), "outcome": one.outcome} | row_of(lost)
                for cluster in report.clusters
                for one in cluster.partitions
                for lost in one.ranges
            ],
            "codes": {code: texts_of(code)._asdict() for code in shown},
            "omitted": [[name_value(file), code, count] for file, code, count in self.unshown(report)],
        }
        verdict, tone = _verdict(report, self._counts)
        notes = [f"Level of the check: {self._level}."]
        notes += [f"Start: {on_one_line(findings.start_text(start))}." for start in report.starts]
        notes += [f"{on_one_line(findings.cluster_text(cluster))}." for cluster in report.clusters]
        notes += [f"Not checked: {on_one_line(failure)}" for failure in report.failures]
        totals = report.totals
        cards = [
            Card.counted("errors", totals.errors, ERROR),
            Card.counted("warnings", totals.warnings, WARNING),
            Card.counted("infos", totals.infos, INFO),
            Card.counted("directories", len(self._counts)),
            Card.counted("files", totals.files),
            Card("size", shown_bytes(totals.bytes)),
            Card.counted("batches", totals.batches),
            Card.counted("records", totals.records),
        ]
        page = Page(
            "kseg verify", verdict, tone, [on_one_line(path) for path in self._paths],
            cards, _next_steps(report), data, notes,
        )  # fmt: skip
        self.progress.erase()
        self.sink.write(page_bytes(page))
        self.sink.flush()
        findings.show_totals(report, self.notices, self.least)

    def _place(self, directory: str) -> int:
        """Returns the number of a directory with findings, or of a partition without any."""
        if directory not in self._places:
            self._places[directory] = len(self._places)
            self._counts.append(Counter())
        return self._places[directory]

    def _partitions(self, census: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """``census``: the objects of `Census`, which tell what the log cleaner waits for."""
        nodes, found = Nodes(), []
        cleaners = {str(row["path"]): row["cleaner"]["state"] for row in census if row["cleaner"] is not None}
        for directory, place in self._places.items():
            counts = self._counts[place]
            row: dict[str, Any] = {
                "path": name_value(directory), "name": name_value(directory_name(directory)),
                "counts": [counts[severity] for severity in SEVERITIES],
                "strip": strip_of(directory, nodes) if _is_local(directory) else None,
                "cleaner": cleaners.get(directory),
            }  # fmt: skip
            if row["strip"] is None:
                row["note"] = _note(directory)
            else:
                row["strip"]["firstOpenOffset"] = self._lowest_open.get(place)
            found.append(row)
        return found


def _is_local(directory: str) -> bool:
    """Whether it is a directory of the system: the segments of an archive or store would have to be read once more."""
    place = Place(directory)
    return place.tree is None and place.is_dir()


def _note(directory: str) -> str:
    """Returns the reason why there is no strip. Names decide nothing: a log directory may be called data-1."""
    if not _is_local(directory):
        return "segments are drawn for local directories only"
    try:
        if is_log_directory(directory):
            return "log directory"
        leftovers = sorted(name for name in file_names(directory) if f"{LOG}." in name)
        return f"no segments but {some(leftovers)}" if leftovers else "no segments"
    except (KsegError, OSError):
        return "the directory cannot be read"


def _parts(path: str) -> list[str]:
    """Returns the partition directories of a path; [] for a file, an archive or an unreadable directory."""
    try:
        return [part for part in expand_path(path) if Place(part).is_dir()] if Place(path).is_dir() else []
    except (KsegError, OSError):
        return []


def _verdict(report: Report, counts: list[Counter[str]]) -> tuple[str, str]:
    totals = report.totals
    damaged = sum(1 for count in counts if count[ERROR])
    if totals.errors:
        where = f" in {plural(damaged, 'directory', 'directories')}" if damaged else ""
        text, tone = f"{plural(totals.errors, 'error', 'errors')}{where}: data is damaged or a broker would fail", ERROR
    elif totals.warnings:
        text, tone = f"No errors, {plural(totals.warnings, 'warning', 'warnings')}", WARNING
    else:
        text, tone = "No damage found", "good"
    if not report.is_whole:
        text += ". Not everything could be checked"
        tone = ERROR
    return f"{text}.", tone


def _next_steps(report: Report) -> list[NextStep]:
    alone = findings.of_no_cluster(report, report.steps)
    steps = [NextStep(shell_line(step.argv), f"for {', '.join(step.codes)}") for step in alone]
    for cluster in report.clusters:
        steps += [NextStep(shell_line(argv), findings.before_start(cluster)) for argv in cluster.commands]
        if cluster.last_resort:
            steps.append(NextStep(shell_line(cluster.last_resort), findings.only_if_gone(cluster)))
    if (more := len(steps) - MAX_STEPS) > 0:
        steps[MAX_STEPS:] = [NextStep("", f"{more} more commands, in the table of findings")]
    places_of: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for need in findings.of_no_cluster(report, report.needs):
        places_of[need.needs, *need.codes].append(on_one_line(need.path))
    for (name, *codes), places in places_of.items():
        others = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
        reason = f"{findings.NEEDED.get(name, 'a decision')} is needed for {', '.join(codes)} in "
        steps.append(NextStep("", reason + ", ".join(places[:MAX_PLACES]) + others))
    return steps
