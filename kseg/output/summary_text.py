"""The text form of a summary, and the facts that both it and the panel of a terminal show."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kseg.output.notices import on_one_line
from kseg.output.paint import Paint, clipped
from kseg.quantities import plural, shown_bytes, shown_time
from kseg.segment.recompression import Saving
from kseg.segment.summary import Distribution, Form, LogSummary
from kseg.segment.times import show_span

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


def summary_lines(
    summary: LogSummary, path: str, savings: Sequence[Saving], paint: Paint, cleaner: dict[str, Any] | None = None
) -> list[str]:
    """Returns the summary as text, at most 80 columns wide except for the path. ``cleaner``: see `cleaner_facts`."""
    counted, contained = summary_facts(summary)
    contained += cleaner_facts(cleaner)
    lines = [f"{paint(on_one_line(path), bold=True)}: {summary_size(summary)}", *map(_line, counted)]
    lines += _form_lines(summary.forms())
    lines += [paint(_line(fact), fact.color) if fact.color else _line(fact) for fact in contained]
    return lines + savings_lines(savings, paint)


def cleaner_facts(cleaner: dict[str, Any] | None) -> list[Fact]:
    """Returns the state of the log cleaner, from `SummaryPrinter`'s JSON."""
    return [] if cleaner is None else [Fact("log cleaner", "", on_one_line(cleaner["state"]))]


def summary_size(summary: LogSummary) -> str:
    """Returns the number of files, if there are several, and their size."""
    files = "" if summary.files == 1 else f"{summary.files} files, "
    return f"{files}{shown_bytes(summary.bytes)} ({summary.bytes:,} bytes)"


def summary_facts(summary: LogSummary) -> tuple[list[Fact], list[Fact]]:
    """Returns the facts above the table of formats (batches, records), and those below it."""
    count = summary.counters()
    counted = [Fact("batches", f"{count['batches']:,}", _sizes(summary.distribution("batch_sizes"), shown_bytes))]
    per_batch = _sizes(summary.distribution("record_counts"), "{:,}".format, " a batch")
    counted.append(Fact("records", f"{count['records']:,}", per_batch))
    if count["control_records"]:
        counted.append(Fact("control records", f"{count['control_records']:,}"))
    facts = _content_facts(summary, count) + _share_facts(summary) + _header_facts(summary, count)
    facts += _offset_facts(summary, count) + _producer_facts(summary, count)
    for name, label in (
        ("control", "control batches"), ("header_only", "header-only batches"),
        ("with_delete_horizon", "with delete horizon"),
    ):  # fmt: skip
        if count[name]:
            facts.append(Fact(label, f"{count[name]:,}"))
    for code, times in sorted(summary.problems.items()):
        facts.append(Fact(code, f"{times:,}", "batches; their records are not counted above", "red"))
    if summary.damaged_ranges:
        shown = f"{plural(summary.damaged_ranges, 'range', 'ranges', ',')}, {shown_bytes(summary.damaged_bytes)}"
        kinds = ", ".join(f"{code} {times:,}" for code, times in sorted(summary.damage.items()))
        facts += [Fact("damage", shown, color="red"), Fact("", kinds, color="red")]
    else:
        facts.append(Fact("damage", "none"))
    return counted, facts


def _line(fact: Fact) -> str:
    return f"  {fact.label:<{_LABEL_WIDTH}}{fact.number:<11} {fact.more}".rstrip()


def _sizes(sizes: Distribution | None, shown: Callable[[int], str], unit: str = "") -> str:
    if sizes is None:
        return ""
    if sizes.least == sizes.largest:
        return f"{shown(sizes.least)}{unit or ' each'}"
    return f"{shown(sizes.least)} to {shown(sizes.largest)}, median {shown(sizes.median)}{unit}"


def _form_lines(forms: list[Form]) -> list[str]:
    if not forms:
        return []
    lines = ["", f"  {'format':<7}{'codec':<9}{'batches':>12}{'records':>14}{'bytes':>12}{'ratio':>8}"]
    for form in forms:
        ratio = "-" if form.ratio is None else f"{form.ratio:.2f}"
        size = shown_bytes(form.bytes)
        codec = form.compression
        lines.append(f"  {form.format:<7}{codec:<9}{form.batches:>12,}{form.records:>14,}{size:>12}{ratio:>8}")
    return [*lines, ""]


def _content_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    if not count["records"]:
        return []
    keys = summary.distinct_keys()
    facts = []
    if keys.count:
        number = f"{keys.count:,}" if keys.is_exact else f"~{keys.count:,}"
        how = "" if keys.is_exact else " (an estimate, 1 % off or so)"
        facts.append(Fact("different keys", number, _sizes(summary.distribution("key_sizes"), shown_bytes) + how))
    values = summary.distribution("value_sizes")
    if values is not None:
        facts.append(Fact("values", f"{values.count:,}", _sizes(values, shown_bytes)))
    for name, label in (("null_keys", "null keys"), ("empty_keys", "empty keys")):
        if count[name]:
            facts.append(Fact(label, f"{count[name]:,}"))
    if count["null_values"] or count["empty_values"]:
        tombstones = f"{count['tombstones']:,} of them tombstones" if count["null_values"] else ""
        facts.append(Fact("null values", f"{count['null_values']:,}", tombstones))
        facts.append(Fact("empty values", f"{count['empty_values']:,}"))
    for label, of_records in (("largest keys", False), ("largest records", True)):
        for size, offset in summary.largest(of_records)[:_LARGEST]:
            facts.append(Fact(label, shown_bytes(size), "" if offset is None else f"at offset {offset}"))
            label = ""
    return facts


def _share_facts(summary: LogSummary) -> list[Fact]:
    """Returns what the decompressed bytes are."""
    shares = summary.shares()
    if not shares.total:
        return []
    facts = [Fact("decompressed", shown_bytes(shares.total), "of which are")]
    for label, size, what in (
        ("keys", shares.keys, ""), ("values", shares.values, ""), ("headers", shares.headers, "keys and values"),
        ("framing", shares.framing, "lengths, times, control records"),
        ("batch headers", shares.batch_headers, ""),
    ):  # fmt: skip
        if size:
            facts.append(Fact(f"  {label}", shown_bytes(size), f"{size / shares.total:6.1%}  {what}".rstrip()))
    return facts


def _header_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    """Returns the commonest header keys."""
    names = summary.header_keys()
    if not names:
        return []
    keys = plural(len(names), "different key", "different keys")
    facts = [
        Fact(
            "headers", f"{count['headers']:,}", f"in {plural(count['with_headers'], 'record', 'records', ',')}; {keys}"
        )
    ]
    for name in names[:_SHOWN]:
        key = clipped(on_one_line(name.key.decode(errors="surrogateescape")), _KEY_WIDTH)
        facts.append(Fact(f"  {key}", f"{name.count:,}", shown_bytes(name.bytes)))
    if count["other_headers"]:
        size = shown_bytes(count["other_header_bytes"])
        facts.append(
            Fact("  uncounted keys", f"{count['other_headers']:,}", f"{size}; beyond the first {len(names):,}")
        )
    return facts


def _offset_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    facts = []
    if count["has_offset"]:
        facts.append(Fact("offsets", f"{count['first_offset']} to {count['last_offset']}"))
        gaps = f"in {plural(count['gaps'], 'gap', 'gaps', ',')}" if count["gaps"] else ""
        facts.append(Fact("missing offsets", f"{count['missing_offsets']:,}", gaps))
    if count["steps_back"]:
        facts.append(Fact("offsets not rising", f"{count['steps_back']:,}"))
    if count["with_timestamp"]:
        first, last = count["least_timestamp"], count["largest_timestamp"]
        facts.append(Fact("times", f"{shown_time(first)} to {shown_time(last)}"))
        rate = summary.records_per_hour()
        facts.append(
            Fact("", show_span(last - first), "" if rate is None else f"{rate:,.{int(rate < 10)}f} records an hour")
        )
    return facts


def _producer_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    if not count["with_producer"]:
        return []
    producers = summary.distinct_producers()
    number = f"{producers.count:,}" if producers.is_exact else f"~{producers.count:,}"
    facts = [Fact("producers", number, f"with ids, in {plural(count['with_producer'], 'batch', 'batches', ',')}")]
    if count["transactional"]:
        ends = f"commits: {count['commits']:,}, aborts: {count['aborts']:,}"
        facts.append(Fact("transactional", f"{count['transactional']:,}", f"batches; {ends}"))
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
