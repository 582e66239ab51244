"""The files of a log directory itself that a broker's start reads and a recovery may change."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from kseg.changes.journal import RootFile
from kseg.changes.plan import Plan
from kseg.segment.files import CLEAN_SHUTDOWN, parse_partition_name
from kseg.sidefiles.checkpoints import (
    LOG_STARTS,
    OFFSET_CHECKPOINTS,
    OffsetCheckpoint,
    build_offset_checkpoint,
    read_offset_checkpoint,
)
from kseg.sidefiles.problems import SideFileProblem

CHECKPOINTS = tuple(OFFSET_CHECKPOINTS)


@dataclass(slots=True)
class Root:
    """``offsets``: for each checkpoint file, the offset of each (topic, partition). ``unreadable``: checkpoints that a
    broker treats as empty, with the reason."""

    directory: str
    was_clean: bool = False
    offsets: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, directory: str, known: Mapping[str, RootFile | None], as_broker: bool) -> "Root":
        """Parses the contents of the files as a command has read them.

        ``as_broker``: an unreadable checkpoint has no entries; otherwise those that can be read.
        """
        root = cls(directory, known.get(CLEAN_SHUTDOWN) is not None)
        for name in CHECKPOINTS:
            root.offsets[name] = {}
            if (file := known.get(name)) is None:
                continue
            found = root.offsets[name]
            for item in read_offset_checkpoint(file.content):
                if isinstance(item, SideFileProblem):
                    root.unreadable.setdefault(name, item.message)
                else:
                    found[item.topic, item.partition] = item.offset
            if name in root.unreadable and as_broker:
                found.clear()
        return root

    def offset(self, checkpoint: str, partition: tuple[str, int] | None) -> int | None:
        return self.offsets[checkpoint].get(partition) if partition else None

    def plan(
        self,
        ends: Mapping[tuple[str, int], int],
        log_starts: Mapping[tuple[str, int], int],
        replaces_unreadable: bool = True,
    ) -> Plan:
        """Returns the changes after which no recovery point or high watermark is beyond its log end, and no checkpoint
        is unreadable. ``log_starts``: the new log start offsets of partitions that get one.

        Without ``replaces_unreadable`` unreadable ones are kept, because they have entries of other partitions too.
        """
        plan = Plan(self.directory)
        for name in CHECKPOINTS:
            beyond = {key: end for key, end in ends.items() if self.offsets[name].get(key, -1) > end}
            changed = log_starts if name == LOG_STARTS else beyond
            is_wanted, reason = bool(changed), "pointed beyond the end of a log"
            if name in self.unreadable:
                is_wanted = replaces_unreadable
                reason = f"cannot be read ({self.unreadable[name]}): a broker takes it for empty and then stops"
            if is_wanted:
                entries = {**self.offsets[name], **changed}
                rows = [OffsetCheckpoint(*key, offset) for key, offset in entries.items()]
                plan.write(name, [build_offset_checkpoint(rows)], reason)
        return plan


def partition_of(directory: str) -> tuple[str, int] | None:
    """Returns topic and partition number from the name of a directory, even if a broker has renamed it (-delete,
    -future, -stray)."""
    return parse_partition_name(os.path.basename(os.path.abspath(directory)))
