"""Determines the repair of a finding: a complete command, or the decision or data that the user must supply.

The table of findings has the command of each code. Facts about the partition complete it: whether there are other
replicas, the topic's id, and how many intact records the command would remove. The commands for all findings of a
partition are merged. A command is for a log directory only if files of the log directory itself are wrong.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kseg.findings.table import DECISION, INFO, KINDS, REINDEX, REPLICA, SALVAGE, TOPIC_ID
from kseg.formats.suffixes import DELETED, SWAP
from kseg.logdir.log_directory import METADATA_PARTITION
from kseg.quantities import named_path, plural
from kseg.verification.report import Finding, Need, RepairStep

if TYPE_CHECKING:
    from kseg.logdir.server_properties import ServerProperties
    from kseg.verification.repair_targets import Options, RecoveryChecks, RepairTarget, RepairTargets


MAX_STEPS, MAX_PATHS = 10, 1000
"""Limit of commands that differ only in their partition; more are joined to commands with up to so many PATHs."""

_PLACEHOLDERS = ("UUID", "DIR")
_SALVAGE: "Options" = {"--mode": "salvage"}
_FULL: "Options" = {"--full": None}
_SHOWN_ORDER = ("--mode", "--from-replica", "--full", "--drop-undecodable", "--rebuild-epochs", "--topic-id")
_OF_TRANSACTIONS = frozenset({
    "open-transaction", "hanging-transaction", "batch-outside-transaction", "coordinator-epoch-falls",
    "bad-control-record", "transaction-index-incomplete", "transaction-index-wrong-entry",
})  # fmt: skip
"""Findings about a producer's transaction."""
_SNAPSHOT = "--metadata-snapshot"
_OF_METADATA = frozenset({
    "bad-metadata-snapshot", "metadata-record-refused", "metadata-snapshot-mismatch", "broker-would-not-start",
})  # fmt: skip
"""Findings of the metadata log that a new snapshot repairs, where no other node has it."""
_OF_SNAPSHOTS = frozenset({"bad-metadata-snapshot", "metadata-snapshot-mismatch"})
_FOREIGN = "foreign-batches"
_ORDER = ("undo", "recover", "reindex")
"""The order of commands: side files are rebuilt after a recovery; a log directory comes after its partitions."""


@dataclass(slots=True)
class _Wanted:
    """A command for findings of one target."""

    target: "RepairTarget"
    verb: str
    options: "Options" = field(default_factory=dict)
    codes: dict[str, None] = field(default_factory=dict)

    def add(self, options: "Options", codes: Iterable[str]) -> None:
        self.options |= options
        self.codes.update(dict.fromkeys(codes))
        if "--mode" in self.options:
            self.options.pop("--full", None)  # salvage reads every segment

    @property
    def argv(self) -> list[str]:
        return _argv(self.verb, self.options, self.target.path)


def recovery_checks(server: "ServerProperties | None" = None) -> "RecoveryChecks":
    """Returns the checks that decide what a recovery changes; most recoveries start without them."""
    from kseg.verification.repair_targets import RecoveryChecks

    return RecoveryChecks(server)


class Repairs:
    """Adds the repair to each finding, and collects the commands that repair all findings."""

    def __init__(self, server: "ServerProperties | None" = None) -> None:
        self._server = server
        self._opened_targets: RepairTargets | None = None
        self._wanted: dict[tuple[str, str], _Wanted] = {}
        self._needs: dict[tuple[str, str, tuple[str, ...]], Need] = {}
        self._foreign: set[str] = set()
        """Partitions with batches of another one: their side files are evidence, so only a decision changes them."""
        self._refused: set[str] = set()
        """Partitions that a broker does not load: only salvage changes these."""

    def _targets(self) -> "RepairTargets":
        if self._opened_targets is None:
            from kseg.verification.repair_targets import RepairTargets  # most runs find nothing to repair

            self._opened_targets = RepairTargets(self._server)
        return self._opened_targets

    def path_of(self, finding: Finding) -> str:
        """Returns the path that a repair of the finding is for; its file if there is none."""
        target = self._targets().target_of(finding.file)
        return target.path if target else finding.file

    def with_repairs(self, findings: Iterable[Finding]) -> list[Finding]:
        """Like `with_repair`, for all findings of one target. The repair of a damaged log is also that of its
        indexes."""
        findings = list(findings)
        for finding in findings:
            if finding.code == _FOREIGN and (target := self._targets().target_of(finding.file)) is not None:
                self._foreign.add(target.path)
        repaired = [self.with_repair(finding) for finding in findings]
        of_log = next((each.repair for each in repaired if each.repair and _repairs_log(each)), None)
        if of_log is None:
            return repaired
        return [
            each._replace(repair=of_log) if each.repair and each.repair[1] == "reindex" else each for each in repaired
        ]

    def with_repair(self, finding: Finding) -> Finding:
        """Returns the finding with its ``repair`` and ``needs``; an alternative repair is added to its ``details``."""
        target = self._targets().target_of(finding.file)
        if target is not None and finding.code in _OF_TRANSACTIONS and "producerId" in finding.details:
            from kseg.verification.repair_targets import with_coordinator_facts  # few findings are about transactions

            finding = with_coordinator_facts(finding, target)
        kind = KINDS[finding.code]
        if finding.severity == INFO != kind.severity:
            return finding  # the rule found that nothing is wrong
        if finding.needs is not None:
            return self._needing(finding, finding.needs, target)
        if target is not None and target.is_metadata and (found := self._of_metadata(finding, target)):
            return found
        if not kind.repair or target is None:
            return self._needing(finding, kind.needs or (DECISION if kind.repair else None), target)
        # A start renames a .swap unchecked; only salvage removes a bad one.
        is_swap = kind.repair == REINDEX and finding.file.endswith(SWAP)
        verb, options = _parsed(SALVAGE if is_swap else kind.repair)
        needs = kind.needs
        if needs == TOPIC_ID and (topic_id := target.topic_id) is not None:
            options, needs = options | {"--topic-id": topic_id}, None
        if "--from-replica" in options and "other" in finding.details:
            options, needs = options | {"--from-replica": finding.details["other"]}, None
        if target.is_07:
            if "--mode" in options and not kind.is_cut:
                return self._needing(finding, DECISION, target)
            options = {name: value for name, value in options.items() if name != "--mode"}
        elif kind.is_cut:
            other = _SALVAGE if target.has_other_replicas else _FULL
            options = _FULL if target.has_other_replicas else _SALVAGE
            finding = finding._replace(details=finding.details | {"otherRepair": _argv(verb, other, target.path)})
        if any(value in _PLACEHOLDERS for value in options.values()):
            return self._needing(finding, needs, target)
        if target.path in self._foreign:
            verb, options, needs = "recover", dict(_SALVAGE), needs or DECISION
        removed = 0
        if verb == "recover":
            options, removed = _least_removing(target, options, is_decided=needs == DECISION)
        argv = _argv(verb, options, target.path)
        if removed or needs == DECISION:
            return self._deciding(finding, target, argv, removed)
        finding = finding._replace(repair=argv, needs=needs)
        return self._needing(finding, needs, target) if needs else self._repaired(finding, target, verb, options)

    def _repaired(self, finding: Finding, target: "RepairTarget", verb: str, options: "Options") -> Finding:
        """Returns the finding, after adding its command to those that repair all findings."""
        if finding.severity != INFO:
            wanted = self._wanted.setdefault((target.path, verb), _Wanted(target, verb))
            wanted.add(options, [finding.code])
        return finding

    def _of_metadata(self, finding: Finding, target: "RepairTarget") -> Finding | None:
        """Returns a finding about the metadata log whose repair depends on the node's part in the quorum; None for
        others. A node that is not its only voter fetches again what its start cuts off, and does without a wrong
        snapshot; the only voter has a snapshot of what can be read. A hole would stop either."""
        is_snapshot_left = finding.code == "metadata-lost" and "hasSnapshots" in finding.details
        settings = ["--server-properties", named_path(self._server.path)] if self._server is not None else []
        argv = ["kseg", "recover", _SNAPSHOT, *settings, named_path(target.path)]
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
        if target.is_only_voter is False:
            finding = finding._replace(repair=_argv("recover", _FULL, target.path), needs=None)
            return self._repaired(finding, target, "recover", _FULL)
        return self._deciding(finding, target, argv)

    def _deciding(self, finding: Finding, target: "RepairTarget", argv: list[str], removed: int = 0) -> Finding:
        """Returns a finding whose repair is a decision: ``argv`` would remove so many intact records."""
        removed = finding.details.get("removedRecords", removed)
        if removed:
            lost = plural(removed, "record", "records")
            finding = finding._replace(message=f"{finding.message}; {' '.join(argv[:-1])} would remove {lost}")
        details = finding.details | {"removedRecords": removed, "otherRepair": argv}
        return self._needing(finding._replace(details=details), DECISION, target, argv)

    def _needing(
        self, finding: Finding, needs: str | None, target: "RepairTarget | None", argv: list[str] | None = None
    ) -> Finding:
        """Returns the finding with its need, and notes the need of one that is no info."""
        if finding.severity == INFO:
            return finding._replace(needs=needs)
        path = target.path if target else finding.file
        command = tuple(argv or finding.repair or (KINDS[finding.code].repair,))
        removed = finding.details.get("removedRecords", 0)
        need = self._needs.setdefault(
            (needs or "", path, command), Need(needs or "", path, [], argv or finding.repair, removed)
        )
        if finding.code not in need.codes:
            need.codes.append(finding.code)
        if KINDS[finding.code].is_refused:
            found = target or self._targets().target_of(os.path.dirname(finding.file) or ".")
            self._refused.update([found.path] if found else ())
        return finding._replace(needs=needs)

    def needs(self) -> list[Need]:
        """Returns the findings that no command alone repairs, by need and path."""
        needs = [need for need in self._needs.values() if self._repairing(need) is None]
        return sorted(needs, key=lambda need: (need.needs, need.path))

    def _repairing(self, need: Need) -> _Wanted | None:
        """Returns the named command that also supplies a need: it fills the partition from another replica, or does
        what a plain recovery would do, which removes nothing."""
        wanted = self._wanted.get((need.path, "recover"))
        if wanted is None:
            return None
        if need.needs == REPLICA:
            return wanted if "--from-replica" in wanted.options else None
        is_done = need.needs == DECISION and not need.removed and (need.argv or [])[1:-1] == ["recover"]
        return wanted if is_done else None

    def steps(self) -> list[RepairStep]:
        """Returns the commands to run, in order."""
        for need in self._needs.values():
            if (repairing := self._repairing(need)) is not None:
                repairing.add({}, need.codes)
        wanted = sorted(_without_lesser(self._loadable()), key=_step_order)
        return list(_joined(wanted))

    def _loadable(self) -> dict[tuple[str, str], _Wanted]:
        """Returns the commands, with salvage where no other command loads the partition."""
        found: dict[tuple[str, str], _Wanted] = {}
        for (path, verb), one in self._wanted.items():
            if path in self._refused and verb in ("recover", "reindex") and not one.target.is_metadata:
                options = one.options if verb == "recover" else {}
                found.setdefault((path, "recover"), _Wanted(one.target, "recover")).add(options | _SALVAGE, one.codes)
            else:
                found[path, verb] = one
        return found


def _repairs_log(finding: Finding) -> bool:
    """Whether the repair of a finding changes a .log, and needs nothing from outside."""
    return finding.needs is None and finding.severity != INFO and KINDS[finding.code].repair == SALVAGE


def _step_order(wanted: _Wanted) -> tuple[bool, int]:
    return wanted.target.partition is None, _ORDER.index(wanted.verb) if wanted.verb in _ORDER else len(_ORDER)


def _joined(wanted: list[_Wanted]) -> Iterator[RepairStep]:
    """Yields the commands in order. Those that differ only in their partition are joined if there are many."""
    groups: dict[tuple[object, ...], list[_Wanted]] = defaultdict(list)
    for one in wanted:
        groups[one.target.partition is None, one.verb, *sorted(one.options.items())].append(one)
    for group in groups.values():
        size = 1 if len(group) <= MAX_STEPS else MAX_PATHS
        for start in range(0, len(group), size):
            some = group[start : start + size]
            codes = dict.fromkeys(code for one in some for code in one.codes)
            yield RepairStep([*some[0].argv, *(one.argv[-1] for one in some[1:])], list(codes))


def _least_removing(target: "RepairTarget", options: "Options", is_decided: bool) -> "tuple[Options, int]":
    """Returns the options of a recovery that removes no intact records, if there are such, and the number it removes.

    Mode broker may cut intact records off if other replicas have them. ``is_decided``: the user decides on this mode.
    """
    if "--from-replica" in options:
        return options, 0
    if target.partition is None:  # mode broker would change healthy partitions
        options = _as_salvage(options)
    elif "--mode" not in options and target.has_other_replicas and not is_decided:
        return options, 0
    removed = target.removed_records(options)
    if removed and not is_decided and "--mode" not in options and not target.is_07:
        salvage = _as_salvage(options)
        if not target.removed_records(salvage):
            return salvage, 0
    return options, removed


def _as_salvage(options: "Options") -> "Options":
    return {name: value for name, value in options.items() if name != "--full"} | _SALVAGE


def _without_lesser(wanted: dict[tuple[str, str], _Wanted]) -> Iterator[_Wanted]:
    """Yields the commands without those that a recovery includes: it rebuilds the side files of the segments that it
    scans, with --full of all segments."""
    for (path, verb), one in wanted.items():
        recover = wanted.get((path, "recover"))
        if verb == "reindex" and recover is not None:
            recover.add(_least_removing(one.target, recover.options | _FULL, is_decided=False)[0], one.codes)
        elif verb != "recover":
            yield one
    yield from (one for (_, verb), one in wanted.items() if verb == "recover")


def _parsed(repair: str) -> "tuple[str, Options]":
    """Parses a repair of the table into command and options."""
    _, verb, *words = repair.split()
    options: Options = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            value = words[i + 1] if i + 1 < len(words) else "--"
            options[word] = None if value.startswith("--") else value
    return verb, options


def _argv(verb: str, options: "Options", path: str) -> list[str]:
    names = sorted(options, key=lambda name: _SHOWN_ORDER.index(name) if name in _SHOWN_ORDER else len(_SHOWN_ORDER))
    words = [word for name in names for word in (name, options[name]) if word is not None]
    return ["kseg", verb, *words, named_path(path)]
