"""Determines the repair of a finding: a complete command, or the decision or data that the user must supply.

The table of findings has the command of each code. Facts about the partition complete it: whether there are other
replicas, the topic's id, and how many intact records the command would remove. The commands for all findings of a
partition are merged. A command is for a log directory only if files of the log directory itself are wrong. Few findings
need the state of coordinators, or a dry run: these modules are imported on first use.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from kseg.changes.quarantine import FOLDER
from kseg.errors import KsegError
from kseg.findings.table import DECISION, ERROR, INFO, KINDS, REINDEX, REPLICA, SALVAGE, TOPIC_ID
from kseg.formats.suffixes import DELETED, SWAP
from kseg.node.log_directory import METADATA_PARTITION, topic_id_at
from kseg.node.node import Nodes
from kseg.quantities import named_path, plural, show_span
from kseg.segment import files as segment_files
from kseg.segment.files import LOG_DIRECTORY_FILES, directory_name, holds_segments
from kseg.segment.paths import some
from kseg.stores.place import Place
from kseg.verification.copies import GivenCopies, Options, RepairTarget
from kseg.verification.report import Finding, Need, RepairStep


def with_coordinator_facts(finding: Finding, target: RepairTarget) -> Finding:
    """Returns a finding of a transaction with facts of __transaction_state and __consumer_offsets: the transactional id
    of its producer, null if unknown; of an open transaction also its state, a verdict, and the groups that wait."""
    from kseg.node import coordinators

    details, texts = dict(finding.details), [finding.message]
    known = target.node.coordinators
    state = known.transaction_states.get(details["producerId"])
    details["transactionalId"] = None if state is None else state.name
    if state is not None:
        texts.append(f"its transactional id is {state.name}")
    if "ageMs" not in details:  # otherwise the transaction is open at the end of the log
        return finding._replace(message="; ".join(texts), details=details)
    topic, partition = name = target.partition or (None, None)
    verdict, why = coordinators.verdict_of(details["producerEpoch"], state, name, details["ageMs"], known.knows_all)
    ended_in = target.ended_in(details["producerId"], details["firstOffset"])
    if ended_in is not None:
        verdict = coordinators.ENDING
        texts.append(f"its marker is in the copy {ended_in}, from which this one is to fetch it")
    is_hanging = verdict == coordinators.HANGING
    details |= {
        "state": None if state is None else state.state,
        "timeoutMs": None if state is None else state.timeout_ms,
        "verdict": verdict,
        "abort": coordinators.abort_command(topic, partition, details["firstOffset"]) if is_hanging else None,
    }
    if state is not None and state.state is not None:
        timeout = "" if state.timeout_ms is None else f", timeout {show_span(state.timeout_ms)}"
        texts.append(f"state {state.state}{timeout}")
        if verdict == coordinators.ENDING and ended_in is None:
            texts.append("the coordinator is writing its markers")
    if "lastStableOffset" in details:
        topic_id = topic_id_at(target.path)
        groups = coordinators.waiting_groups(known.group_offsets, name, details["lastStableOffset"], topic_id)
        details["waitingGroups"] = None if groups is None else [group.as_object() for group in groups]
        waiting = plural(details["waitingOffsets"], "offset", "offsets")
        if groups:
            waiting += f" and {plural(len(groups), 'group', 'groups')}"
        texts.append(f"{waiting} waiting behind the last stable offset {details['lastStableOffset']}")
    if is_hanging:
        texts.append(why)
    return finding._replace(message="; ".join(texts), details=details)


def _is_partition(path: str) -> bool:
    try:
        return Place(path).is_dir() and (holds_segments(path) or (Place(path) / FOLDER).is_dir())
    except KsegError:
        return False


def _is_out_of_place(path: str) -> bool:
    """Whether a directory lies among a broker's partitions but is not named as one: it has to be moved away first."""
    if segment_files.parse_partition_name(directory_name(path)) is not None:
        return False
    try:
        root = os.path.dirname(os.path.abspath(path))
        return not LOG_DIRECTORY_FILES.isdisjoint(segment_files.file_names(root)) and not _is_log_directory(path)
    except KsegError:
        return False


def _is_log_directory(path: str) -> bool:
    try:
        return bool(LOG_DIRECTORY_FILES & set(segment_files.file_names(path)) or segment_files.list_partitions(path))
    except KsegError:
        return False


MAX_STEPS, MAX_PATHS = 10, 1000
"""Limit of commands that differ only in their partition; more are joined to commands with up to so many PATHs."""

_PLACEHOLDERS = ("UUID", "DIR")
_SALVAGE: Options = {"--mode": "salvage"}
_FULL: Options = {"--full": None}
_UNDELETE: Options = {"--undelete": None}
_SHOWN_ORDER = (
    "--undelete",
    "--mode",
    "--from-replica",
    "--full",
    "--drop-undecodable",
    "--rebuild-epochs",
    "--topic-id",
)
_OF_TRANSACTIONS = frozenset({
    "open-transaction", "hanging-transaction", "batch-outside-transaction", "coordinator-epoch-falls",
    "bad-control-record", "transaction-index-incomplete",
})  # fmt: skip
"""Findings about a producer's transaction."""
_OF_METADATA = frozenset({
    "bad-metadata-snapshot", "metadata-record-refused", "metadata-snapshot-mismatch", "broker-would-not-start",
})  # fmt: skip
"""Findings of the metadata log that a new snapshot repairs, where no other node has it."""
_OF_SNAPSHOTS = frozenset({"bad-metadata-snapshot", "metadata-snapshot-mismatch"})
_OF_ENDS = ("-beyond-end", "-copy-behind")
"""The last words of the codes that a lost end explains."""
_FOREIGN = "foreign-batches"
_ORDER = {"undo": 0, "restore": 1, "recover": 2, "reindex": 3}
"""The order of commands: side files are rebuilt after a recovery; a log directory comes after its partitions."""


@dataclass(slots=True)
class _Wanted:
    """A command for findings of one target."""

    target: RepairTarget
    verb: str
    options: Options = field(default_factory=dict)
    codes: dict[str, None] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """More PATHs: the other log directories of the node."""

    def add(self, options: Options, codes: Iterable[str]) -> None:
        self.options |= options
        self.codes.update(dict.fromkeys(codes))
        if "--from-replica" in self.options:
            self.options.pop("--mode", None)  # it salvages, too
        if "--mode" in self.options or "--from-replica" in self.options:
            self.options.pop("--full", None)  # salvage reads every segment


class Repairs:
    """Adds the repair to each finding, and collects the commands that repair all findings.

    ``others``: the nodes of the other replica that the check compares with.
    """

    def __init__(self, nodes: Nodes | None = None, others: Nodes | None = None) -> None:
        nodes = nodes or Nodes()
        self._server = nodes.server
        self._is_partition, self._is_log_directory = cache(_is_partition), cache(_is_log_directory)
        self._directory_of, self._target_at = cache(self._find_directory), cache(self._new_target)
        self._nodes, self._given = nodes, GivenCopies(nodes, others or Nodes())
        self._wanted: dict[tuple[str, str], _Wanted] = {}
        self._needs: dict[tuple[str, str, tuple[str, ...]], Need] = {}
        self._foreign: set[str] = set()
        """Partitions with batches of another one: their side files are evidence, so only a decision changes them."""
        self._odd: set[str] = set()
        """Partitions with findings that a lost end does not explain."""
        self._refused: set[str] = set()
        """Partitions that a broker does not load: only salvage changes these."""

    def target_of(self, file: str) -> RepairTarget | None:
        """Returns None for files that no command changes: a stream, an archive, a directory of other files."""
        return None if Place(file).tree is not None else self._holder_of(file)

    def _holder_of(self, file: str) -> RepairTarget | None:
        """As `target_of`, but also in an archive or store: what is known of it is known of its findings."""
        path = self._directory_of(file)
        return None if path is None or _is_out_of_place(path) else self._target_at(path)

    def _new_target(self, path: str) -> RepairTarget:
        root = path
        if self._is_partition(path):
            root = Place(path).without_slash.parent or os.path.normpath(Place(path) / "..")
        return RepairTarget(path, root, self._nodes.at(root), self._given)

    def _find_directory(self, file: str) -> str | None:
        """Returns the path or its parent, if it is a partition or log directory."""
        if file == "-" or "\0" in file:
            return None
        is_directory = Place(file).is_dir()
        if os.path.basename(file).startswith(segment_files.OWN_PREFIX) and is_directory:
            return Place(file).parent or "."
        if is_directory and (self._is_partition(file) or self._is_log_directory(file)):
            return Place(file).without_slash  # as for the files in it
        parent = Place(file).parent or "."
        if not Place(parent).is_dir():
            return None
        if self._is_partition(parent):
            return parent if segment_files.is_part_of_log(os.path.basename(file)) or not Place(file).is_file() else None
        is_own = os.path.basename(file) in LOG_DIRECTORY_FILES
        return parent if is_own and self._is_log_directory(parent) else None

    def path_of(self, finding: Finding) -> str:
        """Returns the path that a repair of the finding is for; its file if there is none."""
        target = self.target_of(finding.file)
        return target.path if target else finding.file

    def with_repairs(self, findings: Iterable[Finding]) -> list[Finding]:
        """Like `with_repair`, for all findings of one target. The repair of a damaged log is also that of its indexes,
        which a rebuild refuses until then."""
        findings = list(findings)
        for finding in findings:
            if finding.code == _FOREIGN and (target := self.target_of(finding.file)) is not None:
                self._foreign.add(target.path)
        # The file may be right, and the epoch of a batch wrong.
        if any(each.code == "leader-epoch-falls" and each.needs == DECISION for each in findings):
            findings = [
                each._replace(needs=DECISION) if each.code == "leader-epochs-mismatch" else each for each in findings
            ]
        repaired = [self.with_repair(finding) for finding in findings]
        of_log = [each for each in repaired if each.severity != INFO and KINDS[each.code].repair == SALVAGE]
        repair = next((each.repair for each in of_log if each.repair and not each.needs), None)
        errors = (each.details for each in of_log if each.needs == DECISION and each.severity == ERROR)
        decision = next((details for details in errors if "otherRepair" in details), None)
        for i, each in enumerate(repaired):
            if each.severity == INFO or not each.repair or each.repair[1] != "reindex":
                continue
            if repair is not None:
                repaired[i] = each._replace(repair=repair)
            elif decision is not None and (target := self.target_of(each.file)) is not None:
                self._wanted.pop((target.path, "reindex"), None)
                argv, removed = decision["otherRepair"], decision["removedRecords"]
                repaired[i] = self._deciding(each._replace(repair=None), target, argv, removed)
        return repaired

    def with_repair(self, finding: Finding) -> Finding:
        """Returns the finding with its ``repair`` and ``needs``; an alternative repair is added to its ``details``."""
        target = self.target_of(finding.file)
        if target is not None and finding.severity != INFO and not finding.code.endswith(_OF_ENDS):
            self._odd.add(target.path)
        if finding.code in _OF_TRANSACTIONS and "producerId" in finding.details:
            if (holder := self._holder_of(finding.file)) is not None:
                finding = with_coordinator_facts(finding, holder)
        kind = KINDS[finding.code]
        if finding.severity == INFO != kind.severity:
            return finding  # the rule found that nothing is wrong
        if finding.needs is not None:
            return self._needing(finding, finding.needs, target)
        if target is not None and target.is_metadata and (found := self._of_metadata(finding, target)):
            return found
        if target is not None and (found := self._of_disk(finding, target)):
            return found
        if not kind.repair and kind.needs == DECISION and "otherRepair" in finding.details:
            return self._needing(finding, DECISION, target, finding.details["otherRepair"])
        if not kind.repair or target is None:
            return self._needing(finding, kind.needs or (DECISION if kind.repair else None), target)
        if kind.repair == REINDEX and target.path.endswith("-delete"):  # a start removes it
            return finding
        # A start renames a .swap unchecked; only salvage removes a bad one.
        is_swap = kind.repair == REINDEX and finding.file.endswith(SWAP)
        verb, options = _parsed(SALVAGE if is_swap else kind.repair)
        needs = kind.needs
        if "expectedTopicId" in finding.details and not target.is_metadata:
            argv = _argv(verb, {"--topic-id": finding.details["expectedTopicId"]}, target.path)
            text = (
                f"{finding.message}: the records are those of another topic of this name, deleted before or of another "
                f"cluster; {' '.join(argv[:-1])} would make them those of the topic of today"
            )
            return self._deciding(finding._replace(message=text), target, argv)
        if needs == TOPIC_ID and (topic_id := target.topic_id) is not None:
            options, needs = options | {"--topic-id": topic_id}, None
        if "--from-replica" in options and (source := finding.details.get("other")) is not None:
            options, needs = options | {"--from-replica": source}, None
            # With findings that a lost end does not explain, the copies may have different records.
            is_odd = target.path in self._odd or any(need[:2] == (DECISION, source) for need in self._needs)
            if is_odd and finding.code == "leader-copy-behind" and not target.outcome(options).is_known:
                return self._deciding(finding, target, ["kseg", "verify", "--against", named_path(source), target.path])
        if target.is_07:
            if "--mode" in options and not kind.is_cut:
                return self._needing(finding, DECISION, target)
            options = {name: value for name, value in options.items() if name != "--mode"}
        elif kind.is_cut and ((source := target.source) is not None or target.may_be_cut):
            finding = finding._replace(details=finding.details | {"otherRepair": _argv(verb, options, target.path)})
            # A copy that was cut, and leads before it has fetched the rest, would cut the others.
            options = {"--from-replica": source} if source is not None else _FULL
        if any(value in _PLACEHOLDERS for value in options.values()):
            return self._needing(finding, needs, target)
        if target.path in self._foreign:
            verb, options, needs = "recover", dict(_SALVAGE), needs or DECISION
        removed = 0
        if verb == "recover":
            if "--from-replica" not in options and target.holds_only_copies:
                is_of_leftover = finding.code == "leftover-holds-data" and finding.file.endswith(DELETED)
                options = _UNDELETE if is_of_leftover else options | _UNDELETE
            if target.is_metadata and target.would_lose(options):
                return self._cutting(finding, target, options)
            options, removed = _least_removing(target, options, is_decided=needs == DECISION)
        if removed or needs == DECISION:
            return self._deciding(finding, target, _argv(verb, options, target.path), removed)
        return self._repaired(finding, target, verb, options)

    def _repaired(self, finding: Finding, target: RepairTarget, verb: str, options: Options) -> Finding:
        """Returns the finding with its command, which is added to those that repair all findings."""
        if finding.severity != INFO:
            wanted = self._wanted.setdefault((target.path, verb), _Wanted(target, verb))
            wanted.add(options, [finding.code])
        return finding._replace(repair=_argv(verb, options, target.path), needs=None)

    def _of_disk(self, finding: Finding, target: RepairTarget) -> Finding | None:
        """Returns a finding about a disk of a node whose repair only the node as a whole tells: meta.properties is
        written again, or the wrong copy of a partition is moved away; None for others."""
        if finding.code == "broker-would-not-start" and "otherRepair" in finding.details:
            return self._deciding(finding, target, finding.details["otherRepair"])
        node = target.node
        if "directoryId" not in finding.details or node.restored_properties(target.path) is None:
            return None
        first, *others = [one.path for one in node.directories]
        wanted = self._wanted.setdefault((first, "recover"), _Wanted(self._target_at(first), "recover"))
        wanted.others = tuple(others)
        wanted.add(_SALVAGE, [finding.code])
        argv = [*_argv("recover", _SALVAGE, first), *map(named_path, others)]
        return finding._replace(repair=argv, needs=None)

    def _of_metadata(self, finding: Finding, target: RepairTarget) -> Finding | None:
        """Returns a finding about the metadata log whose repair depends on the node's part in the quorum; None for
        others. A node that is not its only voter fetches again what its start cuts off, and does without a wrong
        snapshot; the only voter has a snapshot of what can be read. A hole would stop either."""
        is_snapshot_left = finding.code == "metadata-lost" and "hasSnapshots" in finding.details
        settings = ["--server-properties", named_path(self._server.path)] if self._server is not None else []
        argv = ["kseg", "quorum", "--rewrite", *settings, named_path(target.path)]
        if target.is_only_voter is not False and (finding.code in _OF_METADATA or is_snapshot_left):
            return self._deciding(finding, target, argv)
        kind = KINDS[finding.code]
        if finding.code in _OF_SNAPSHOTS and target.is_only_voter is False:
            from kseg.verification.metadata import start_without

            away = ["mv", named_path(finding.file), named_path(finding.file + DELETED)]
            if begins := start_without(finding.file):
                text = f"{finding.message}; renamed to {DELETED} it is out of the way: the node starts from {begins}"
                return self._deciding(finding._replace(message=text), target, away)
            text = f"{finding.message}; moved out of the log directory, {METADATA_PARTITION} is fetched from the others"
            return self._needing(finding._replace(message=text), kind.needs, target)
        if not kind.repair.startswith(SALVAGE):
            return None
        if target.is_only_voter is not False:
            return self._deciding(finding, target, argv)
        return self._cutting(finding, target, _FULL)

    def _cutting(self, finding: Finding, target: RepairTarget, options: Options) -> Finding:
        """Returns a finding of a metadata log that a recovery with these options cuts off. A voter that lacks what was
        committed elects a leader that lacks it, too: then a copy that has it fills the log, or it is a decision; of
        voters that are not given nothing is known, and a start cuts the log in the same way (KafkaMetadataLog takes
        none for clean)."""
        lost = "the end of the log"
        if target.may_be_cut or target.source is not None:
            options = options if target.may_be_cut else {"--from-replica": target.source}
            return self._repaired(finding, target, "recover", options)
        if (end := target.outcome(options).end) is not None:
            lost = f"offsets from {end} on"
        lost += ", which may be committed"
        argv = _argv("recover", options, target.path)
        if lacking := [str(number) for number in target.voters_not_given]:
            others = f"voter{'s'[: len(lacking) > 1]} {some(lacking)}"
            lost += f": give the log directories of {others}, too, or start this node once the others have a leader"
            if target.quorum is not None and len(lacking) == len(target.quorum.others):
                text = f"{finding.message}; as a start does, {' '.join(argv[:-1])} removes {lost}"
                return self._repaired(finding._replace(message=text), target, "recover", options)
        return self._deciding(finding, target, argv, target.outcome(options).removed, lost)

    def _deciding(
        self, finding: Finding, target: RepairTarget, argv: list[str], removed: int = 0, lost: str = ""
    ) -> Finding:
        """Returns a finding whose repair is a decision: ``argv`` would remove so many intact records; ``lost``: in
        words."""
        removed = finding.details.get("removedRecords", removed)
        if lost or removed:
            lost = lost or plural(removed, "record", "records")
            finding = finding._replace(message=f"{finding.message}; {' '.join(argv[:-1])} would remove {lost}")
        details = finding.details | {"removedRecords": removed, "otherRepair": argv}
        return self._needing(finding._replace(details=details), DECISION, target, argv)

    def _needing(
        self, finding: Finding, needs: str | None, target: RepairTarget | None, argv: list[str] | None = None
    ) -> Finding:
        """Returns the finding with its need, and notes the need of one that is no info."""
        if finding.severity == INFO:
            return finding._replace(needs=needs)
        path = target.path if target else finding.file
        command = tuple(argv or (KINDS[finding.code].repair,))
        removed = finding.details.get("removedRecords", 0)
        need = self._needs.setdefault((needs or "", path, command), Need(needs or "", path, [], argv, removed))
        if finding.code not in need.codes:
            need.codes.append(finding.code)
        if KINDS[finding.code].is_refused:
            found = target or self.target_of(Place(finding.file).parent or ".")
            self._refused.update([found.path] if found else ())
        return finding._replace(needs=needs)

    def needs(self) -> list[Need]:
        """Returns the findings that no command alone repairs, by need and path."""
        needs = [need for need in self._needs.values() if self._repairing(need) is None]
        return sorted(needs, key=lambda need: (need.needs, need.path))

    def _repairing(self, need: Need) -> _Wanted | None:
        """Returns the named command that also meets a need: it fills the partition from another replica, or does what
        a decision or a plain recovery that removes nothing would do."""
        wanted = self._wanted.get((need.path, "recover"))
        if wanted is None:
            return None
        if need.needs == REPLICA:
            return wanted if "--from-replica" in wanted.options else None
        named = _argv("recover", wanted.options, wanted.target.path)
        is_done = need.argv is not None and (need.argv[1:-1] == ["recover"] or need.argv == named)
        return wanted if is_done and need.needs == DECISION and not need.removed else None

    def steps(self) -> list[RepairStep]:
        """Returns the commands to run, in order."""
        for need in self._needs.values():
            if (repairing := self._repairing(need)) is not None:
                repairing.add({}, need.codes)
        loading: dict[tuple[str, str], _Wanted] = {}  # with salvage where no other command loads the partition
        for (path, verb), one in self._wanted.items():
            if path in self._refused and verb in ("recover", "reindex") and not one.target.is_metadata:
                options = one.options if verb == "recover" else {}
                salvage = loading.setdefault((path, "recover"), _Wanted(one.target, "recover", others=one.others))
                salvage.add(options | _SALVAGE, one.codes)
            else:
                loading[path, verb] = one
        # A recovery includes a rebuild of the side files of the segments that it scans, with --full of all segments.
        for path, verb in list(loading):
            recover = loading.get((path, "recover")) if verb == "reindex" else None
            if recover is None:
                continue
            is_full = recover.options.keys() >= _FULL.keys()
            if is_full or not (recover.target.is_metadata and recover.target.would_lose(_FULL)):
                rebuilt = loading.pop((path, verb))
                options = recover.options | _FULL
                if not is_full:
                    options, _ = _least_removing(rebuilt.target, options, is_decided=False)
                recover.add(options, rebuilt.codes)
        for (path, _), one in list(loading.items()):
            if one.options.keys() >= {"--undelete", "--from-replica"}:  # kseg restore takes no replica
                options, _ = _least_removing(one.target, _UNDELETE, is_decided=False)
                loading[path, "restore"] = _Wanted(one.target, "restore", options, one.codes)
                del one.options["--undelete"]
        covered = {(other, one.verb) for one in loading.values() for other in one.others}
        return list(_joined(one for key, one in loading.items() if key not in covered or one.others))


def _joined(wanted: Iterable[_Wanted]) -> Iterator[RepairStep]:
    """Yields the commands in order: a copy is repaired before others are filled from it. Those that differ only in
    their partition are joined if there are many."""
    wanted = list(wanted)
    sources = {one.options.get("--from-replica") for one in wanted}

    def order(one: _Wanted) -> tuple[bool, int, bool]:
        is_no_source = one.target.path not in sources
        return one.target.partition is None, _ORDER.get(one.verb, len(_ORDER)), is_no_source

    groups: dict[tuple[object, ...], list[_Wanted]] = defaultdict(list)
    for one in sorted(wanted, key=order):
        groups[*order(one), one.verb, *sorted(_shared(one).items())].append(one)
    for group in groups.values():
        size = 1 if len(group) <= MAX_STEPS else MAX_PATHS
        for start in range(0, len(group), size):
            first, *others = some = group[start : start + size]
            options = first.options if size == 1 else _shared(first)
            argv = _argv(first.verb, options, first.target.path)
            codes = dict.fromkeys(code for one in some for code in one.codes)
            paths = dict.fromkeys([*first.others, *(path for one in others for path in (one.target.path, *one.others))])
            yield RepairStep([*argv, *map(named_path, paths)], list(codes))


def _shared(wanted: _Wanted) -> Options:
    """Returns the options of a command for several partitions: copies come from a log directory."""
    source, name = wanted.options.get("--from-replica"), os.path.basename(wanted.target.path)
    if source is None or os.path.basename(source) != name or not (root := Place(source).parent):
        return wanted.options
    return wanted.options | {"--from-replica": root}


def _least_removing(target: RepairTarget, options: Options, is_decided: bool) -> tuple[Options, int]:
    """Returns the options of a recovery that removes no intact records, if there are such, and the number it removes.

    Mode broker may cut intact records off if replicas in sync have them, and refuses a partition that a broker does not
    load. ``is_decided``: the user decides on this mode.
    """
    if "--from-replica" in options:
        return options, 0
    if target.partition is None:  # mode broker would change healthy partitions
        options = _as_salvage(options)
    elif "--mode" not in options and not is_decided and target.may_be_cut:
        return options, 0
    found = target.outcome(options)
    if (found.removed or found.is_refused) and not is_decided and "--mode" not in options and not target.is_07:
        salvage = _as_salvage(options)
        removed = target.outcome(salvage).removed
        if not removed or found.is_refused:
            return salvage, removed
    return options, found.removed


def _as_salvage(options: Options) -> Options:
    return {name: value for name, value in options.items() if name != "--full"} | _SALVAGE


def _parsed(repair: str) -> tuple[str, Options]:
    """Parses a repair of the table into command and options."""
    _, verb, *words = repair.split()
    options: Options = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            value = words[i + 1] if i + 1 < len(words) else "--"
            options[word] = None if value.startswith("--") else value
    return "recover" if verb == "restore" else verb, options


def _argv(verb: str, options: Options, path: str) -> list[str]:
    """Returns a command; a recovery that also takes deleted files back is `kseg restore`."""
    verb = "restore" if "--undelete" in options else verb
    names = sorted(options, key=lambda name: _SHOWN_ORDER.index(name) if name in _SHOWN_ORDER else len(_SHOWN_ORDER))
    words = [word for name in names for word in (name, options[name]) if word is not None]
    return ["kseg", verb, *words, named_path(path)]
