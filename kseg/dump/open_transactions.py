"""``kseg dump --open-transactions``: lists transactions without an end marker, or that stay prepared."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kseg.dump.options import JSON, DumpOptions
from kseg.errors import UnsupportedError
from kseg.formats.json_values import encode, name_value
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.logdir.coordinators import (
    HANGING,
    GroupOffset,
    GroupOffsets,
    Judged,
    Prepared,
    TransactionState,
    abort_command,
    judge,
    prepared,
    topic_id_at,
    waiting_groups,
    why_hanging,
)
from kseg.output.kafka_text import as_java_writes, name_bytes
from kseg.output.notices import COPIED_INDENT, on_one_line
from kseg.output.sink import Sink
from kseg.quantities import plural, shell_line
from kseg.segment.files import SegmentFile, list_segments
from kseg.segment.isolation import OpenTransactions, end_offset, newest_timestamp
from kseg.segment.times import show_span
from kseg.stores import trees

_SHOWN_GROUPS = 10
Place = tuple[str | None, int | None]


class StableOffset(NamedTuple):
    """The last stable offset of a partition, and the end of its log; None: it has no intact batch.

    ``groups``: see `waiting_groups`.
    """

    offset: int
    log_end: int | None
    groups: list[GroupOffset] | None = None

    @property
    def waiting(self) -> int | None:
        """Number of offsets that read_committed consumers do not get."""
        return None if self.log_end is None else max(0, self.log_end - self.offset)


def text_line(judged: Judged) -> str:
    """Returns one line similar to kafka-dump-log's."""
    transaction, state = judged.transaction, judged.state
    fields = {
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionalId": None if state is None else on_one_line(state.name),
        "state": None if state is None else state.state,
        "timeout": None if state is None or state.timeout_ms is None else show_span(state.timeout_ms),
        "firstOffset": transaction.first_offset,
        "firstTimestamp": transaction.first_timestamp,
        "age": None if judged.age_ms is None else show_span(judged.age_ms),
        "batches": transaction.batches,
        "verdict": judged.verdict,
    }
    return " ".join(f"{name}: {'none' if value is None else value}" for name, value in fields.items())


def conclusion(judged: Sequence[Judged], stable: StableOffset, place: Place) -> Iterator[str]:
    """Yields a line with the last stable offset, and the command that aborts each hanging transaction."""
    waiting = "none" if stable.waiting is None else stable.waiting
    groups = "unknown" if stable.groups is None else len(stable.groups)
    yield (
        f"lastStableOffset: {stable.offset} logEndOffset: {stable.log_end} waitingOffsets: {waiting} "
        f"waitingGroups: {groups}"
    )
    for group in (stable.groups or ())[:_SHOWN_GROUPS]:
        before = f", {stable.offset - group.offset} offsets before it" if group.offset < stable.offset else ""
        yield f"waiting: {on_one_line(group.group)} at {group.offset}{before}"
    if stable.groups and len(stable.groups) > _SHOWN_GROUPS:
        yield f"waiting: {plural(len(stable.groups) - _SHOWN_GROUPS, 'more group', 'more groups')}"
    for each in judged:
        if each.verdict == HANGING:
            yield f"producer {each.transaction.producer_id}: {why_hanging(each.state, each.age_ms)}"
            yield "abort it, on a live cluster, with"
            yield COPIED_INDENT + shell_line(abort_command(*place, each.transaction.first_offset))


def prepared_text(prepared: Prepared) -> str:
    """Returns one line similar to `text_line`."""
    fields = prepared_fields(prepared)
    fields["transactionalId"] = on_one_line(prepared.state.name)
    for name, span in (("timeout", fields.pop("timeoutMs")), ("age", fields.pop("ageMs"))):
        fields[name] = None if span is None else show_span(span)
    return " ".join(f"{name}: {'none' if value is None else value}" for name, value in fields.items())


def prepared_fields(prepared: Prepared) -> dict[str, Any]:
    state = prepared.state
    return {
        "transactionalId": name_value(state.name), "producerId": prepared.producer_id,
        "producerEpoch": state.producer_epoch, "state": state.state, "timeoutMs": state.timeout_ms,
        "startTimestamp": state.start_ms, "updateTimestamp": state.update_ms, "ageMs": prepared.age_ms,
        "markerOffset": prepared.marker.offset,
    }  # fmt: skip


def prepared_json(prepared: Prepared, path: str, place: Place) -> bytes:
    """Returns one object. ``path``: the path given by the user."""
    at = {"file": name_value(path), "topic": name_value(place[0]), "partition": place[1]}
    return encode({"type": "preparedTransaction", **at, **prepared_fields(prepared)}) + b"\n"


def json_line(judged: Judged, stable: StableOffset, path: str, place: Place) -> bytes:
    """Returns one object. ``path``: the path given by the user."""
    transaction, state = judged.transaction, judged.state
    found: dict[str, Any] = {
        "type": "openTransaction",
        "file": name_value(path),
        "topic": name_value(place[0]),
        "partition": place[1],
        "transactionalId": None if state is None else name_value(state.name),
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "state": None if state is None else state.state,
        "timeoutMs": None if state is None else state.timeout_ms,
        "firstOffset": transaction.first_offset,
        "firstTimestamp": transaction.first_timestamp,
        "ageMs": judged.age_ms,
        "batches": transaction.batches,
        "verdict": judged.verdict,
        "lastStableOffset": stable.offset,
        "waitingOffsets": stable.waiting,
        "waitingGroups": None if stable.groups is None else [group.as_object() for group in stable.groups],
        "abort": abort_command(*place, transaction.first_offset),
    }
    return encode(found) + b"\n"


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
