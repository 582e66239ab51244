"""``kseg dump --open-transactions``: lists transactions without an end marker, or that stay prepared."""

import os
from collections.abc import Callable, Mapping

from kseg.dump.options import JSON, DumpOptions
from kseg.dump.transaction_lines import (
    Place,
    StableOffset,
    conclusion,
    json_line,
    prepared_json,
    prepared_text,
    text_line,
)
from kseg.errors import UnsupportedError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.logdir.coordinators import (
    GroupOffsets,
    Prepared,
    TransactionState,
    judge,
    prepared,
    topic_id_at,
    waiting_groups,
)
from kseg.output.file_names import as_java_writes, name_bytes
from kseg.output.sink import Sink
from kseg.segment.files import SegmentFile, list_segments
from kseg.segment.isolation import OpenTransactions, end_offset, newest_timestamp
from kseg.stores import trees


def list_open(
    sink: Sink,
    path: str,
    files: list[SegmentFile],
    options: DumpOptions,
    scratch: Scratch,
    states_in: Callable[[str], Mapping[int, TransactionState]],
    groups_in: Callable[[str], GroupOffsets | None],
) -> int:
    """Lists the open transactions of one path, and those that stay prepared. Returns their number.

    The path is a partition directory or a segment; the markers may be in later segments. ``states_in`` returns the
    states in the __transaction_state of a log directory, by producer id, ``groups_in`` its committed offsets. Raises
    PathError if a segment cannot be read, UnsupportedError for formats without transactions.
    """
    logs = [file for file in files if file.kind in (LOG, "") and not file.leftover]
    if not logs:
        raise UnsupportedError(f"{path}: no .log files, so there are no transactions")
    if path != "-" and not trees.isdir(path):
        beside = list_segments(os.path.dirname(os.path.abspath(path)))
        names = [file.name for file in beside]
        if logs[0].name in names:
            logs = [file for file in beside[names.index(logs[0].name) :] if file.kind == LOG]
    transactions = OpenTransactions.of_segments(logs, scratch, options.live)
    found, now = transactions.found, options.now
    if not found and not transactions.markers:
        return 0
    partition = os.path.dirname(os.path.abspath(logs[0].path))
    around = os.path.dirname(partition)
    states = states_in(options.transaction_state or around)
    place = logs[0].topic, logs[0].partition
    marked = prepared(states, place, transactions, None)
    if (found or marked) and now is None:
        now = newest_timestamp(logs, scratch)
    marked = prepared(states, place, transactions, now)
    if marked:
        _show_prepared(sink, path, place, marked, options)
    if not found:
        return len(marked)
    judged = [judge(transaction, states, place, now) for transaction in found]
    first = found[0].first_offset
    groups = waiting_groups(groups_in(around), place, first, topic_id_at(partition))
    stable = StableOffset(first, end_offset(logs, scratch), groups)
    if options.form == JSON:
        for each in judged:
            sink.write(json_line(each, stable, path, place))
        return len(found) + len(marked)
    sink.write(b"Open transactions: " + name_bytes(as_java_writes(path), sink.is_terminal) + b"\n")
    for each in judged:
        sink.write(text_line(each).encode() + b"\n")
    for line in conclusion(judged, stable, place):
        sink.write(line.encode() + b"\n")
    return len(found) + len(marked)


def _show_prepared(sink: Sink, path: str, place: Place, marked: list[Prepared], options: DumpOptions) -> None:
    if options.form == JSON:
        for each in marked:
            sink.write(prepared_json(each, path, place))
        return
    head = b"Prepared transactions whose marker is here already: "
    sink.write(head + name_bytes(as_java_writes(path), sink.is_terminal) + b"\n")
    for each in marked:
        sink.write(prepared_text(each).encode() + b"\n")
    sink.write(b"their coordinator has not completed them: until it does, their producers cannot begin another one\n")
