"""Names carved logs after their partitions if the evidence decides; otherwise lists candidates.

A log has the name that --like gives it, or that of the internal topic whose records it holds. Other logs are compared
with the evidence about partitions: transactions whose markers they hold, and offsets at which a log or a segment begins
or ends, in checkpoints, in names of files in directories, and in commits of groups. An offset counts, in bits,
by how seldom another log would have it by chance. Neither may another partition fit the log nearly as well, nor another
log the partition.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice, pairwise
from math import comb, gcd, log2
from typing import Any

from kseg.carving import evidence
from kseg.carving.evidence import CarvedLog
from kseg.carving.image import SMALLEST_BLOCK_BYTES, Mended
from kseg.carving.side_files import Partition, SideFiles
from kseg.decoders import FOR_TOPIC, decoder
from kseg.decoders.schemas import STATUSES
from kseg.formats.control import parse_control
from kseg.formats.record_batch import LEADER_CHANGE, SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2
from kseg.kernel.scan.pieces import PIECE_LARGEST_MARKER
from kseg.node.coordinators import CommittedOffsets
from kseg.segment.files import METADATA_TOPIC, OFFSETS_TOPIC, snapshot_name
from kseg.sidefiles.hash_order import coordinator_hash
from kseg.stores.remote.recognition import is_topic

NAME_BITS = 7
"""The names that chance gives to the logs of an image are at most one in 128 images."""

TELLING_PARTITIONS = 64
"""An offset that is told of more partitions tells nothing."""

SHOWN_CANDIDATES = 5

CLOCK_SKEW_MS = 100
"""Clocks of brokers differ at most so far: a marker may be one of all transactions that ended so near to its time."""

KNOWN_MARKERS = 3 / 4
"""The part of a producer's markers that must fall into transactions that are known, or the clocks differ more."""

MOST_NEAR = 64
"""Of more transactions whose markers may stand between two times, none is known."""

TELLING_KEYS = 10
"""Comparisons of keys of one log after which the number of partitions that fits all of them is hardly too large."""

MAX_METADATA_BYTES = 64 << 20
"""A larger log of metadata is not read for names."""

MOST_SAMPLED = 1 << 16
"""Records by which topics of all logs are recognised; a few of each log, if there are more logs."""

READ_SHARE, LEAST_READ_BYTES = 64, 16 << 20
"""Of coordinators' logs, the newest records are read for names: so small a share of all logs, and so many bytes."""

_TRANSACTION_STATE = "__transaction_state"
_STATES = dict(enumerate(STATUSES))
_CERTAIN_BITS = 64.0


def name_logs(logs: list[CarvedLog], found: SideFiles) -> dict[str, str]:
    """Gives each log a topic and a partition, no two the same. Returns the topic ids that are known, by topic."""
    sampled = max(evidence.SAMPLED_VALUES, min(evidence.SAMPLED_RECORDS, MOST_SAMPLED // max(len(logs), 1)))
    for log in logs:  # by --like, or by the topic of its records, whose partition may remain to be found
        if log.log.like:
            log.topic, _, like_number = log.log.like.rpartition("-")
            log.partition, log.named_by = int(like_number), "like"
            continue
        log.topic, log.keys = evidence.internal_topic(log.runs, sampled)
        if not log.topic and any(run.summary[PIECE_LARGEST_MARKER] >= LEADER_CHANGE for run in log.runs):
            log.topic = METADATA_TOPIC  # no other log has such control records
        if log.topic:
            log.partition, log.named_by = 0 if log.topic == METADATA_TOPIC else -1, "records"
    _choose_newest(logs)
    topic_ids, partitions = _topics(logs, found)
    by_topic: dict[str, list[CarvedLog]] = defaultdict(list)
    for log in logs:
        if log.named_by == "records":
            by_topic[log.topic].append(log)
    for topic, of_topic in by_topic.items():
        _number(topic, of_topic, partitions.get(topic, 0), found)
    _give_snapshots([log for log in logs if log.topic == METADATA_TOPIC])
    _Matching(logs, found, by_topic).run()
    taken: set[str] = set()
    ranked = sorted(logs, key=lambda log: (log.stands_aside, log.named_by != "like", -log.size))
    number = 0
    for log in ranked:
        # A node reads its metadata from offset 0 or a snapshot on.
        begins_late = log.first_offset > 0 and not log.snapshots
        log.stands_aside |= log.topic == METADATA_TOPIC and (begins_late or log.runs[0][0].marker == SNAPSHOT_HEADER)
        if not log.topic or log.partition < 0 or log.stands_aside or log.directory in taken:
            number += 1
            log.stands_aside |= log.partition >= 0 and bool(log.topic)
            if log.topic and log.partition >= 0:
                log.candidates = [(log.topic, log.partition)]
            log.topic = f"{log.topic}.carved-{number:04}" if log.topic else f"carved-{number:04}"
            log.partition = max(log.partition, 0)
        taken.add(log.directory)
    return topic_ids


def _choose_newest(logs: list[CarvedLog]) -> None:
    """Chooses what is read of internal topics. Metadata are read as a whole: their last records do not name all."""
    left = max(LEAST_READ_BYTES, sum(log.size for log in logs) // READ_SHARE)
    internal = sorted((log for log in logs if log.named_by == "records"), key=lambda log: log.size)
    for number, log in enumerate(internal):
        if log.topic == METADATA_TOPIC:
            log.newest = log.runs if log.size <= MAX_METADATA_BYTES else []
        else:
            wanted = left // (len(internal) - number)
            for run in reversed(log.runs):  # the last batches, of about so many bytes
                if wanted <= 0:
                    break
                log.newest.insert(0, run.part(run.first_ending_behind(run.end - wanted, 0), len(run)))
                wanted -= run.byte_count
            left -= sum(run.byte_count for run in log.newest)


# Internal topics


def _give_snapshots(logs: list[CarvedLog]) -> None:
    """Gives logs of metadata the whole KRaft snapshots that end where a batch does: the only one with the snapshot's
    epoch, and the timestamp of the last batch in it that its header tells."""
    snapshots = {found: log for log in logs if (found := _last_batch_of_snapshot(log))}
    places: dict[tuple[int, int], list[tuple[CarvedLog, int]]] = defaultdict(list)
    for log in logs if snapshots else ():
        for run in log.runs if log.runs[0][0].marker != SNAPSHOT_HEADER else ():
            for time, epoch, last in zip(run.max_timestamps, run.epochs, run.lasts, strict=True):
                if (time, epoch) in snapshots:
                    places[time, epoch].append((log, last + 1))
    for (time, epoch), ends in places.items():
        if len(ends) == 1:
            log, end = ends[0]
            log.snapshots[snapshot_name(end, epoch)] = snapshots[time, epoch]


def _last_batch_of_snapshot(log: CarvedLog) -> tuple[int, int] | None:
    """Returns timestamp and epoch of the last batch in a KRaft snapshot; None if it is none, or not whole."""
    first, last = log.runs[0], log.runs[-1]
    if first[0].marker != SNAPSHOT_HEADER or last[-1].marker != SNAPSHOT_FOOTER or log.first_offset > 0 or log.gaps:
        return None
    with suppress(UndecodableError):
        for record in evidence.batch_of(first, 0, Scratch()):
            time = parse_control(record.key, record.value).fields.get("lastContainedLogTimestamp")
            return None if time is None else (time, first[0].epoch)
    return None


def _topics(logs: Iterable[CarvedLog], found: SideFiles) -> tuple[dict[str, str], dict[str, int]]:
    """Returns what the cluster's metadata tell: ids of topics, and their numbers of partitions."""
    ids: dict[str, list[str]] = defaultdict(list)
    numbers: dict[str, set[int]] = defaultdict(set)
    decode = decoder(FOR_TOPIC[METADATA_TOPIC]).decode
    for log in (log for log in logs if log.topic == METADATA_TOPIC):
        for record in evidence.records_of(log.newest):
            shown = decode(record.key, record.value, 0).value
            data = shown.get("data", {}) if isinstance(shown, dict) else {}
            if shown and shown.get("type") == "TOPIC_RECORD":
                ids[data["name"]].append(data["topicId"])
            elif shown and shown.get("type") == "PARTITION_RECORD":
                numbers[data["topicId"]].add(data["partitionId"])
    # A topic that was made anew has several: none is right for all logs, unless one directory is on this disk.
    likely = {topic: set(known) & found.topic_ids or set(known) for topic, known in ids.items()}
    only = {topic: next(iter(known)) for topic, known in likely.items() if len(known) == 1}
    return only, {topic: len(numbers[known[-1]]) for topic, known in ids.items()}


def _number(topic: str, logs: list[CarvedLog], count: int, found: SideFiles) -> None:
    """Finds the partitions of coordinators' logs: keys choose them by their hash, modulo the number of partitions.

    That number is the ``count`` of the metadata, else as many as checkpoints have from 0 on, else what the keys of each
    log have in common, if they are many. Without it the partition stays unknown.
    """
    hashes = [[coordinator_hash(key) for key in log.keys] for log in logs]
    steps = [one - two for values in hashes for one, two in pairwise(sorted(set(values)))]
    common = gcd(*steps)
    if not count:
        numbers = {number for told in found.told.values() for name, number in told if name == topic}
        count = len(numbers) if 1 < len(numbers) == max(numbers) + 1 else 0
    if not count and len(steps) >= TELLING_KEYS:
        count = common
    for log, values in zip(logs, hashes, strict=True):
        if count == 1:
            log.partition = 0
        elif count and values and common % count == 0:
            log.partition = values[0] % count


class _Transactions:
    """The partitions of transactions, by producer, with the times of its markers: (from, to, partitions)."""

    def __init__(self, logs: Iterable[CarvedLog]) -> None:
        self._of: dict[int, list[tuple[int, int, frozenset[Partition]]]] = defaultdict(list)
        for log in logs:
            self._add(log)
        for known in self._of.values():
            known.sort(key=lambda transaction: transaction[:2])
        self._longest = {producer: max(end - start for start, end, _ in known) for producer, known in self._of.items()}

    def _add(self, log: CarvedLog) -> None:
        """Markers are written after the record that prepares a transaction, and before the one that completes it."""
        decode = decoder(FOR_TOPIC[_TRANSACTION_STATE]).decode
        prepared: dict[str, tuple[int, dict[str, Any]]] = {}
        for record in evidence.records_of(log.newest):
            shown = decode(record.key, record.value, 0)
            told = shown.value.get("data", {}) if isinstance(shown.value, dict) else {}
            if not told or not isinstance(shown.key, dict) or record.timestamp is None:
                continue
            name, status = shown.key["data"]["transactionalId"], _STATES.get(told["transactionStatus"], "")
            if status.startswith("Prepare"):
                prepared[name] = record.timestamp, told
            elif status.startswith("Complete"):
                start, before = prepared.pop(name, (0, {}))
                if before and before["transactionStartTimestampMs"] == told["transactionStartTimestampMs"]:
                    written = before["transactionPartitions"] or ()
                    partitions = ((part["topic"], number) for part in written for number in part["partitionIds"])
                    first = frozenset(islice(partitions, TELLING_PARTITIONS + 1))
                    if all(is_topic(topic) and number >= 0 for topic, number in first):  # names become directories
                        self._of[before["producerId"]].append((start, record.timestamp, first))

    def candidates(self, log: CarvedLog) -> set[Partition] | None:
        """Returns the partitions to which all transactions whose markers the log holds have written; None if none of
        its transactions is known, or if what is known does not agree."""
        found: set[Partition] | None = None
        known = expected = 0
        markers = (
            (producer, time)
            for run in log.runs
            for attributes, producer, time in zip(run.attributes, run.producer_ids, run.max_timestamps, strict=True)
            if attributes & CONTROL and producer >= 0
        )
        for producer, time in markers if self._of else ():
            transactions = self._of.get(producer)
            if not transactions or not transactions[0][0] <= time <= transactions[-1][1]:
                continue
            expected += 1
            low = bisect_left(transactions, (time - self._longest[producer] - CLOCK_SKEW_MS,))
            high = bisect_right(transactions, time + CLOCK_SKEW_MS, key=lambda transaction: transaction[0])
            near = [each for each in transactions[low:high][:MOST_NEAR] if each[1] >= time - CLOCK_SKEW_MS]
            if high - low <= MOST_NEAR and any(start <= time <= end for start, end, _ in near):
                known += 1
                if all(len(each) <= TELLING_PARTITIONS for _, _, each in near):
                    partitions = {partition for _, _, each in near for partition in each}
                    found = partitions if found is None else found & partitions
        return found or None if known >= KNOWN_MARKERS * expected else None


class _Commits:
    """The offsets that groups have committed: ``ends`` by partition, above which a log reaches, and the leader epochs
    of the records before them."""

    def __init__(self, logs: Iterable[CarvedLog], found: SideFiles) -> None:
        self.ends: dict[Partition, int] = defaultdict(int)
        self._epochs: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
        scratch = Scratch()
        for log in logs:
            replay = CommittedOffsets()
            for run in log.newest:
                for i, rows in evidence.rows_of(run, scratch) if run.magic == MAGIC_V2 else ():
                    if rows is None:
                        replay.add(evidence.batch_of(run, i, scratch))
                    else:
                        replay.add_rows(rows)
            for topic, number, offset, epoch in replay.positions():
                if offset > 0:
                    partition = topic.decode("utf-8", "replace"), number
                    found.tell(partition, offset, "commits")
                    self.ends[partition] = max(self.ends[partition], offset)
                    if epoch is not None and len(self._epochs[partition]) < TELLING_PARTITIONS:
                        self._epochs[partition].append((offset - 1, epoch))

    def contradict(self, log: CarvedLog, partition: Partition) -> bool:
        """Whether the log has another leader epoch at an offset that a group has read of the partition."""
        return any(log.epoch_at(offset) not in (None, epoch) for offset, epoch in self._epochs.get(partition, ()))


# What is told of partitions


class _Matching:
    """Compares nameless logs with what is told of partitions."""

    def __init__(self, logs: list[CarvedLog], found: SideFiles, by_topic: dict[str, list[CarvedLog]]) -> None:
        self._transactions = _Transactions(by_topic.get(_TRANSACTION_STATE, ()))
        self._commits = _Commits(by_topic.get(OFFSETS_TOPIC, ()), found)
        self._told = found.told
        self._offsets: dict[Partition, list[int]] = defaultdict(list)
        for offset in sorted(found.told):
            for partition in found.told[offset]:
                self._offsets[partition].append(offset)
        self._logs = [log for log in logs if not log.stands_aside and (not log.topic or log.partition < 0)]

    def run(self) -> None:
        """Names the logs for which the evidence decides; the others get candidates."""
        enough = NAME_BITS + log2(len(self._logs) or 1)
        offers, of_partition = [], defaultdict(list)
        for log in self._logs:
            bits, matched = self._compare(log)
            ranked = sorted(bits, key=lambda partition: (-bits[partition], -matched[partition].total(), partition))
            told = [each for each in ranked if bits[each] > 0 or len(ranked) <= SHOWN_CANDIDATES]
            log.candidates = told[:SHOWN_CANDIDATES]
            for partition in ranked:
                of_partition[partition].append(bits[partition])
            if ranked:
                rival = bits[ranked[1]] if len(ranked) > 1 else 0.0
                offers.append((bits[ranked[0]], rival, ranked[0], log, matched[ranked[0]]))
        for bits_, rival, partition, log, found in offers:
            others = sorted(of_partition[partition], reverse=True)[1:2]
            is_certain = bits_ >= _CERTAIN_BITS and found["transactions"] > 0
            if bits_ >= enough and bits_ - max([rival, *others * (not is_certain)]) >= evidence.MARGIN_BITS:
                log.topic, log.partition = partition
                log.matched, log.candidates = found, []
                log.named_by = "transactions" if is_certain else found.most_common(1)[0][0]

    def _compare(self, log: CarvedLog) -> tuple[dict[Partition, float], dict[Partition, Counter[str]]]:
        """Returns the weight of each partition that the log may be of, and how often each source tells of it."""
        bits: dict[Partition, float] = defaultdict(float)
        matched: dict[Partition, Counter[str]] = defaultdict(Counter)
        allowed = self._transactions.candidates(log)
        # The offsets above 0 at which files begin, and the end unless its last batch is cut.
        begins = (run for run in log.runs if run.position % SMALLEST_BLOCK_BYTES == 0)
        edges = {run.first_offset for run in begins if run.first_offset > 0 and not isinstance(run.source, Mended)}
        if not log.runs[-1].is_cut_after:
            edges.add(log.next_offset)
        for offset in edges:
            told = self._told.get(offset, {})
            if len(told) <= TELLING_PARTITIONS:
                for partition in told:
                    is_allowed = allowed is None or partition in allowed
                    is_allowed &= not log.topic or log.topic == partition[0]
                    ends_early = offset == log.next_offset < self._commits.ends.get(partition, 0)
                    if is_allowed and not ends_early and not self._commits.contradict(log, partition):
                        matched[partition][told[partition]] += 1
                        known = self._offsets[partition]
                        near = bisect_left(known, 2 * offset) - bisect_left(known, offset // 2)
                        bits[partition] += evidence.offset_bits(offset, near)
        rivals = log2(len(self._offsets) if allowed is None else len(allowed)) if bits else 0.0
        for partition, found in matched.items():  # by chance any partition, and any of the offsets, might have matched
            bits[partition] -= rivals + log2(comb(len(edges), found.total()))
        for partition in allowed or () if len(allowed or ()) <= TELLING_PARTITIONS else ():
            matched[partition]["transactions"] += 1
            bits[partition] += _CERTAIN_BITS if len(allowed or ()) == 1 else 0.0
        return bits, matched
