"""Collects findings: shows a limited number for each file and code, and counts all."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.findings.table import DOUBTFUL, ERROR, INFO, KINDS, OFFLINE, REFUSED, WARNING, severity_of

SHOWN_PER_FILE = 100
"""Limit of findings of one code shown for one file; all are counted."""

Advance = Callable[[int], None]
"""Receives numbers of bytes read."""
Details = dict[str, Any]
NO_DETAILS: Details = {}


class Finding(NamedTuple):
    """One finding. ``position`` and ``length`` are bytes of ``file``, ``offset`` is Kafka's; None if not applicable.

    ``file`` is the path of a file or directory; ``severity`` is that of the table unless a rule
    gives another.
    ``details``: the fields of the finding's JSON object. `kseg.verification.repairs` adds
    ``repair``, a complete command, and ``needs``, one of NEEDS.

    >>> (finding,) = kseg.verify("crashed-0").findings
    >>> finding.code, finding.position, finding.details["recordCount"]
    ('crc-mismatch', 7129, 2)
    >>> finding.repair
    ['kseg', 'recover', '--mode', 'salvage', 'crashed-0']
    """

    code: str
    severity: str
    file: str
    position: int | None
    length: int | None
    offset: int | None
    message: str
    details: Details = NO_DETAILS
    repair: list[str] | None = None
    needs: str | None = None


@dataclass(slots=True)
class Totals:
    """Counts of checked files, bytes, batches and records, and of findings by severity, without ignored ones.

    ``not_judged``: files and directories that may be Kafka's and were not read; ``partitions``: the objects of
    `Census`, if they were asked for.
    """

    files: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    severities: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    not_judged: int = 0
    partitions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def errors(self) -> int:
        return self.severities[ERROR]

    @property
    def warnings(self) -> int:
        return self.severities[WARNING]

    @property
    def infos(self) -> int:
        return self.severities[INFO]

    def add(self, other: "Totals") -> None:
        """Adds the totals of another part of the same check."""
        self.files += other.files
        self.bytes += other.bytes
        self.batches += other.batches
        self.records += other.records
        self.not_judged += other.not_judged
        self.severities.update(other.severities)
        self.codes.update(other.codes)
        self.partitions += other.partitions


class RepairStep(NamedTuple):
    """A command that repairs findings of these codes."""

    argv: list[str]
    codes: list[str]


class Need(NamedTuple):
    """Findings of these codes at ``path`` that no command alone repairs; ``needs`` is one of NEEDS.

    ``argv``: the command that applies a decision, None if there is none; ``removed``: the intact records that it
    removes.
    """

    needs: str
    path: str
    codes: list[str]
    argv: list[str] | None
    removed: int = 0


class AssignedPartition(NamedTuple):
    """A partition that the cluster's metadata assign to a node, and the log directory, None if that is not known."""

    partition: str
    log_directory: str | None


class NodeStart(NamedTuple):
    """What the start of a node does with its log directories.

    ``starts`` is None if that is not known; ``because``: why it does not start, or why that is not known. The others
    are paths of partitions: scanned and cut where they are damaged, set aside as -stray (None: not known), deleted.
    ``deleted_files``: the number of files that it deletes in other partitions. ``creates``: the partitions of the node
    that no directory has, and that are created empty (None: not known); ``lacks``: those that are not, or may not be.
    ``releases``: those that accept the features of the cluster's metadata (None: not known).
    """

    log_directories: list[str]
    starts: bool | None
    because: list[str]
    recovers: list[str]
    sets_aside: list[str] | None
    deletes: list[str]
    deleted_files: int
    creates: list[AssignedPartition] | None
    lacks: list[AssignedPartition]
    releases: list[str] | None = None


class VoterState(NamedTuple):
    """A voter of the quorum; log end and last leader epoch of its metadata log, None if it is not given."""

    node: int
    log_end: int | None
    epoch: int | None


class CopyState(NamedTuple):
    """A node's copy of a partition. ``directory``: None if it has none; ``epoch``: that of the last records;
    ``in_sync``: whether the newest metadata let the node lead."""

    node: int
    directory: str | None
    log_start: int
    log_end: int
    epoch: int | None
    in_sync: bool


class LostRange(NamedTuple):
    """Offsets of the copy of ``node`` that go if ``leader`` leads. ``records``: their number, None if not counted;
    ``is_committed``: some were committed for sure."""

    leader: int
    node: int
    first_offset: int
    last_offset: int
    records: int | None
    is_committed: bool


class PartitionState(NamedTuple):
    """A partition of which a start may lose records; ``outcome``: depends (on the leader), or lost."""

    topic: str
    partition: int
    copies: list[CopyState]
    outcome: str
    ranges: list[LostRange]


class NodeCopy(NamedTuple):
    """The copy of a node's log directories, compared with those of the other nodes.

    ``was_clean``: false for a copy of a running node, or after a crash. ``metadata_end``, ``newest_time``: end of its
    metadata log, and the time of the last record there in ms by the controller's clock; None if unknown.
    ``partitions_behind``: how many partitions end before another copy; ``offsets_behind``: by how many offsets at most.
    ``fits``: whether a start of all copies loses nothing because of this one; ``findings``: the codes that tell why it
    does not.
    """

    node: int
    log_directories: list[str]
    was_clean: bool
    metadata_end: int | None
    newest_time: int | None
    partitions_behind: int
    offsets_behind: int
    fits: bool
    findings: list[str]


class ClusterState(NamedTuple):
    """A cluster of which several nodes were checked. ``partitions``: those with a problem only.

    ``commands``: those after which the copies start and serve all that they have, in order; ``last_resort``: the one to
    run behind them if the voters that were not given, a majority, are gone; None if a majority was given.

    >>> (cluster,) = kseg.verify(["node1", "node2", "node3"]).clusters
    >>> cluster.nodes, cluster.partitions, [copy.fits for copy in cluster.copies]
    ([1, 2, 3], [], [True, True, True])
    """

    cluster_id: str
    nodes: list[int]
    voters: list[VoterState]
    partitions: list[PartitionState]
    copies: list[NodeCopy]
    commands: list[list[str]]
    last_resort: list[str] | None


def effect_of(finding: Finding) -> str:
    """Returns the effect on a node's start (`Kind.start`); the reason in its details may be another one."""
    effect, reason = KINDS[finding.code].start, finding.details.get("reason")
    return reason if effect and reason in (REFUSED, OFFLINE, DOUBTFUL) else effect


class Report:
    """Counts all findings, and passes those within the limits to ``show``, in order; passes numbers of bytes read to
    ``advance``.

    ``failures``: sentences about parts that could not be checked; the report is then not whole, as after
    ``was_interrupted``. ``steps``: the commands to run next; ``needs``: findings that no command alone repairs;
    `kseg.verification.repairs` sets both at the end. ``directories``: a `CheckedDirectory` for each log directory that
    was checked as a whole; ``starts``: the starts of their nodes, which `kseg.verification.log_directories` predicts
    at the end.
    """

    def __init__(
        self, show: Callable[[Finding], None], ignored: Collection[str] = (), advance: Advance = lambda _: None
    ) -> None:
        self.totals = Totals()
        self.failures: list[str] = []
        self.was_interrupted = False
        self.steps: list[RepairStep] = []
        self.needs: list[Need] = []
        self.directories: list[Any] = []
        self.absent: list[str] = []
        """Log directories of server.properties that do not exist."""
        self.effects: dict[tuple[str, str], Finding] = {}
        """The first finding of each effect (`Kind.start`) on a file."""
        self.starts: list[NodeStart] = []
        self.clusters: list[ClusterState] = []
        """The clusters of which several nodes were checked."""
        self.show, self.advance = show, advance
        self.ignored = frozenset(ignored)
        self._shown: Counter[tuple[str, str]] = Counter()
        self._unshown: Counter[tuple[str, str]] = Counter()

    def add(
        self,
        code: str,
        file: str,
        message: str,
        position: int | None = None,
        length: int | None = None,
        offset: int | None = None,
        severity: str | None = None,
        details: Details = NO_DETAILS,
        needs: str | None = None,
    ) -> None:
        """Adds a finding. ``needs``: replaces the table's repair."""
        if code in self.ignored:
            return
        severity = severity or severity_of(code)
        self.totals.severities[severity] += 1
        self.totals.codes[code] += 1
        if self._shown[file, code] >= SHOWN_PER_FILE:
            self._unshown[file, code] += 1
        else:
            self._shown[file, code] += 1
            self.show(Finding(code, severity, file, position, length, offset, message, details, None, needs))

    def more(self, code: str, file: str, count: int, severity: str | None = None) -> None:
        """Counts further findings of a code, which are not shown."""
        if count <= 0 or code in self.ignored:
            return
        self.totals.severities[severity or severity_of(code)] += count
        self.totals.codes[code] += count
        self._unshown[file, code] += count

    @property
    def is_whole(self) -> bool:
        """Whether everything requested was checked."""
        return not self.failures and not self.was_interrupted

    def take(self, totals: Totals, unshown: list[tuple[str, str, int]]) -> None:
        """Adds the counts of another report, whose findings were shown; ``unshown``: the result of that method."""
        self.totals.add(totals)
        for file, code, count in unshown:
            self._unshown[file, code] += count

    def unshown(self) -> list[tuple[str, str, int]]:
        """Returns (file, code, number) of findings that were counted and not shown, and clears them."""
        left = [(file, code, count) for (file, code), count in self._unshown.items()]
        self._shown.clear()
        self._unshown.clear()
        return left


COMPARED_FIELDS = ("key", "value", "headers", "timestamp")
"""Fields of records by which two logs can be compared whatever their offsets are."""
_FEW_DIFFERENT = 10
"""So many records that differ are no copy at other offsets."""


@dataclass(slots=True)
class Comparison:
    """The result for partition ``path`` against ``other``. Counts are of records; an offset is None if there is none.

    ``by``: the fields by which records were matched, none if it was by offset. Only then ``repeated_here`` and
    ``repeated_there`` (records that both have, but one more often) and ``out_of_order`` are counted.
    """

    path: str
    other: str
    same: int = 0
    different: int = 0
    only_here: int = 0
    only_there: int = 0
    agree_to: int | None = None
    diverge_at: int | None = None
    start_offsets: tuple[int | None, int | None] = (None, None)
    last_offsets: tuple[int, int] = (-1, -1)
    damaged_ranges: int = 0
    by: tuple[str, ...] = ()
    repeated_here: int = 0
    repeated_there: int = 0
    out_of_order: int = 0

    @property
    def has_own_offsets(self) -> bool:
        """Whether so much differs by offset that one may be a copy of the other's records at other offsets."""
        apart = not self.same and min(self.only_here, self.only_there) > 0
        return not self.by and (apart or self.different > max(self.same // 4, _FEW_DIFFERENT))

    @property
    def is_identical(self) -> bool:
        """Whether each record of both is in the other, too; if they were matched by fields, in the same order."""
        counts = self.different, self.only_here, self.only_there, self.damaged_ranges
        return not any((*counts, self.repeated_here, self.repeated_there, self.out_of_order))


class CheckReporter:
    """Called in order while a verification runs. All methods are optional."""

    def begin(self, path: str) -> None:
        """The check of a path starts."""

    def advance(self, count: int) -> None:
        """``count`` more bytes were read."""

    def finding(self, finding: Finding) -> None:
        """A finding, with its repair."""

    def compared(self, comparison: Comparison) -> None:
        """Two replicas were compared."""

    def failed(self, message: str) -> None:
        """A part could not be checked; the check goes on."""

    def noted(self, message: str) -> None:
        """A note for the user."""

    def finish(self, report: Report) -> None:
        """The check ended, or was interrupted."""
