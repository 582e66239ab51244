"""``kseg transactions``: transactions without an end marker, or that stay prepared."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kseg.errors import PathError, UnsupportedError
from kseg.formats.json_values import fields_of, name_of, name_value
from kseg.formats.suffixes import LOG
from kseg.node import coordinators
from kseg.node.log_directory import topic_id_at
from kseg.node.node import Node
from kseg.options import declaration
from kseg.options.declaration import INPUT, JSON, TEXT, PathKind, option
from kseg.output.kafka_text import as_java_writes, text_bytes
from kseg.output.notices import COPIED_INDENT, Notices, on_one_line
from kseg.output.sink import Sink
from kseg.quantities import plural, shell_line, show_span
from kseg.segment.files import list_segments
from kseg.segment.isolation import OpenTransactions, end_offset, newest_timestamp
from kseg.segment.paths import segments_at
from kseg.stores.place import Place
from kseg.stores.remote.keys import is_wanted
from kseg.views.walk import PathWalk, WalkOptions

_SHOWN_GROUPS = 10
TopicAndNumber = tuple[str | None, int | None]


Row = dict[str, Any]


def open_row(judged: coordinators.Judged, where: Row, stable: Row, place: TopicAndNumber) -> Row:
    """Returns the object of an open transaction. ``where``: file, topic and partition; ``stable``: the last stable
    offset, and what waits behind it.
    """
    transaction, state = judged.transaction, judged.state
    return {
        "type": "openTransaction",
        **where,
        "transactionalId": None if state is None else name_value(state.name),
        **fields_of(transaction, "producer_id", "producer_epoch"),
        "state": None if state is None else state.state,
        "timeoutMs": None if state is None else state.timeout_ms,
        **fields_of(transaction, "first_offset", "first_timestamp"),
        "ageMs": judged.age_ms,
        "batches": transaction.batches,
        "verdict": judged.verdict,
        **stable,
        "abort": coordinators.abort_command(*place, transaction.first_offset),
    }


def prepared_row(prepared: coordinators.Prepared, where: Row) -> Row:
    """Returns the object of a prepared transaction. ``where``: as for `open_row`."""
    state, marker = prepared.state, prepared.marker
    return {
        "type": "preparedTransaction", **where, "transactionalId": name_value(state.name),
        "producerId": prepared.producer_id, "producerEpoch": state.producer_epoch, "state": state.state,
        "timeoutMs": state.timeout_ms, "startTimestamp": state.start_ms, "updateTimestamp": state.update_ms,
        "ageMs": prepared.age_ms, "markerOffset": None if marker is None else marker.offset,
    }  # fmt: skip


_OPEN_FIELDS = (
    "producerId", "producerEpoch", "transactionalId", "state", "timeout", "firstOffset", "firstTimestamp", "age",
    "batches", "verdict",
)  # fmt: skip
_PREPARED_FIELDS = (
    "transactionalId", "producerId", "producerEpoch", "state", "startTimestamp", "updateTimestamp", "markerOffset",
    "timeout", "age",
)  # fmt: skip


def conclusion(
    judged: Sequence[coordinators.Judged],
    stable: Row,
    log_end: int | None,
    groups: Sequence[coordinators.GroupOffset] | None,
    place: TopicAndNumber,
) -> Iterator[str]:
    """Yields a line with the last stable offset, and the command that aborts each hanging transaction."""
    first, waiting = stable["lastStableOffset"], stable["waitingOffsets"]
    yield (
        f"lastStableOffset: {first} logEndOffset: {log_end} waitingOffsets: {'none' if waiting is None else waiting} "
        f"waitingGroups: {'unknown' if groups is None else len(groups)}"
    )
    for group in (groups or ())[:_SHOWN_GROUPS]:
        before = f", {first - group.offset} offsets before it" if group.offset < first else ""
        yield f"waiting: {on_one_line(group.group)} at {group.offset}{before}"
    if groups and len(groups) > _SHOWN_GROUPS:
        yield f"waiting: {plural(len(groups) - _SHOWN_GROUPS, 'more group', 'more groups')}"
    for each in judged:
        if each.why:
            yield f"producer {each.transaction.producer_id}: {on_one_line(each.why)}"
        if each.verdict == coordinators.HANGING:
            yield "abort it, on a live cluster, with"
            yield COPIED_INDENT + shell_line(coordinators.abort_command(*place, each.transaction.first_offset))


@dataclass(frozen=True, slots=True)
class TransactionsOptions(WalkOptions):
    """The options of `kseg transactions`, one field each; ``now`` is in ms since the epoch."""

    state: str | None = option(
        "--transaction-state",
        INPUT,
        "The log directory with __transaction_state; default: the partition's.",
        PathKind(),
        metavar="DIR",
    )
    topics: tuple[str, ...] = declaration.topics()
    now: int | None = declaration.now("Compute ages at TIME; default: the newest timestamp.")
    form: str = declaration.form(TEXT, JSON)


class TransactionList(PathWalk[TransactionsOptions]):
    """One run over all paths."""

    _count = 0

    def __init__(self, sink: Sink, options: TransactionsOptions, notices: Notices | None = None) -> None:
        super().__init__(sink, options, notices)
        self._whole: dict[int, Node] = {}
        """The nodes whose log directories are given, and not only partitions of them; one for each cluster."""

    def run(self) -> int:
        """Lists the transactions of every path. Returns the highest exit status."""
        for path in self._paths:
            self._path(path)
        self._gone()
        if not self._count and not self.status:
            self.notices.warning("there are no open transactions")
        return self.status

    def _failed(self, error: object, status: int) -> None:
        self.sink.flush()
        super()._failed(error, status)

    def split_parts(self, path: str) -> tuple[list[str], list[str]]:
        return self.parts_of_topics(path, self.options.topics)

    def _log_directory(self, path: str) -> None:
        node = self.nodes.at(path)
        self._whole.setdefault(id(node.coordinators), node)

    def _part(self, path: str) -> None:
        """Lists the open transactions of one path, and those that stay prepared.

        The path is a partition directory or a segment; the markers may be in later segments. Raises
        PathError if a segment cannot be read, UnsupportedError for formats without transactions.
        """
        files, options = segments_at(path), self.options
        if options.state and not Place(options.state).is_dir():
            raise PathError(f"{options.state}: no such directory")
        logs = [file for file in files if file.kind in (LOG, "") and not file.leftover]
        if not logs:
            raise UnsupportedError(f"{path}: no .log files, so there are no transactions")
        if path != "-" and not Place(path).is_dir():
            beside = list_segments(Place(path).absolute.parent)
            names = [file.name for file in beside]
            if logs[0].name in names:
                logs = [file for file in beside[names.index(logs[0].name) :] if file.kind == LOG]
        transactions = OpenTransactions.of_segments(logs, self.scratch, options.live)
        found, now = transactions.found, options.now
        if not found and not transactions.markers:
            return
        partition = Place(logs[0].path).absolute.parent
        node = self.nodes.partition(partition).node
        known = (self.nodes.at(options.state) if options.state else node).coordinators
        states = known.transaction_states
        place = logs[0].topic, logs[0].partition
        where = {"file": name_value(path), "topic": name_value(place[0]), "partition": place[1]}
        if now is None and (found or coordinators.prepared(states, place, transactions, None)):
            now = newest_timestamp(logs, self.scratch)
        marked = coordinators.prepared(states, place, transactions, now)
        if marked:
            prepared = (prepared_row(each, where) for each in marked)
            self._show("Prepared transactions whose marker is here already: ", path, prepared, _PREPARED_FIELDS)
            if options.form != JSON:
                self.sink.put(
                    "their coordinator has not completed them: until it does, their producers cannot begin another one"
                )
        self._count += len(found) + len(marked)
        if not found:
            return
        judged = [coordinators.judge(each, states, place, now, known.knows_all) for each in found]
        judged = self._ended_elsewhere(path, judged)
        first = found[0].first_offset
        groups = coordinators.waiting_groups(node.coordinators.group_offsets, place, first, topic_id_at(partition))
        log_end = end_offset(logs, self.scratch)  # None: there is no intact batch
        stable = {
            "lastStableOffset": first,
            "waitingOffsets": None if log_end is None else max(0, log_end - first),
            "waitingGroups": None if groups is None else [group.as_object() for group in groups],
        }
        rows = (open_row(each, where, stable, place) for each in judged)
        self._show("Open transactions: ", path, rows, _OPEN_FIELDS)
        if options.form != JSON:
            for line in conclusion(judged, stable, log_end, groups, place):
                self.sink.put(line)

    def _ended_elsewhere(self, path: str, judged: list[coordinators.Judged]) -> list[coordinators.Judged]:
        """Returns the verdicts; a transaction whose marker is in a longer copy among the PATHs has ended."""
        if len(self.nodes.given) < 2 or not Place(path).is_dir():
            return judged
        from kseg.verification.copies import GivenCopies, RepairTarget  # few lists are of several nodes

        node, found = self.nodes.partition(path).node, []
        target = RepairTarget(path, Place(path).absolute.parent, node, GivenCopies(self.nodes))
        for each in judged:
            copy = target.ended_in(each.transaction.producer_id, each.transaction.first_offset)
            why = f"its marker is in the copy {copy}, from which this one is to fetch it"
            found.append(each if copy is None else each._replace(verdict=coordinators.ENDING, why=why))
        return found

    def _gone(self) -> None:
        """Lists the partitions without a marker of prepared transactions whose topics are deleted."""
        for node in self._whole.values():
            if node.topics is None or node.topics.lacking:
                continue
            for producer_id, state in sorted(node.coordinators.transaction_states.items()):
                is_ending = state.state in coordinators.ENDING_STATES
                for topic, number in sorted(state.partitions or ()) if is_ending else ():
                    if topic not in node.topics.ids and is_wanted(topic, self.options.topics):
                        self._gone_partition(node.directories[0].path, producer_id, state, topic, number)

    def _gone_partition(
        self, directory: str, producer_id: int, state: coordinators.TransactionState, topic: str, number: int
    ) -> None:
        self._count += 1
        if self.options.form == JSON:
            where = {"file": name_value(directory), "topic": name_value(topic), "partition": number}
            now, since = self.options.now, state.update_ms
            age_ms = None if now is None or since is None else now - since
            self.sink.put_row(prepared_row(coordinators.Prepared(producer_id, state, None, age_ms), where))
            return
        self.sink.put(
            f"{state.state} of transactional id {on_one_line(state.name)} (producer {producer_id}): no marker in "
            f"{on_one_line(topic)}-{number}, whose topic is deleted: the coordinator drops it when it loads its part "
            "of __transaction_state anew, as after a restart"
        )

    def _show(self, title: str, path: str, rows: Iterable[Row], fields: Sequence[str]) -> None:
        """Prints rows; as text their ``fields`` below the title, similar to kafka-dump-log's lines."""
        if self.options.form != JSON:
            self.sink.write(title.encode() + text_bytes(as_java_writes(path), self.sink.is_terminal) + b"\n")
        for row in rows:
            if self.options.form == JSON:
                self.sink.put_row(row)
                continue
            spans = {"timeout": row["timeoutMs"], "age": row["ageMs"]}
            shown = row | {key: None if ms is None else show_span(ms) for key, ms in spans.items()}
            if (name := row["transactionalId"]) is not None:
                shown["transactionalId"] = on_one_line(name_of(name))
            self.sink.put(" ".join(f"{key}: {'none' if shown[key] is None else shown[key]}" for key in fields))
