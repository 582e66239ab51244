"""Runs a dump: reads every PATH in order, filters it and passes it to the printer of the chosen form."""

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from kseg.changes.quarantine import kept_logs
from kseg.dump.filters import Filters, without_snapshots
from kseg.dump.options import JSON, TABLE, TEXT, DumpOptions, InclusiveRange, Rendered, RendererOf
from kseg.errors import KsegError, PathError, RequestError, StoppedHalfwayError, UnsupportedError
from kseg.formats.rows import Rows, Scratch
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.kernel import COMPILED
from kseg.kernel.scan.frames import LONG_RUNS
from kseg.node.log_starts import LogStarts
from kseg.node.paths import expanded
from kseg.output.fleet_table import FLEET_WIDTH, MAX_SEPARATE_PARTITIONS, fleet_table
from kseg.output.kafka_text import KafkaTextPrinter, ends_silently
from kseg.output.notices import Notices, on_one_line, put_line
from kseg.output.printer import ParallelPrinter, Printer, Style
from kseg.output.progress import pieces, progress_over
from kseg.output.sink import Sink
from kseg.output.terminal import Paint, line_width
from kseg.runtime.threads import usable_cores
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, list_segments, listing_of, segment_file
from kseg.segment.items import Batch, Damage, Message07, RowSpan, Spans, all_rows
from kseg.segment.paths import (
    partition_count,
    refuse_empty_pack,
    segments_at,
    some,
    warn_of_skipped_files,
    warn_of_unread,
)
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.stores.place import Place
from kseg.stores.source import STANDARD_INPUT, Source, open_source
from kseg.stores.stored_object import is_url
from kseg.stores.trees import Tree, VirtualFiles

if TYPE_CHECKING:
    from kseg.node.node import Nodes
    from kseg.output.side_files import SideJsonPrinter
    from kseg.output.summary import BacklogOf
    from kseg.segment.isolation import Transactions
    from kseg.sidefiles.kinds import SideFile
    from kseg.stores.remote.segment import RemotePartition, RemoteSegment


KAFKA_MAX_BYTES = (1 << 31) - 1
"""kafka-dump-log's default of --max-bytes. With it, trailing bytes are reported as without the option."""


class EndOfDumpError(Exception):
    """The limit is reached, or the dump stops at damage."""


class Dump:
    """One run over all paths. ``renderer_of`` creates a renderer in other processes."""

    def __init__(self, sink: Sink, options: DumpOptions, renderer_of: RendererOf | None = None) -> None:
        self.options = options
        self.notices = Notices(options.color, options.quiet, options.verbose)
        self.scratch = Scratch(options.max_batch_bytes)
        self._choose = options.decoder_by_file(self.notices.warning)
        style = Style(
            options.shows_records, options.shows_contents, options.skip_record_metadata, sink.is_terminal,
            options.decoder_of_all(), self._choose,
        )  # fmt: skip
        self.filters = Filters(options, self.scratch, self.notices)
        self._paths = expanded(options.paths)
        self._log_starts = LogStarts(self._paths)
        self._deleted: list[str] = []
        is_partial = options.hides_deleted and self._holds_deleted()
        self.is_selective = self.filters.are_set or is_partial or options.limit is not None or options.read_committed
        self._spans: Spans = self._selected if self.is_selective else all_rows
        self.sink = sink
        self.printers = printers_of(options, sink, style, self.scratch, self.notices, self.is_selective)
        self.printer = self.printers[0]
        # Output on the terminal replaces progress.
        is_watched = sink.is_terminal and not (options.summary or options.committed_offsets)
        self.progress = progress_over(self._paths, options.quiet or is_watched, options.everything, options.parts_of)
        self.notices.before = self.progress.erase
        self._side: SideJsonPrinter | None = None
        self.left = options.limit
        self.transactions: Transactions | None = None
        self.damaged_ranges = self.damaged_bytes = self.open_transactions = 0
        self._errors = 0  # in parts rendered by other processes
        self.status = 0
        self._elsewhere = renderer_of(self._files()) if renderer_of is not None else None

    @cached_property
    def nodes(self) -> "Nodes":
        """The nodes at the PATHs."""
        from kseg.node.node import Nodes  # few dumps need to know more than the files

        return Nodes(self.options.paths)

    def _files(self) -> Iterator[tuple[SegmentFile, bool]]:
        """Yields all segments in the order of the dump, each with a flag: whether a broker is still writing to it."""
        for path in self._paths:
            with suppress(KsegError):  # reported when the path is dumped
                for part in self.options.parts_of(path):
                    with suppress(KsegError):
                        yield from self._files_of(segments_at(part, self.options.everything))

    def _files_of(self, all_files: list[SegmentFile]) -> list[tuple[SegmentFile, bool]]:
        """Returns the selected files."""
        files = self.filters.among(without_snapshots(all_files) if self.options.summary else all_files)
        written_to = next((file for file in reversed(files) if file.kind != CHECKPOINT and not file.leftover), None)
        live = self.options.live
        return [(file, live and (file is written_to or len(files) == 1)) for file in files]

    def run(self) -> int:
        """Prints every path. Returns the highest exit status."""
        with self.progress:
            try:
                for path in self._paths:
                    self._path(path)
            except EndOfDumpError:
                self.printer.finish()
            if self.options.open_transactions:
                from kseg.dump.open_transactions import list_gone

                self.open_transactions += list_gone(self.sink, self.options, self.nodes)
            self.progress.erase()
            if self.options.committed_offsets and not self.printer.files and not self.status:
                self._failed("no PATH holds a partition of __consumer_offsets", 3)
            # Outputs that have files are ended, or the first one if none has.
            for number, printer in enumerate([each for each in self.printers if each.files] or self.printers[:1]):
                if number:
                    self.sink.write(b"\n")
                printer.close()
        self.filters.summarize()
        self._report_deleted()
        if self.options.open_transactions and not self.open_transactions and not self.status:
            self.notices.warning("there are no open transactions")
        errors = sum(printer.errors for printer in self.printers) + self._errors
        if errors and self.options.form == TEXT and not self.options.summary:
            self.notices.warning(
                f"damaged ranges: {self.damaged_ranges}, bytes in them: {self.damaged_bytes}, "
                f"problems with batches: {errors - self.damaged_ranges}"
            )
        if self._side is not None:
            errors += self._side.errors
            for line in self._side.report():
                put_line(on_one_line(line))
        return max(self.status, int(errors > 0))

    def _failed(self, error: object, status: int) -> None:
        self.printer.finish()
        self.notices.error(error)
        self.sink.failures.append(str(error))
        self.status = max(self.status, status)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Reports errors of a path or file, after which the dump continues."""
        try:
            yield
        except (StoppedHalfwayError, RequestError):
            raise
        except KsegError as error:
            self._failed(error, error.exit_status)

    def _path(self, path: str) -> None:
        if is_url(path) or Place(path).is_dir():
            from kseg.stores.remote.recognition import is_remote_storage  # most paths are files

            if is_remote_storage(path):
                self._remote(path)
                return
        try:
            parts, moved = self.options.split_parts(path)
        except KsegError as error:
            self._failed(error, error.exit_status)
            return
        if parts != [path]:
            warn_of_skipped_files(path, False, self.notices.warning)
        more = "" if self.options.is_export else ", or give --all"
        warn_of_unread(moved, self._paths, self.notices.warning, more)
        if self.options.committed_offsets and parts != [path]:
            for directory in self.nodes.at(path).directories:
                self.printer.add_directory(directory.path)
        for part in parts:
            with self._failures():
                self._part(part)
        if self.options.everything and parts != [path]:
            self._side_files(path)

    def _remote(self, path: str) -> None:
        """Prints the segments of remote storage, those of lost leaders too."""
        from kseg.stores.remote.segment import open_storage

        if self.options.open_transactions or self.options.committed_offsets:
            self._failed(f"{path}: remote storage can only be dumped as segments", KsegError.exit_status)
            return
        with self._failures():
            for partition in open_storage(path, self.options.remote.keys).partitions:
                if self.options.remote.wants(partition.topic):
                    self._remote_partition(path, partition)

    def _remote_partition(self, path: str, partition: "RemotePartition") -> None:
        asked = (self.options.offsets, self.options.times, self.options.limit, self.options.positions)
        is_in_place = any(value is not None for value in asked)
        files, all_files, unread = list[SegmentFile](), list[SegmentFile](), list[str]()
        opened = dict[str, Tree]()
        tree = VirtualFiles(opened)
        for segment, following in zip_longest(partition.segments, partition.segments[1:]):
            file = _remote_file(partition, segment, tree)
            if segment.missing:
                unread.append(f"{file.path}: left out: there is no {', '.join(segment.missing)}")
                continue
            opened |= segment.files(file.path, is_in_place)
            all_files.append(file)
            if _may_match(segment, following, self.options.offsets):
                files.append(file)
        for text in unread:  # not before: a key of a manifest may be missing, and then nothing is read
            self.notices.warning(text)
        if self.options.summary:
            self.printer.is_of_directory, self.printer.listing = True, None
        self.transactions = None
        if self.options.read_committed:
            from kseg.node.remote_partitions import candidates_of, lineage_of, live_segments
            from kseg.segment.isolation import Transactions

            candidates, _ = candidates_of(partition)
            pieces = live_segments(candidates, lineage_of(candidates)).pieces  # as a consumer would read them
            logs = [_remote_file(partition, piece.candidate.segment, tree) for piece in pieces]
            self.transactions = Transactions.of_segments(logs, self.scratch)
        self._decode_for_filters(files)
        self._segments([(file, False) for file in files])
        self.filters.end_of_place(all_files, path)

    def _side_files(self, directory: str) -> None:
        """With --all: prints the other files of a partition or of a log directory."""
        from kseg.sidefiles.kinds import list_side_files

        with self._failures():
            for file in list_side_files(directory):
                self._file(segment_file(file.path), live=False)

    def _part(self, path: str) -> None:
        """Prints a partition directory, or one file."""
        listing = listing_of(path) if Place(path).is_dir() else None
        all_files = segments_at(path, self.options.everything, listing)
        if self.options.everything or self.options.filters_contents:
            others = self._other_files(path, all_files)
            if self.options.everything:
                all_files += others
            else:
                self.filters.leave_unread(others)
        if self.options.open_transactions:
            self._open_transactions(path, all_files)
            return
        if listing is not None:
            warn_of_skipped_files(path, not all_files, self.notices.warning, listing=listing)
        self._decode_for_filters(all_files)
        self._note_deleted(path, all_files)
        self.filters.narrow(all_files, self.options.live)
        files = self._files_of(all_files)
        if self.options.summary:
            self.printer.is_of_directory, self.printer.listing = listing is not None, listing
        self.transactions = None
        if self.options.read_committed and Place(path).exists():
            from kseg.segment.isolation import Transactions

            beside = segments_at(Place(path).absolute.parent if listing is None else path, listing=listing)
            logs = [file for file in beside if file.kind == LOG]
            if listing is not None or os.path.basename(path) in [file.name for file in logs]:
                self.transactions = Transactions.of_segments(logs, self.scratch, self.options.live)
        self._segments(files)
        if self.options.everything and listing is not None:
            self._side_files(path)
        if self.status < 3:
            self.filters.end_of_place([] if self.options.fetch_response else all_files, path)

    def _log_start(self, files: Sequence[SegmentFile]) -> int:
        """Returns the log start offset of a partition if some of its segments begin below it, else 0."""
        first = next((file for file in files if not file.leftover and file.is_segment), None)
        found = 0 if first is None else self._log_starts.of_file(first)
        return found if first is not None and found > (first.base_offset or 0) else 0

    def _holds_deleted(self) -> bool:
        """Whether records below a log start offset are left out of any partition."""
        for path in self._paths:
            with suppress(KsegError):  # reported when the path is dumped
                if any(self._log_start(segments_at(part)) for part in self.options.parts_of(path)):
                    return True
        return False

    def _note_deleted(self, path: str, files: Sequence[SegmentFile]) -> None:
        """Counts a partition with records below its log start offset, and leaves these out if they are to be hidden."""
        if self.options.summary or self.options.committed_offsets or path == STANDARD_INPUT:
            return
        start = self._log_start(files)
        self.filters.begin_at(start if self.options.hides_deleted else 0)
        if start and self.filters.may_be_below(start):
            self._deleted.append(f"{path}: {start}")

    def _report_deleted(self) -> None:
        if self._deleted:
            done = "left out" if self.options.hides_deleted else "shown, though a broker no longer gives them"
            self.notices.warning(f"deleted records, below the log start offset, are {done}: {some(self._deleted)}")

    def _other_files(self, path: str, files: list[SegmentFile]) -> list[SegmentFile]:
        """Returns the files of a partition that may hold other records than its segments, ``files``: leftovers of logs,
        and what quarantines keep of them.
        """
        if not Place(path).is_dir():
            return []
        known = {file.path for file in files}
        left = [file for file in list_segments(path, True) if file.leftover and file.path not in known]
        try:
            return left + kept_logs(path)
        except KsegError as error:
            self.notices.warning(str(error))
            return left

    def _decode_for_filters(self, files: Sequence[SegmentFile]) -> None:
        """Lets the filters match keys and values that are decoded by schemas, too."""
        first = next((file for file in files if not _side_file_at(file)), None)
        found = self._choose(first) if self._choose is not None and first is not None else None  # before threads ask
        self.filters.selection.decoder = None if getattr(found, "implies_contents", True) else found

    def _segments(self, files: list[tuple[SegmentFile, bool]]) -> None:
        for file, is_live in files:
            with self._failures():
                try:
                    self._file(file, is_live)
                except (BrokenPipeError, KsegError):
                    raise
                except OSError as error:
                    self._failed(f"{file.path}: {error.strerror}", 4)

    def _open_transactions(self, path: str, files: list[SegmentFile]) -> None:
        from kseg.dump.open_transactions import list_open

        if (asked := self.options.transaction_state) and not Place(asked).is_dir():
            raise PathError(f"{asked}: no such directory")
        self.open_transactions += list_open(self.sink, path, files, self.options, self.scratch, self.nodes)

    def _side_file(self, file: "SideFile") -> None:
        if self._side is None:
            from kseg.output.side_files import SideJsonPrinter, SideTextPrinter

            of, make = self.options, SideJsonPrinter if self.options.form == JSON else SideTextPrinter
            self._side = make(
                self.sink, self.scratch, self.notices.warning, verify_only=of.verify_index_only,
                sanity_check=of.index_sanity_check, max_message_bytes=of.max_message_size,
                escape=self.sink.is_terminal,
            )  # fmt: skip
        errors = self._side.errors
        self._side.dump(file)
        if self.options.stop_on_damage and self._side.errors > errors:
            raise EndOfDumpError

    def _file(self, file: SegmentFile, live: bool) -> None:
        refuse_empty_pack(file.path)
        if file.is_packed:
            raise UnsupportedError(f"{file.path}: is not packed despite its suffix: rename it")
        side = _side_file_at(file)
        if file.kind and not file.is_segment and side is None:
            raise UnsupportedError(f"{file.path}: {file.kind} files cannot be dumped by this release of kseg")
        output = self.options.output
        if output and Place(output).is_same_file(file.path):
            raise RequestError(f"{output}: would be replaced by its own dump")
        self.progress.at(file.path)
        if side is not None:
            self._side_file(side)
            return
        if self._elsewhere is not None and (rendered := self._elsewhere(file)) is not None:
            self._rendered(file, rendered)
            return
        with open_source(file.path) as source:
            if self.options.read_committed and self.transactions is None:
                from kseg.segment.isolation import Transactions

                self.transactions = Transactions()
                self.transactions.read(self.reader(file, source, live))
            if self.left == 0:
                raise EndOfDumpError
            # Leftover files repeat records of the segments, in another order.
            is_other = file.topic == OFFSETS_TOPIC and not file.leftover
            self.printer = self.printers[-1 if is_other else 0]
            try:
                self.printer.begin(file)
                if self.options.fetch_response:
                    self._message_sets(file, source)
                else:
                    reader = self.reader(file, source, live)
                    self.filters.begin(reader, file)
                    if self.options.positions is not None and source.is_in_place:
                        from kseg.segment.seek import seek_position

                        reader.begin_at(seek_position(reader, file, self.options.positions[0]) or 0)
                    self._items(file, reader)
                self.printer.finish()
            except BaseException:
                self.printer.abandon()
                raise
            if source.current_size() < source.size:
                self._failed(shrank(file.path, source), 1)

    def _rendered(self, file: SegmentFile, parts: list[Rendered]) -> None:
        """Prints a segment that was rendered in another process."""
        self.printer.begin(file)
        self.printer.finish()
        for part in parts:
            self.sink.write(zlib.decompress(part.text))
            self._errors += part.errors
            self.damaged_ranges += part.damaged_ranges
            self.damaged_bytes += part.damaged_bytes
            for text in part.warnings:
                self.notices.warning(text)
            self.progress.advance(part.size)
        self._report_items(
            file, parts[-1].end, sum(part.batches for part in parts), sum(p.damaged_ranges for p in parts)
        )
        for failure in {part.shrank for part in parts if part.shrank}:
            self._failed(failure, 1)

    def _report_items(self, file: SegmentFile, size: int, batches: int, ranges: int) -> None:
        self.notices.detail(f"{file.path}: bytes: {size}, batches: {batches}, damaged ranges: {ranges}")

    def reader(self, file: SegmentFile, source: Source, live: bool) -> SegmentReader:
        """Returns a reader of a segment with the limits of the options."""
        return open_segment(
            file, self.scratch, source=source, is_07=self.options.is_07, live=live, max_bytes=self.options.max_bytes,
            scan_options=LONG_RUNS,
        )  # fmt: skip

    def _message_sets(self, file: SegmentFile, source: Source) -> None:
        from kseg.segment.seek import message_sets

        for part in message_sets(source, self.scratch):
            if isinstance(part, Damage):
                self.damaged_ranges += 1
                self.damaged_bytes += part.length
                self.printer.damage(part)
                continue
            found, reader = part
            if found.error_code:
                self.notices.warning(f"{file.path}: position {found.start}: error code {found.error_code}")
            if found.missing:
                self.notices.warning(f"{file.path}: position {found.end}: bytes missing at the end: {found.missing}")
            self.filters.restart()
            self._items(file, reader)

    def _items(self, file: SegmentFile, reader: SegmentReader) -> None:
        batches, ranges = 0, self.damaged_ranges
        self.printer.attend(reader)
        for item in reader.runs():
            if self.options.positions and reader.source.is_in_place and item.position > self.options.positions[1]:
                break
            if isinstance(item, Damage):
                self.damage(reader, item)
                self.progress.advance(item.length)
                continue
            batches += item.count
            if not all(self._run(reader, run) for run in pieces(item)):
                break
        self._report_items(file, reader.end, batches, self.damaged_ranges - ranges)

    def _run(self, reader: SegmentReader, run: Run) -> bool:
        """Prints the matches in a run. Returns False if no more matches can follow."""
        self.progress.advance(run.end - run.position)
        if self.is_selective or self.options.stop_on_damage:
            return all(self._batch(reader.batch(run, i, keep=False)) for i in range(run.count))
        self.printer.run(reader, run)
        return True

    def damage(self, reader: SegmentReader, damage: Damage) -> None:
        """Counts and prints damage. Raises EndOfDumpError if the dump stops at damage."""
        head = bytes(reader.buffer[damage.position : damage.position + 12])
        is_silent = damage.end == reader.end and not reader.is_07 and ends_silently(damage, head)
        if is_silent and reader.is_cut:
            return  # the rest of the batch may be after --max-bytes
        self.damaged_ranges += 1
        self.damaged_bytes += damage.length
        if is_silent:
            self.printer.trailing(damage, self.options.max_bytes in (None, KAFKA_MAX_BYTES))
        else:
            self.printer.damage(damage)
        if self.options.stop_on_damage:
            raise EndOfDumpError
        if not self.printer.style.deep or self.transactions is not None or not (batch := reader.broken_batch(damage)):
            return
        if is_silent and self.options.form == TEXT:  # kafka-dump-log.sh ends here, and the text is equal
            self.notices.warning(
                f"{reader.source.path}: position {damage.position}: --format json prints the readable records of a cut "
                "batch"
            )
        else:
            self.printer.unproven(batch, self._spans)

    def _batch(self, batch: Batch) -> bool:
        """Prints a batch if it matches. Returns False if no more matches can follow."""
        if self.filters.is_behind(batch):
            return False
        if self.transactions is not None and not isinstance(batch, Message07):
            stable = self.transactions.last_stable_offset
            if (stable is not None and batch.last_offset >= stable) or self.transactions.is_aborted(batch):
                return True
        if not self.filters.holds(batch):
            return True
        errors = self.printer.errors
        self.printer.batch(batch, self._spans)
        if self.left is not None and not self.printer.style.deep:
            self.left -= 1
        if self.left == 0 or (self.options.stop_on_damage and self.printer.errors > errors):
            raise EndOfDumpError
        return True

    def _selected(self, rows: Rows) -> list[RowSpan]:
        kept: list[RowSpan] = []
        for first, stop in self.filters.selection.spans(rows):
            if self.left is not None:
                stop = min(stop, first + self.left)
                self.left -= max(stop - first, 0)
            if stop > first:
                kept.append((first, stop))
        return kept


def shrank(path: str, source: Source) -> str:
    """Returns the message about a file that became shorter while it was read."""
    return f"{path}: the file shrank while it was read: {source.current_size()} of {source.size} bytes are left"


def _may_match(segment: "RemoteSegment", following: "RemoteSegment | None", offsets: InclusiveRange | None) -> bool:
    from kseg.stores.remote.segment import ManifestError

    if offsets is None:
        return True
    try:
        metadata = segment.manifest.metadata
    except (ManifestError, PathError):
        return True  # reported when it is opened
    end = None if metadata is None else metadata.end_offset
    if end is None and following is not None and following.start_offset > segment.start_offset:
        end = following.start_offset - 1
    return segment.start_offset <= offsets[1] and (end is None or end >= offsets[0])


def _remote_file(partition: "RemotePartition", segment: "RemoteSegment", tree: VirtualFiles) -> SegmentFile:
    path = Place(segment.path(), tree, os.path.basename(segment.path()))
    return SegmentFile(path, LOG, "", segment.start_offset, None, partition.topic, partition.number)


def _side_file_at(file: SegmentFile) -> "SideFile | None":
    """Returns the side file for a name that is not a segment's."""
    if file.is_segment:
        return None
    from kseg.sidefiles.kinds import side_file

    return side_file(file.path)


PIPED_TABLE_WIDTH = 120
HEX_WIDTH = 80


def printers_of(
    options: DumpOptions, sink: Sink, style: Style, scratch: Scratch, notices: Notices, is_selective: bool
) -> list[Any]:
    """Returns the printer of most files, and for tables of decoded topics that of __consumer_offsets.

    ``is_selective``: only some batches or records are printed. Otherwise text and JSON are rendered on several threads.
    """
    if options.open_transactions or not (
        options.as_hex or options.summary or options.committed_offsets or options.form == TABLE
    ):
        form: type[Printer] = KafkaTextPrinter
        if options.form == JSON:
            from kseg.output.jsonl import JsonLinesPrinter

            form = JsonLinesPrinter
        jobs = options.jobs or usable_cores()
        if jobs == 1 or is_selective or options.stop_on_damage or not COMPILED:
            return [form(sink, style, scratch)]
        # Batches can be rendered independently.
        return [ParallelPrinter(sink, lambda turn: form(turn, style, Scratch(scratch.max_batch_bytes)), jobs)]
    paint = Paint(options.color, sink.is_terminal)
    if options.as_hex:
        from kseg.output.hex_view import HexPrinter

        width = line_width(sink, HEX_WIDTH)
        return [HexPrinter(sink, scratch, paint=paint, width=width, positions=options.positions, unpacked=style.deep)]
    if options.summary:
        from kseg.output.summary import SummaryPrinter

        return [SummaryPrinter(
            sink, scratch, as_json=options.form == JSON, paint=paint, what_if=options.what_if, sample=options.sample,
            jobs=options.jobs or usable_cores(), fleet=_fleet_table(options, sink, paint),
            backlog=_backlogs(options),
        )]  # fmt: skip
    width = line_width(sink, PIPED_TABLE_WIDTH)
    printers: list[Any] = []
    if not options.committed_offsets:
        from kseg.output.table import TablePrinter

        printers.append(TablePrinter(sink, style, scratch, paint=paint, width=width))
    if options.committed_offsets or options.decode_by_topic:
        from kseg.output.table import CommittedOffsetsPrinter

        as_json = options.form == JSON
        printers.append(CommittedOffsetsPrinter(
            sink, style, scratch, as_json=as_json, warn=notices.warning, paint=paint, width=width, now=options.now
        ))  # fmt: skip
    return printers


def _fleet_table(options: DumpOptions, sink: Sink, paint: Any) -> Any:
    """Returns None if each partition has a summary of its own."""
    if options.form == JSON or options.what_if:
        return None
    if options.sort is None and partition_count(options.paths, options.parts_of) <= MAX_SEPARATE_PARTITIONS:
        return None
    return partial(fleet_table, sort=options.sort or "name", paint=paint, width=line_width(sink, FLEET_WIDTH))


def _backlogs(options: DumpOptions) -> "BacklogOf":
    """Returns the function for backlogs of the log cleaner."""
    from kseg.cleaner.log import backlog_of
    from kseg.node.node import Nodes

    nodes, now = Nodes(options.paths), int(time.time() * 1000) if options.now is None else options.now

    def backlog(partition: str, damaged: str) -> dict[str, Any] | None:
        found = backlog_of(partition, nodes.partition(partition).state, now, damaged)
        return None if found is None else found.as_object()

    return backlog
