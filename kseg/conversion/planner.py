"""Plans conversions for the partitions that a command names: in place, or to new directories, all of a run or none.

Transaction indexes, producer snapshots and leader epochs are unchanged if every batch stays in a segment with the same
base offset; except snapshots, if records are regrouped. Otherwise they are built from the batches, as a broker does
when it appends and rolls.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

from kseg.changes.accepted_gaps import accepted_gaps, record
from kseg.changes.apply import MARGIN_BYTES, check_free, free_bytes
from kseg.changes.copies import NEEDED_BY_COPIES, copied_rows, write_root_files
from kseg.changes.disk import Disk, umask
from kseg.changes.driver.command import ChangeOptions, Messages, Planner, Reporter, is_partition
from kseg.changes.journal import Known
from kseg.changes.new_directories import NewDirectories, check_output, new_directories
from kseg.changes.plan import CREATE, Plan, Removed, Step
from kseg.changes.quarantine import staging
from kseg.conversion.options import ConvertOptions
from kseg.conversion.partition import Converted, convert_segments, losses_text
from kseg.conversion.rows_writer import known_gaps, make_side_files
from kseg.errors import PathError, UnsupportedError
from kseg.formats.suffixes import CLEANED, LOG, LOGS, SIDE_SUFFIXES, SNAPSHOT, SWAP, TRANSACTION_INDEX
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.node.index_interval import TopicIntervals
from kseg.node.log_directory import checkpoint_offsets, is_log_directory_of_broker
from kseg.node.node import Nodes, is_of_one_node
from kseg.node.paths import expanded
from kseg.node.topics import Topics
from kseg.segment import files as segment_files
from kseg.segment.paths import expand_path, segments_at, warn_of_skipped_files
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, LOG_STARTS, OFFSET_CHECKPOINTS, build_offset_checkpoint
from kseg.sidefiles.text_files import PARTITION_METADATA
from kseg.stores.no_follow import resolved
from kseg.stores.place import Place
from kseg.stores.source import STANDARD_INPUT

Conversion = Callable[[str, list[segment_files.SegmentFile], ConvertOptions, str | None], Converted]
"""Converts segments, as `kseg.conversion.partition.convert_segments`."""


def segments_of(directory: str) -> list[segment_files.SegmentFile]:
    """Returns the segments of a partition that can be converted. Raises PathError, UnsupportedError."""
    if segment_files.directory_name(directory).startswith(segment_files.METADATA_TOPIC + "-"):
        raise UnsupportedError(f"{directory}: the log of cluster metadata has one format only, that of its brokers")
    found = segment_files.list_segments(directory)
    if not found:
        raise PathError(f"{directory}: holds no segments")
    if unfinished := [name for name in sorted(Place(directory).names()) if name.endswith((CLEANED, SWAP))]:
        raise UnsupportedError(f"{directory}/{unfinished[0]}: a cleaning was interrupted; kseg recover finishes it")
    return found


def rewrite(
    name: str,
    files: list[segment_files.SegmentFile],
    directory: str | None,
    request: ConvertOptions,
    folder: str | None,
    convert: Conversion = convert_segments,
) -> Converted:
    """Writes the segments and their side files to ``folder``, or only counts without one.

    ``directory``: the directory of side files, if any; ``convert``: converts the segments. Raises DamageError,
    LossError.
    """
    if request.offsets is not None and len(files) > 1:
        files = segment_files.between(files, *request.offsets)
    made = convert(name, files, request, folder)
    if request.is_selective:
        directory = None  # the side files of the whole log do not fit
        if not made.segments:
            return made
    first = made.segments[0].name(SNAPSHOT) if made.segments else ""
    for segment in made.segments:
        made.files.update({segment.name(suffix): size for suffix, size in segment.sizes.items()})
    if request.magic in (0, 1):
        return made
    # Producer snapshots contain the last batch of each producer, which differs if records are regrouped.
    keeps_batches = made.is_same_log or request.batch_bytes is None
    stays: tuple[str, ...] = ()
    if directory is not None:
        made.carried = [LEADER_EPOCHS] if (Place(directory) / LEADER_EPOCHS).exists() else []
        if made.has_same_segments:
            stays = SIDE_SUFFIXES if keeps_batches else tuple(suffix for suffix in SIDE_SUFFIXES if suffix != SNAPSHOT)
            names = [name for name in Place(directory).names() if name.endswith((TRANSACTION_INDEX, SNAPSHOT))]
            made.carried += [name for name in sorted(names) if name.endswith(stays) or name == first]
    if folder is None:  # what is made of the batches is not known
        made.carried += [each.name(suffix) for each in made.segments for suffix in (SNAPSHOT, TRANSACTION_INDEX)]
        made.carried.append(segment_files.segment_stem(made.next_offset) + SNAPSHOT)
    elif not (stays == SIDE_SUFFIXES and LEADER_EPOCHS in made.carried):
        path = Place(directory or "") / first
        is_continued = directory is not None and first and path.exists()
        seed = path.read(MAX_ROOT_FILE_BYTES) if is_continued else None
        for each, content in make_side_files(made.segments, seed):
            if each not in made.carried and not each.endswith(stays):
                Disk().write_file(Place(folder) / each, content, folder)
                made.files[each] = len(content)
    return made


def complete(folder: str, directory: str, carried: list[str]) -> None:
    """Adds the unchanged files to a new partition, and gives its files the owner and mode of the old ones."""
    disk = Disk()
    for name in [*carried, PARTITION_METADATA]:
        if (Place(directory) / name).exists():
            disk.copy_file(Place(directory) / name, Place(folder) / name, folder)
    copy_owner_to_files(folder, directory, umask())


def copy_owner_to_files(folder: str, directory: str, mask: int = 0) -> None:
    """Sets owner and mode of new files, less ``mask``, as far as this user may."""
    disk, model = Disk(), next((file.path for file in segment_files.list_segments(directory)), directory)
    for name in sorted(Place(folder).names()):
        with suppress(PermissionError):
            disk.copy_owner(Place(folder) / name, model, mask=mask)


def plan_rewriting(directory: str, made: Converted, folder: str | None, reason: str) -> Plan:
    """Returns the plan that replaces the old files by the output of ``rewrite``; without a folder it can only be shown.

    The plan is empty if no batch has changed.
    """
    plan = Plan(directory)
    if made.is_same_log:
        return plan
    plan.gaps = known_gaps(made.gaps)
    removed = defaultdict[str, list[Removed]](list)
    for file, damage in made.skipped:
        removed[os.path.basename(file)].append(Removed(damage.position, damage.length, damage.message))
    for name in sorted(Place(directory).names(), reverse=True):
        is_old = name.endswith((*LOGS, *SIDE_SUFFIXES)) or name == LEADER_EPOCHS
        is_replaced = is_old and name not in made.files and name not in made.carried
        if is_replaced and (Place(directory) / name).is_file():
            plan.delete(name, f"{reason}: replaced by others", removed[name])
    for name, size in sorted(made.files.items()):
        if folder is None:
            plan.outline(name, size, reason)
            continue
        path = Place(folder) / name
        if name.endswith(LOG) or not path.has_bytes_of(Place(directory) / name):
            plan.write(name, (), reason, removed[name] if plan.state_of(name) else [], source=path)
            plan.staged_bytes += size
    return plan


_SAME, _OTHER_FORMAT, _EXPANDED = 1.25, 4, 30
"""Estimated largest growth of segments: with a worse codec, from messages to batches, without compression."""


def _check_space(
    path: str, files: list[segment_files.SegmentFile], request: ConvertOptions, rewritten: Callable[[None], Converted]
) -> None:
    """Raises KsegError if new segments for all of ``files`` do not fit on the disk of ``path``, by an estimate, and if
    that is too large by a dry run. Raises the errors of `rewrite`, too. ``rewritten``: calls it.
    """
    growth: float = _SAME if request.magic is None and request.batch_bytes is None else _OTHER_FORMAT
    if request.target is not None and not request.target.codec:
        growth = _EXPANDED
    size = sum(Place(file.path).size() for file in files if Place(file.path).is_file())
    if size * growth + MARGIN_BYTES <= free_bytes(path):
        return
    check_free(path, sum(rewritten(None).files.values()))


_MAX_DAMAGES = 20


class ConversionPlanner(Planner):
    """Makes the plans of `kseg convert --in-place`. ``conversion``: converts segments, here or elsewhere."""

    command = "convert"

    def __init__(
        self,
        options: ConvertOptions,
        change: ChangeOptions,
        reporter: Reporter,
        conversion: Conversion = convert_segments,
    ) -> None:
        super().__init__(reporter)
        self._options, self._conversion, self._is_dry = options, conversion, change.is_dry
        self._request_of = requests_for(options, self.nodes, reporter)

    def plan_partition(self, directory: str, known: Known) -> Iterator[Plan]:
        with ExitStack() as staged:
            yield self._plan(directory, staged)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        named = Topics(self._options.topics, self.nodes).named(directory, segment_files.own_partitions(directory))
        parts = [path for path in named if not is_left_alone(path, self.reporter)]
        parts = [path for path in parts if os.path.basename(path) not in done]
        request = self._options
        if not self._is_dry and request.magic in (0, 1) and not request.is_lossy:
            for path in parts:  # if one is refused for loss of information, none is changed
                rewrite(path, segments_of(path), path, request, None, self._conversion)
        for path in parts:
            with self.attempt(path), ExitStack() as staged:
                yield self._plan(path, staged)

    def _plan(self, directory: str, staged: ExitStack) -> Plan:
        files, folder, request = segments_of(directory), None, self._request_of(directory)
        work = partial(rewrite, directory, files, directory, request)
        if not self._is_dry:
            _check_space(directory, files, request, work)
            folder = staged.enter_context(staging(directory)).make_folder()
        made = work(folder, self._conversion)
        report_losses(directory, made, self.reporter)
        if folder is not None:
            copy_owner_to_files(folder, directory)
        return plan_rewriting(directory, made, folder, self._options.reason)


def requests_for(options: ConvertOptions, nodes: Nodes, messages: Messages) -> Callable[[str | None], ConvertOptions]:
    """Returns a function from a partition directory, None for a file, to its request: if no index interval is given, it
    is that of the topic or the indexes.
    """
    intervals = TopicIntervals(options.interval_bytes, nodes, messages.warning, messages.detail)
    return lambda place: options if place is None else replace(options, interval_bytes=intervals.of(place))


def report_losses(name: str, found: Converted, messages: Messages) -> None:
    """Reports what was left out or lost."""
    for file, damage in found.skipped[:_MAX_DAMAGES]:
        messages.warning(
            f"{file}: {damage.code} at position {damage.position}, {damage.length} bytes left out: {damage.message}"
        )
    if len(found.skipped) > _MAX_DAMAGES:
        messages.warning(f"{name}: {len(found.skipped) - _MAX_DAMAGES} more damaged ranges are left out")
    if found.left_out:
        messages.warning(f"{name}: {found.left_out} batches left out that a read_committed consumer does not see")
    if found.open_transactions:
        messages.warning(
            f"{name}: {found.open_transactions} transactions have no end marker in the range: consumers with "
            "read_committed wait at their first record"
        )
    if found.losses:
        messages.warning(f"{name}: lost: {losses_text(found.losses)}")
    new_bytes = sum(segment.sizes[LOG] for segment in found.segments)
    messages.detail(f"{name}: {found.batches} batches, {found.old_bytes} bytes before, {new_bytes} after")


def is_left_alone(path: str, messages: Messages) -> bool:
    """Whether a partition of a log directory is not converted with the others. Reports why."""
    name = segment_files.directory_name(path)
    if name.startswith(segment_files.METADATA_TOPIC + "-"):
        messages.warning(f"{path}: left alone: the log of the cluster's metadata; name it to convert it")
        return True
    if name != segment_files.own_name(path):
        messages.warning(f"{path}: left alone: a broker has moved or deleted it; name it to convert it")
        return True
    return False


NAMELESS = "segment-0"
"""The partition of a segment whose directory is not named as a partition."""


def convert_to_new(
    paths: Sequence[str],
    output: str,
    options: ConvertOptions,
    change: ChangeOptions,
    messages: Messages,
    conversion: Conversion = convert_segments,
) -> list[Plan]:
    """Converts the paths to partitions below ``output``, or plans that in a dry run. Returns a plan for each.

    ``conversion``: converts segments, here or elsewhere. Raises KsegError; nothing was written then.
    """
    paths = expanded(paths)
    is_dry, plans, request_of = change.is_dry, list[Plan](), requests_for(options, Nodes(paths), messages)
    ends: dict[str, tuple[int, int]] = {}
    model, names = (
        next((resolved(path) for path in paths if Place(path).is_dir()), Place("")),
        defaultdict[str, dict[str, str]](dict),
    )
    with new_directories(output, change.takes_lock, is_dry, model) as made:
        for name, (path, directory) in _sources(paths, output, options, messages).items():
            is_file = directory is None and path != STANDARD_INPUT
            folder = made.add(name, is_dry, directory or resolved(path) * is_file)
            files = [segment_files.segment_file(path)] if directory is None else segments_of(directory)
            request = request_of(directory)
            work = partial(rewrite, path, files, directory, request)
            if not is_dry:
                _check_space(folder, files, request, work)
            rewritten = work(None if is_dry else folder, conversion)
            report_losses(path, rewritten, messages)
            if not rewritten.segments:
                where = "range" if options.is_selective else "file"
                messages.warning(f"{path}: no record is in the {where}: left out")
                made.drop(name, is_dry)
                continue
            ends[name] = rewritten.segments[0].base_offset, rewritten.next_offset
            if directory is not None:
                names[Place(directory).absolute.parent][segment_files.directory_name(directory)] = name
            if not is_dry:
                if directory is not None:
                    complete(folder, directory, rewritten.carried)
                place = directory or resolved(path).parent or "."
                accepted = [] if path == STANDARD_INPUT else accepted_gaps(place).ranges
                record(folder, [*accepted, *known_gaps(rewritten.gaps)], Disk())
            plans.append(plan_of_new(Place(output) / name, rewritten.files, options.reason))
        if plans and not is_dry:
            _add_root_files(made, [resolved(path) for path in paths if Place(path).is_dir()], names, options, ends)
    return plans


def _add_root_files(
    made: NewDirectories,
    sources: Sequence[str],
    names: Mapping[str, Mapping[str, str]],
    options: ConvertOptions,
    ends: dict[str, tuple[int, int]],
) -> None:
    """Adds the files of the log directories among ``sources`` to a new output, and the entries of checkpoints to any.

    ``names``: the new name of each partition, by log directory; ``ends``: as in `_checkpoints`.
    """
    is_log_directory = is_log_directory_of_broker(made.output)
    first = next((source for source in sources if not is_partition(source)), None)
    if not is_log_directory and first is not None:  # of several disks, the first gives its ids
        write_root_files(_checkpoints(first, ends) if options.is_selective else {}, made.folder, first)
        is_log_directory = True
    for root, renamed in names.items():
        contents = _checkpoints(root, ends) if options.is_selective else {}
        for name, rows in copied_rows(root, contents, renamed).items():
            if is_log_directory or name in NEEDED_BY_COPIES:
                made.rows.setdefault(name, {}).update(rows)


def _checkpoints(source: str, ends: dict[str, tuple[int, int]]) -> dict[str, bytes]:
    """Returns the checkpoints of a log directory whose partitions are ranges of those in ``source``: of their offsets
    only log starts within the ranges hold. ``ends``: first offset and end of each partition.
    """
    found: dict[str, bytes] = {}
    for name in OFFSET_CHECKPOINTS:
        if Place(path := Place(source) / name).exists():
            offsets = checkpoint_offsets(path) if name == LOG_STARTS else {}
            known = {place: ends.get("{}-{}".format(*place), (0, 0)) for place in offsets}
            kept = {place: at for place, at in offsets.items() if known[place][0] < at <= known[place][1]}
            found[name] = build_offset_checkpoint(kept)
    return found


def check_output_of(options: ConvertOptions, output: str, paths: Sequence[str]) -> None:
    """Raises PathError if a conversion or an export of the paths may not write to ``output``."""
    is_copy = not (options.is_export or options.source)
    check_output(output, paths if options.source else (), is_copy and is_of_one_node(output, paths))


def plan_of_new(directory: str, files: dict[str, int], reason: str) -> Plan:
    """Returns the plan of a new directory with files of these sizes."""
    return Plan(directory, [Step(CREATE, name, reason, None, size) for name, size in sorted(files.items())])


def _sources(
    paths: Sequence[str], output: str, options: ConvertOptions, messages: Messages
) -> dict[str, tuple[str, str | None]]:
    """Returns the path of each new partition by name, and the partition directory, None for a single file.

    Raises PathError if two have the same name.
    """
    found: dict[str, tuple[str, str | None]] = {}
    nodes = Nodes(paths)
    for path in paths:
        parts = expand_path(path)
        if parts != [path]:
            warn_of_skipped_files(path, False, messages.warning)
            parts = Topics(options.topics, nodes).named(path, parts)
        for part in parts:
            if path != part and is_left_alone(part, messages):
                continue
            warn_of_skipped_files(part, Place(part).is_dir() and not segments_at(part), messages.warning)
            directory: str | None = None
            if Place(part).is_dir():
                name, directory = segment_files.own_name(part), resolved(part)
            else:
                folder = Place(part).absolute.parent
                place = None if part == STANDARD_INPUT else segment_files.parse_partition_name(os.path.basename(folder))
                name = NAMELESS if place is None else segment_files.own_name(folder)
            if name in found:
                raise PathError(
                    f"{found[name][0]} and {part} would both become {os.path.join(output, name)}: convert them one by "
                    "one, each with an --output of its own; nothing was written"
                )
            found[name] = part, directory
    return found
