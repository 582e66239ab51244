"""``kseg dump --open-transactions``: lists transactions without an end marker."""

import os
from collections.abc import Callable

from kseg.dump.options import JSON, DumpOptions
from kseg.errors import UnsupportedError
from kseg.formats.rows import Scratch
from kseg.output.file_names import as_java_writes, name_bytes
from kseg.output.sink import Sink
from kseg.output.transactions import json_line, text_line
from kseg.segment.files import SegmentFile, list_segments
from kseg.segment.open_transactions import find_open, newest_timestamp
from kseg.stores import trees


def list_open(
    sink: Sink,
    path: str,
    files: list[SegmentFile],
    options: DumpOptions,
    scratch: Scratch,
    names_in: Callable[[str], dict[int, str]],
) -> int:
    """Lists the open transactions of one path. Returns their number.

    The path is a partition directory or a segment; the markers may be in later segments. ``names_in``: transactional
    ids by producer id in a log directory. Raises PathError if a segment cannot be read, UnsupportedError for formats
    without transactions.
    """
    logs = [file for file in files if file.kind in (".log", "") and not file.leftover]
    if not logs:
        raise UnsupportedError(f"{path}: no .log files, so there are no transactions")
    if path != "-" and not trees.isdir(path):
        beside = list_segments(os.path.dirname(os.path.abspath(path)))
        names = [file.name for file in beside]
        if logs[0].name in names:
            logs = [file for file in beside[names.index(logs[0].name) :] if file.kind == ".log"]
    found = find_open(logs, scratch, options.live)
    now = options.now
    if found and now is None:
        now = newest_timestamp(logs, scratch)
    transactional_ids = names_in(os.path.dirname(os.path.dirname(os.path.abspath(logs[0].path)))) if found else {}
    if options.form == JSON:
        for transaction in found:
            sink.write(json_line(transaction, now, path, logs[0], transactional_ids.get(transaction.producer_id)))
        return len(found)
    if found:
        sink.write(b"Open transactions: " + name_bytes(as_java_writes(path), sink.is_terminal) + b"\n")
    for transaction in found:
        sink.write(text_line(transaction, now, transactional_ids.get(transaction.producer_id)).encode() + b"\n")
    return len(found)
