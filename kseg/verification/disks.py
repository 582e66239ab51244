"""Checks the disks of a node against its metadata log: which disk is which, and which partitions lie where.

Sources: LogManager, ReplicaManager, MetaPropertiesEnsemble and LogCleanerManager of Kafka 4.4.0; KIP-858, KIP-966.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kseg.node.log_directory import LogDirectory, is_moved
from kseg.node.node import is_reserved_id
from kseg.quantities import named_path, plural
from kseg.segment.files import METADATA_TOPIC, is_uuid
from kseg.segment.paths import some
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, OFFSET_CHECKPOINTS
from kseg.sidefiles.text_files import META_PROPERTIES
from kseg.stores.place import Place
from kseg.verification.log_directories import CheckedDirectory, NodeCheck, acknowledged, told_id, topic_partition
from kseg.verification.partition import LogSpan
from kseg.verification.report import Report

_LEAST_BEYOND = 2
"""From so many partitions on, high watermarks beyond log ends have one cause."""


def judge_disks(check: NodeCheck, report: Report) -> None:
    """Checks the log directories of a node."""
    _DiskCheck(check, report).judge()


class _DiskCheck:
    def __init__(self, check: NodeCheck, report: Report) -> None:
        self.check, self.report, self.node = check, report, check.node
        self.paths = {one.path: one for one in check.directories}
        restored = self.node.restored_ids
        ids = {one.path: one.meta.directory_id for one in check.directories if one.meta and one.meta.directory_id}
        self.path_of_id = {found: path for path, found in {**ids, **restored}.items()}
        """Log directories by the directory.id that they have, or have to have."""
        self.copies = self._copies()

    def judge(self) -> None:
        self._directory_ids()
        for copies in self.copies.values():
            if len(copies) > 1 and len({Place(path).parent for path in copies}) > 1:
                self._twice(copies)
        self._elsewhere()
        self._cleaner_offsets()
        self._only_replicas()
        self._copied_while_running()

    def _copies(self) -> dict[tuple[str, int, bool], list[str]]:
        """Returns the paths of each partition; a -future directory is another one."""
        found: defaultdict[tuple[str, int, bool], list[str]] = defaultdict(list)
        strays = frozenset(self.check.strays() or ())  # renamed before nodes compare their log directories
        for directory in self.check.directories:
            for name in directory.directories:
                place, path = topic_partition(name), Place(directory.path) / name
                is_log = place is not None and place[0] != METADATA_TOPIC and not name.endswith(("-delete", "-stray"))
                if place is not None and is_log and path not in strays:
                    found[(*place, is_moved(name))].append(path)
        return found

    def _assigned_path(self, path: str) -> str | None:
        """Returns the log directory to which the metadata assign the partition at a path; "" if it is not here, None if
        that is not known."""
        root, name = os.path.split(path)
        place = topic_partition(name)
        ids = next((one.topic_ids for one in self.check.found if one.directory.path == root), {})
        assigned = None if place is None else self.node.assigned_id(ids.get(name), place[1])
        return None if assigned is None else self.path_of_id.get(assigned, "")

    def _directory_ids(self) -> None:
        seen: dict[str, str] = {}
        for directory in self.check.directories:
            own, path = directory.meta and directory.meta.directory_id, Place(directory.path) / META_PROPERTIES
            if not own or not is_uuid(own):
                continue
            if is_reserved_id(own):
                self.report.add("node-identity-mismatch", path, f"directory.id {own} is reserved")
            elif (before := seen.setdefault(own, directory.path)) != directory.path:
                self._same_id(own, self.paths[before], directory)
            elif directory.path in self.node.restored_ids and META_PROPERTIES not in directory.problems:
                if not any(one.meta and one.meta.directory_id == own for one in self._others(directory)):
                    text, details = told_id(directory, self.node)
                    self.report.add("directory-id-mismatch", path, f"directory.id is {own}{text}", details=details)

    def _same_id(self, own: str, first: LogDirectory, second: LogDirectory) -> None:
        """Reports two log directories with one id, of which the metadata may tell the right one."""
        wrong, right = (first, second) if first.path in self.node.restored_ids else (second, first)
        text, details = told_id(wrong, self.node)
        path = Place(wrong.path) / META_PROPERTIES
        message = f"directory.id {own} is also that of {right.path}{text}"
        self.report.add("node-identity-mismatch", path, message, details=details)

    def _others(self, directory: LogDirectory) -> Iterator[LogDirectory]:
        return (one for one in self.check.directories if one is not directory)

    def _twice(self, copies: list[str]) -> None:
        """Reports a partition in several log directories: which copy the metadata assign, and what each holds."""
        kept = next((path for path in copies if self._assigned_path(path) == Place(path).parent), None)
        held = {path: self._held(path) for path in copies}
        first = copies[0] if kept is None else kept
        for path in copies:
            if path == first:
                continue
            text = f"{first} and {path} are the same partition"
            details: dict[str, Any] = {"held": [self._copy_row(each, held[each]) for each in copies]}
            contents = "; ".join(f"{each} holds {_span_text(held[each])}" for each in (first, path))
            if kept is None:
                why = "do not tell which one is right" if self.node.topics is not None else "are not here"
                text += f"; the cluster's metadata {why}; {contents}"
            else:
                details["assigned"] = kept
                text += f"; the cluster's metadata assign {kept}; {contents}"
                longer, kept_span = held[path], held[kept]
                if longer is not None and (kept_span is None or longer.end > kept_span.end):
                    text += "; the copy that is not assigned ends later: compare both before you move one away"
                else:
                    details["otherRepair"] = ["mv", named_path(path), named_path(_place_away(path))]
                    text += f"; {path} is the one to move away"
            self.report.add("broker-would-not-start", path, text, details=details)

    def _held(self, path: str) -> LogSpan | None:
        root, name = os.path.split(path)
        return next((one.extents.get(name) for one in self.check.found if one.directory.path == root), None)

    @staticmethod
    def _copy_row(path: str, span: LogSpan | None) -> dict[str, Any]:
        start, end, records = (None, None, None) if span is None else span[:3]
        return {"directory": path, "logStartOffset": start, "logEndOffset": end, "records": records}

    def _elsewhere(self) -> None:
        """Reports partitions that lie in another log directory than the one to which they are assigned."""
        moved: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for (*_, is_future), copies in self.copies.items() if self.node.topics is not None else ():
            root, name = os.path.split(copies[0])
            assigned = self._assigned_path(copies[0])
            if not is_future and len(copies) == 1 and assigned and assigned != root:
                moved[root][name] = assigned
        for root, found in moved.items():
            if root in self.node.restored_ids:
                continue
            names = [f"{name} ({path})" for name, path in sorted(found.items())]
            text = (
                f"the cluster's metadata assign to another log directory: {some(names)}; a start takes them as they lie"
            )
            self._report_elsewhere(root, text, found)

    def _cleaner_offsets(self) -> None:
        """Reports cleaned offsets of partitions that lie in another log directory."""
        at = {key[:2]: copies[0] for key, copies in self.copies.items() if len(copies) == 1 and not key[2]}
        for directory in self.check.directories:
            entries = directory.offsets.get(CLEANER_OFFSETS, {})
            found = {place: at[place] for place in entries if place in at}
            found = {place: path for place, path in found.items() if Place(path).parent != directory.path}
            if not found:
                continue
            texts = []
            for place, path in sorted(found.items()):
                root = Place(path).parent
                own = self.paths[root].offsets.get(CLEANER_OFFSETS, {}).get(place)
                also = "no entry" if own is None else f"offset {own}"
                texts.append(f"{os.path.basename(path)} (offset {entries[place]}; {root} has {also})")
            text = f"entries of partitions in another log directory, of which the last one read counts: {some(texts)}"
            places = {os.path.basename(path): Place(path).parent for path in found.values()}
            self._report_elsewhere(Place(directory.path) / CLEANER_OFFSETS, text, places)

    def _report_elsewhere(self, file: str, text: str, places: Mapping[str, str]) -> None:
        rows = [{"partition": name, "logDirectory": path} for name, path in sorted(places.items())]
        self.report.add("partition-elsewhere", file, text, details={"partitions": rows})

    def _only_replicas(self) -> None:
        """Reports the partitions that no log directory has, and no other node for sure."""
        number = self.node.number
        gone: defaultdict[tuple[str | None, str], list[str]] = defaultdict(list)
        lacked: defaultdict[str, list[str]] = defaultdict(list)
        future = {key[:2] for key in self.copies if key[2]}
        for name, partition in self.check.missing() if number is not None else ():
            if topic_partition(name) in future or not {number} >= {*(partition.may_lead or partition.replicas)}:
                continue
            assigned = partition.directories[partition.replicas.index(number or 0)]
            if is_reserved_id(assigned):
                continue  # the node has not made it yet
            here = self.path_of_id.get(assigned)
            if here is None and self.check.is_whole:
                gone[None, assigned].append(name)
            elif here is not None and _is_bare(self.paths[here]):
                gone[here, assigned].append(name)
            elif here is not None and name in acknowledged(self.paths[here]):
                # Whoever names the configuration means the node as it will start; directories may be copied in part.
                if self.node.server is not None and self.check.is_whole:
                    gone[here, assigned].append(name)
                else:
                    lacked[here].append(name)
        for (here, assigned), names in gone.items():
            if here is not None:
                text = "a start makes empty ones, and what they held is lost"
            else:
                text = (
                    f"without the log directory of directory.id {assigned} a start leaves them empty, without a leader"
                )
            names.sort()
            text = (
                f"the only replica in sync would be this node's, and it is on none of its disks: {some(names)}; {text}"
            )
            details = {"partitions": names, "directoryId": assigned}
            self.report.add("only-replica-missing", here or self._place_of_loss(), text, details=details)
        for path, names in lacked.items():
            names.sort()
            text = (
                f"{some(names)} had records here by their high watermarks, and the only replica in sync: a start makes "
                "empty ones, and what they held is lost, unless this is a copy of a part of the log directory"
            )
            self.report.add("assigned-partition-missing", path, text, details={"partitions": names})

    def _place_of_loss(self) -> str:
        """Returns the log directory that is in the place of a missing one, if one is, else that of the metadata."""
        registered = self.node.registered_directories
        new = [
            one.path for one in self.check.directories
            if one.meta and one.meta.directory_id not in registered and one.path not in self.node.restored_ids
        ]  # fmt: skip
        absent = [path for path in self.check.roots if path not in self.paths]
        for places in (absent, new):
            if len(places) == 1:
                return places[0]
        return self.check.roots[0] if self.node.metadata is None else self.node.metadata.path

    def _copied_while_running(self) -> None:
        """Reports several partitions of an unclean stop that end before their high watermarks."""
        rows, roots = list[dict[str, Any]](), dict[str, None]()
        for one in self.check.found:
            marks = {} if one.directory.was_clean else one.directory.offsets.get(HIGH_WATERMARKS, {})
            for name, offset, span in _beyond(one, marks):
                rows.append({"partition": name, "highWatermark": offset, "logEndOffset": span.end})
                roots[one.directory.path] = None
        if len(rows) < _LEAST_BEYOND:
            return
        missing = sum(row["highWatermark"] - row["logEndOffset"] for row in rows)
        text = (
            f"{plural(len(rows), 'partition ends', 'partitions end')} before the high watermark, by "
            f"{plural(missing, 'offset', 'offsets')} in all, after a stop that was not clean: the files were copied "
            "one after the other while a broker wrote, or the machine lost what was not yet on disk"
        )
        self.report.add("copied-while-running", next(iter(roots)), text, details={"partitions": rows})


def _beyond(one: CheckedDirectory, marks: dict[tuple[str, int], int]) -> Iterator[tuple[str, int, LogSpan]]:
    for name, span in one.extents.items():
        place = topic_partition(name)
        if place is not None and (offset := marks.get(place)) is not None and offset > span.end:
            yield name, offset, span


def _is_bare(directory: LogDirectory) -> bool:
    """Whether a log directory is formatted, and nothing else."""
    has_logs = any(topic_partition(name) for name in directory.directories)
    return not has_logs and directory.files.isdisjoint(OFFSET_CHECKPOINTS)


def _span_text(span: LogSpan | None) -> str:
    if span is None:
        return "no log that can be read"
    ends = f"log start {span.start}, log end {span.end}"
    return ends if span.records is None else f"{plural(span.records, 'record', 'records')} ({ends})"


def _place_away(path: str) -> str:
    """Returns a free name beside the log directory, out of all log directories."""
    root, name = os.path.split(Place(path).absolute)
    number = 0
    target = f"{root}.{name}"
    while Place(target).lexists():
        number += 1
        target = f"{root}.{name}.{number}"
    return target
