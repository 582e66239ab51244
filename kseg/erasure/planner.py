"""Erases records from partitions: plans new segments, and the end of every other file that holds the records.

A plan keeps nothing. Its files are replaced in the order of the cleaner's swap, so that a broker started halfway
completes it; after a kill the next changing command does.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from kseg.changes import quarantine
from kseg.changes.apply import check_free
from kseg.changes.driver.command import ChangeOptions, Planner, Progress, Reporter
from kseg.changes.journal import Known
from kseg.changes.manifest import Change, digest
from kseg.changes.plan import Plan
from kseg.cleaner.log import CleanerSegment, CleaningThreads, Producers, producers_of, read_segments
from kseg.cleaner.planner import file_bytes, put_in_place
from kseg.cleaner.rounds import CleanedGroup, OffsetMap
from kseg.cleaner.settings import CleanerSettings
from kseg.erasure.certificate import Certificate, CertificateFile, damage_row, with_names
from kseg.erasure.rewriting import Rewriting
from kseg.erasure.search import Criteria, LogSearch, Ranges, SearchedFile, is_internal
from kseg.errors import RequestError, UnsupportedError
from kseg.formats.suffixes import DELETED, LOG
from kseg.node.index_interval import TopicIntervals
from kseg.node.log_directory import topic_id_at
from kseg.node.server_properties import ServerProperties
from kseg.node.topics import Topics, warn_left_alone
from kseg.options import declaration
from kseg.options.declaration import CHANGES, CONTENTS, KEY, OFFSETS, REGEX, option
from kseg.quantities import DAY_MS
from kseg.runtime.threads import usable_cores
from kseg.segment.files import file_names, own_partitions, segment_file, segment_stem
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.producer_state import ProducerStates
from kseg.stores.place import Place

_GROWTH = 1.25
"""Records that are compressed again may take more space than before."""
_MAX_GAPS = 50_000
"""Gaps that `verify` is told of; it judges further ones by itself."""
_MAP_BYTES = 4096
_SHOWN_DAMAGE = 8
INTERNAL = "internal topics"


@dataclass(frozen=True, slots=True)
class EraseOptions:
    """The options of `kseg erase`. ``skips_damage``: what cannot be searched stays as it is."""

    keys: tuple[bytes, ...] = option(
        "--key", CONTENTS, "Records with this key: text, base64:... or hex:...; may be repeated.", KEY, is_many=True
    )
    key_patterns: tuple[Any, ...] = option(
        "--key-pattern", CONTENTS, "Records whose key contains a match; may be repeated.", REGEX, is_many=True
    )
    patterns: tuple[Any, ...] = option(
        "--grep", CONTENTS, "The same for keys, values and headers (KEY=VALUE).", REGEX, is_many=True
    )
    offsets: tuple[tuple[int, int], ...] = option(
        "--offsets", CONTENTS, "Records with offsets of this range; either end may be omitted; may be repeated.",
        OFFSETS, is_many=True,
    )  # fmt: skip
    skips_damage: bool = option(
        "--skip-damage",
        CHANGES,
        "Erase in what can be read of a damaged log, name the rest; default: refuse.",
        bool,
    )
    interval_bytes: int | None = declaration.index_interval()
    jobs: int | None = declaration.jobs()
    topics: tuple[str, ...] = declaration.topics()
    server: ServerProperties | None = declaration.server()

    @property
    def criteria(self) -> Criteria:
        """Raises RequestError without a criterion."""
        found = Criteria(frozenset(self.keys), self.key_patterns, self.patterns, self.offsets)
        if not found:
            raise RequestError("name the records with --key, --key-pattern, --grep or --offsets")
        return found


@dataclass(slots=True)
class Erasure:
    """The search of one partition, and what follows from it. ``end``: the log end offset.

    ``segments`` and ``found``: the segments with their results; ``others``: those of files beside them: about to be
    deleted by a broker, or kept by the changes ``kept_by``, for which that is not None.
    """

    directory: str
    segments: list[CleanerSegment]
    found: list[SearchedFile] = field(default_factory=list)
    others: list[tuple[SearchedFile, Change | None]] = field(default_factory=list)
    producers: Producers = field(default_factory=lambda: Producers(0))
    groups: list[CleanedGroup] = field(default_factory=list)

    @property
    def records(self) -> int:
        return sum(each.records for each in self.found)

    @property
    def offsets(self) -> Ranges:
        """The offsets to erase, ascending."""
        return [ranges for each in self.found for ranges in each.ranges]

    @property
    def damage(self) -> list[dict[str, Any]]:
        """What cannot be searched."""
        every = [*self.found, *(each for each, _ in self.others)]
        return [damage_row(each.file.path, damage) for each in every for damage in each.damage]

    @property
    def affected(self) -> list[tuple[CleanerSegment, SearchedFile]]:
        return [(s, each) for s, each in zip(self.segments, self.found, strict=True) if each.records]

    @property
    def purged(self) -> list[Change]:
        """The changes that keep matching records."""
        numbers = {change.number: change for each, change in self.others if change is not None and each.records}
        return list(numbers.values())

    def gaps(self) -> Ranges:
        """Returns the offsets that no batch, or only an empty one, will have."""
        gaps, is_open = Ranges(), False
        for first, last in (ranges for each in self.found for ranges in each.emptied):
            stays = last == self.producers.end_offset - 1 or last in self.producers.last_offsets
            if is_open and not stays and gaps[-1][1] == first - 1:
                gaps[-1] = (gaps[-1][0], last)
            else:
                gaps.append((first, last))
            is_open = not stays
        return gaps[:_MAX_GAPS]

    def plan(self) -> Plan:
        """Returns the plan; its new files are those of ``groups``."""
        plan = Plan(self.directory, gaps=self.gaps(), purges=[change.number for change in self.purged])
        for group in self.groups:
            put_in_place(plan, group, "erased")
            plan.staged_bytes += file_bytes(group.segment) if group.segment.paths else 0
        for each, change in self.others:
            if change is None and each.records:
                plan.delete(os.path.basename(each.file.path), "holds records to erase, and waits to be deleted")
        return plan


class ErasurePlanner(Planner):
    """Makes the plans of `kseg erase`. ``certificate``: its file, if one is wanted.

    Raises RequestError if nothing selects records.
    """

    command = "erase"

    def __init__(
        self,
        options: EraseOptions,
        change: ChangeOptions,
        reporter: Reporter,
        certificate: CertificateFile | None = None,
    ) -> None:
        super().__init__(reporter, options.server)
        self._options, self._change = options, change
        self._criteria, self._topics = options.criteria, Topics(options.topics, self.nodes)
        self._intervals = TopicIntervals(options.interval_bytes, self.nodes, reporter.warning, reporter.detail)
        self._jobs = options.jobs or usable_cores()
        self._certificate = Certificate(self._criteria, certificate) if certificate is not None else None
        self.facts = {"records": 0}

    def plan_partition(self, directory: str, known: Known) -> Iterator[Plan]:
        if is_internal(directory):
            raise UnsupportedError(f"{directory}: nothing is erased from internal topics")
        yield from self._plans(directory)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        paths = own_partitions(directory)
        self._topics.warn_if_none(directory, paths, self.reporter.warning)
        named = [path for path in paths if self._topics.is_named(path)]
        internal = sum(map(is_internal, named))
        if self._options.topics:
            warn_left_alone(directory, {INTERNAL: internal} if internal else {}, self.reporter.warning)
        for path in named:
            if not is_internal(path):
                with self.attempt(path):
                    yield from self._plans(path)

    def conclusion(self) -> list[str]:
        if self._certificate is not None:
            self._certificate.finish(self.failures.errors)
        return []

    def _plans(self, directory: str) -> Iterator[Plan]:
        is_dry, began = self._change.is_dry, time.monotonic()
        with ExitStack() as stack:
            progress = stack.enter_context(self.reporter.progress())
            workers = stack.enter_context(closing(CleaningThreads(self._jobs)))
            found = self._search(directory, workers, progress)
            self._check_damage(found)
            before = self._digests(found)
            if found.affected:
                stage = None if is_dry else stack.enter_context(quarantine.staging(directory))
                self._rewrite(found, workers, stage)
            progress.erase()
            row, plan = self._row(found, time.monotonic() - began), found.plan()
            if self._certificate is not None:
                keys = {key for each in found.found for key in each.keys}
                self._certificate.begin(self._certified(found, before, row), keys, bool(plan))
            yield plan
            if directory in self.failures.errors:
                return
        self.facts["records"] += found.records
        self.reporter.summary([with_names(row, "deleted", "otherNames")])
        if self._certificate is not None:
            self._certificate.end(directory, self._digests(found))

    def _search(self, directory: str, workers: CleaningThreads, progress: Progress) -> Erasure:
        found = Erasure(directory, read_segments(directory))
        states, end = ProducerStates(), found.segments[-1].base_offset if found.segments else 0

        def follow(headers: HeaderRows) -> None:
            nonlocal end
            states.replay(headers.rows, headers.count, 0)
            end = max(end, headers[-1].last_offset + 1)

        search = LogSearch(self._criteria, workers, with_keys=bool(self._criteria.key_patterns))
        progress.at(directory)
        progress.total = sum(segment.size for segment in found.segments)
        for segment in found.segments:
            found.found.append(search.segment(segment.path, follow, progress.advance))
        found.producers = producers_of(states, end, int(time.time() * 1000), DAY_MS)
        for name in sorted(file_names(directory)):
            file = segment_file(Place(directory) / name)
            if file.kind == LOG and file.leftover == DELETED:
                found.others.append((search.file(file), None))
        by_folder = {change.kept: change for change in quarantine.changes(directory) if change.kept}
        for file in quarantine.kept_logs(directory):
            found.others.append((search.file(file), by_folder[Place(file.path).parent]))
        return found

    def _check_damage(self, found: Erasure) -> None:
        """Raises UnsupportedError for what cannot be searched, unless it is skipped."""
        if not (damage := found.damage):
            return
        shown = ["{file} at {position}, {length} bytes: {message}".format(**each) for each in damage[:_SHOWN_DAMAGE]]
        shown += [f"and {len(damage) - _SHOWN_DAMAGE} more"] if len(damage) > _SHOWN_DAMAGE else []
        text = f"{found.directory}: cannot be searched whole: {'; '.join(shown)}"
        if not self._options.skips_damage:
            raise UnsupportedError(
                f"{text}; nothing was changed: repair it first (kseg verify names the command; kseg undo --purge for "
                "kept bytes), or --skip-damage"
            )
        self.reporter.warning(f"{text}; this is not erased")
        self.damage_remains = True

    def _rewrite(self, found: Erasure, workers: CleaningThreads, stage: quarantine.Staging | None) -> None:
        settings = CleanerSettings(
            int(time.time() * 1000), interval_bytes=self._intervals.of(found.directory), keeps_format=True,
            includes_active=True, has_horizons=False,
        )  # fmt: skip
        if stage is not None:
            check_free(found.directory, round(_GROWTH * sum(file_bytes(segment) for segment, _ in found.affected)))
        with closing(OffsetMap(_MAP_BYTES)) as offset_map, closing(workers):  # after an error they still use the map
            rewriting = Rewriting(self._criteria, found.producers, settings, offset_map, workers)
            for segment, matches in found.affected:
                group = rewriting.rewrite(segment, matches, None if stage is None else stage.make_folder())
                if stage is not None:
                    for path in group.segment.paths.values():
                        stage.adopt(path, segment.path)
                found.groups.append(group)

    def _row(self, found: Erasure, seconds: float) -> dict[str, Any]:
        """Returns what is found of a partition, and where the records may be besides."""
        partition = self.nodes.partition(found.directory)
        replicas = partition.assignment.replicas if partition.assignment is not None else ()
        copies = partition.node.remote_copies or {}
        counts = sum((group.counts for group in found.groups), Counter[str]())
        size = sum(segment.size for segment in found.segments)
        return {
            "type": "erasure",
            "directory": found.directory,
            "records": found.records,
            "offsets": found.offsets,
            "segments": len(found.segments),
            "rewritten": len(found.groups),
            "batches": {name: counts.get(name, 0) for name in ("rewritten", "emptied", "dropped")},
            "bytesBefore": size,
            "bytesAfter": size - sum(group.bytes_before - group.segment.size for group in found.groups),
            "deleted": [each.file.path for each, change in found.others if change is None and each.records],
            "purged": [change.number for change in found.purged],
            "notSearched": found.damage,
            "replicas": [number for number in replicas if number != partition.node.number],
            "remoteThrough": copies.get(partition.place) if partition.place is not None else None,
            "otherNames": self._other_names(found),
            "seconds": round(seconds, 3),
        }

    @staticmethod
    def _other_names(found: Erasure) -> list[str]:
        """Returns the files to be freed that have another name outside of the partition."""
        freed = [segment.path for segment, _ in found.affected]
        freed += [each.file.path for each, _ in found.others if each.records]
        statuses = {path: os.lstat(path) for path in freed}
        inodes = [status.st_ino for status in statuses.values()]
        return [path for path, status in statuses.items() if status.st_nlink > inodes.count(status.st_ino)]

    def _digests(self, found: Erasure) -> dict[str, tuple[int, str]]:
        """Returns size and SHA-256 of the segments that exist, for the certificate. Raises OSError."""
        paths = (Place(found.directory) / (segment_stem(s.base_offset) + LOG) for s in found.segments)
        existing = (path for path in paths if self._certificate is not None and path.is_file())
        return {path.name: (size := path.size(), digest(path, 0, size)) for path in existing}

    def _certified(self, found: Erasure, before: dict[str, tuple[int, str]], row: dict[str, Any]) -> dict[str, Any]:
        """Returns what the certificate tells of a partition, before its plan is applied."""
        partition = self.nodes.partition(found.directory)
        segments = [
            {"file": name, "records": each.records, "sizeBefore": size, "sha256Before": sha256}
            for (name, (size, sha256)), each in zip(before.items(), found.found, strict=True)
        ]
        others = [
            {
                "file": os.path.relpath(each.file.path, found.directory),
                "records": each.records,
                "then": ("purged" if change else "deleted") if each.records else "kept",
            }
            for each, change in found.others
        ]
        names = ("directory", "records", "offsets", "notSearched", "replicas", "remoteThrough", "otherNames")
        topic_id = topic_id_at(found.directory) or partition.topic_id or None
        return (
            {name: row[name] for name in names}
            | {"topic": partition.topic, "partition": partition.number, "topicId": topic_id}
            | {"segments": segments, "otherFiles": others}
        )
