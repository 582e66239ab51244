"""Writes the result of a plan, completely or not at all, to another log directory, and the partition's entries in the
checkpoints. The partition itself is only read.
"""

import os
from collections.abc import Mapping

from kseg.changes.accepted_gaps import accepted_gaps, record
from kseg.changes.apply import check_free
from kseg.changes.content import write_pieces
from kseg.changes.disk import Disk, umask
from kseg.changes.journal import TopicPartition, checkpoint_entries, known_root_files, topic_partition_of
from kseg.changes.plan import FileState, Pieces, Plan, PlannedFile, Range, file_state
from kseg.errors import KsegError, PathError, StoppedHalfwayError, errors_at, is_system_error
from kseg.formats.suffixes import LOGS
from kseg.node.log_directory import checkpoint_offsets
from kseg.segment.files import CLEAN_SHUTDOWN, LOCK_NAME, bounded, directory_name
from kseg.sidefiles.checkpoints import (
    CLEANER_OFFSETS,
    LOG_STARTS,
    OFFSET_CHECKPOINTS,
    build_offset_checkpoint,
    offsets_of,
    read_offset_checkpoint,
)
from kseg.stores.place import Place


def write_copy(plan: Plan, output: str, disk: Disk | None = None, name: str = "", links: bool = False) -> str:
    """Writes the partition to ``output``/``name`` as the plan would leave it. Returns that path.

    ``name`` defaults to the name of the partition directory. Unchanged files are copies, which share their blocks with
    the input (copy on write) if the file system can clone files. ``links``: where it cannot, each unchanged .log that
    keeps its name, except the last, is a hard link; a broker that truncates the copy then truncates the input. The
    caller holds the lock of ``output``.

    Raises KsegError if nothing was written, StoppedHalfwayError if the copy is there, but could not be synced.
    """
    disk, name = disk or Disk(), name or directory_name(plan.directory)
    target, staged = Place(output) / name, Place(output) / f".kseg-{bounded(name, 240)}.new"
    if target.lexists():
        raise PathError(f"{target}: already exists; nothing was written")
    try:
        disk.remove_tree(staged)  # left by a killed run: no other run uses it, because this one holds the lock
        before = _file_states(plan.directory)
        for file_name, known in plan.initial.items():
            if before.get(file_name) != known:
                raise KsegError(f"{os.path.join(plan.directory, file_name)}: has changed since it was read")
        files = plan.files_after(before)
        logs = sorted(file_name for file_name in files if file_name.endswith(LOGS)) if links else []
        linked = {name for name in logs[:-1] if files[name].made_by is None and files[name].origin == name}
        check_free(output, sum(file.state.size for name, file in files.items() if name not in linked))
        disk.make_directory(staged)
        for file_name, file in sorted(files.items()):
            _write(plan, file, staged / file_name, file_name in linked, disk)
        if _file_states(plan.directory) != before:
            raise KsegError(f"{plan.directory}: has changed while it was copied; nothing was written")
        disk.copy_owner_if_allowed(staged, plan.directory, as_directory=True)
        record(staged, [*accepted_gaps(plan.directory).ranges, *plan.gaps], disk)
        disk.sync_directory(staged)
        disk.rename(staged, target)
    except BaseException as error:
        with errors_at(f"{staged}: cannot be removed", KsegError):
            disk.remove_tree(staged)
        if is_system_error(error):
            raise KsegError(f"{target}: nothing was written: {error.strerror or error}") from error
        raise
    with errors_at(f"{target}: was written, but a power cut may remove it", StoppedHalfwayError):
        disk.sync_directory(output)
    return target


def write_root_files(contents: dict[str, bytes], output: str, source: str = "") -> None:
    """Writes files of a log directory. Those of another one, ``source``, are copied as well, except the clean shutdown
    marker; ``contents`` replace theirs.

    Raises StoppedHalfwayError if a file cannot be written.
    """
    disk = Disk()
    with errors_at(output, StoppedHalfwayError):
        names = [name for name in _file_states(source) if not name.startswith(".kseg-")] if source else []
        for name in sorted({*names, *contents} - {LOCK_NAME, CLEAN_SHUTDOWN}):
            path = Place(source) / name if source else ""
            with disk.replacement(Place(output) / name) as temporary:
                if name in contents:  # with the owner and mode of the old file, or of the output
                    model = path if Place(path).lexists() else output
                    disk.write_file(temporary, contents[name], model, needs_owner=False)
                else:
                    disk.copy_file(path, temporary, output, mask=umask())


def _file_states(directory: str) -> dict[str, FileState]:
    """Returns the states of the regular files of a directory. Raises PathError for a symbolic link."""
    found = {}
    with Place(directory).entries() as entries:
        names = sorted(entry.name for entry in entries if not entry.is_dir(follow_symlinks=False))
    for name in names:
        now = file_state(Place(directory) / name)
        if now is not None:
            found[name] = now
    return found


def _write(plan: Plan, file: PlannedFile, target: str, may_link: bool, disk: Disk) -> None:
    """Writes a file of the copy: new content of the plan, or the bytes of the file ``origin`` up to its new size."""
    made = None if file.made_by is None else plan.steps[file.made_by]
    if made is not None and made.source:
        disk.link_or_copy(made.source, target)
        return
    origin = Place(plan.directory) / (file.origin if made is None else made.origin)
    if made is None and origin.status().st_size == file.state.size:
        # A clone, a hard link if it may be one, or a copy.
        if not disk.copy_file(origin, target, Place(target).parent, only_clone=may_link, mask=umask()):
            disk.link_or_copy(origin, target)
        return
    pieces: Pieces = (Range(file.origin, 0, file.state.size),) if made is None else made.pieces
    with disk.new_file(target, origin, "", umask()) as descriptor:
        write_pieces(pieces, plan.directory, descriptor, disk)


# The entries in checkpoints that copies of partitions take along to their new log directory.

Rows = dict[str, dict[TopicPartition, int]]
"""The entries of each checkpoint file."""

CopiedRows = dict[str, dict[TopicPartition, int | None]]
"""The entry of each copied partition in each checkpoint file, None for no entry."""

NEEDED_BY_COPIES = (LOG_STARTS, CLEANER_OFFSETS)
"""The checkpoints whose entries a copy needs: without them deleted records would come back, and nothing else shows that
a partition is compacted."""


def rows_to_extend(directory: str) -> Rows:
    """Returns the entries in the checkpoints of a log directory. Raises KsegError if a file is damaged."""
    known = known_root_files(directory, OFFSET_CHECKPOINTS)
    return {name: checkpoint_entries(directory, name, known) for name in OFFSET_CHECKPOINTS}


def copied_rows(source: str, contents: Mapping[str, bytes], names: Mapping[str, str]) -> CopiedRows:
    """Returns the entries of partitions of a log directory under their new names.

    ``contents``: its checkpoints as a plan leaves them, where they differ from the files; ``names``: the new name of
    each partition directory.
    """
    found: CopiedRows = {}
    for name in OFFSET_CHECKPOINTS:
        if is_planned := name in contents:
            rows = offsets_of(read_offset_checkpoint(contents[name]))
        else:
            rows = checkpoint_offsets(Place(source) / name)
        for old, new in names.items():
            target, place = topic_partition_of(new), topic_partition_of(old)
            if target is not None:
                place = target if is_planned and target in rows else place
                found.setdefault(name, {})[target] = None if place is None else rows.get(place)
    return found


def checkpoints_with(rows: Rows, copied: CopiedRows) -> dict[str, bytes]:
    """Returns the contents of the checkpoints that change if ``rows`` get the entries of copied partitions, which
    replace those of earlier partitions of the same name."""
    found = {}
    for name, entries in copied.items():
        own = rows.get(name, {})
        kept = {place: offset for place, offset in own.items() if place not in entries}
        added = {place: offset for place, offset in entries.items() if offset is not None}
        if kept | added != own:
            found[name] = build_offset_checkpoint(kept | added)
    return found
