"""Runs a dump: reads every PATH in order, filters it and passes it to the printer of the chosen form."""

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kseg.changes.quarantine import kept_logs
from kseg.dump.options import DumpOptions, Rendered, RendererOf
from kseg.errors import KsegError, UnsupportedError
from kseg.formats.rows import Rows, Scratch
from kseg.formats.suffixes import LOG
from kseg.kernel import COMPILED
from kseg.node.log_starts import LogStarts
from kseg.options.declaration import JSON, TABLE, TEXT
from kseg.output.kafka_text import KafkaTextPrinter, ends_silently
from kseg.output.notices import Paint, on_one_line, put_line
from kseg.output.printer import ParallelPrinter, Printer, Style
from kseg.output.sink import Sink
from kseg.output.terminal import line_width
from kseg.runtime.threads import usable_cores
from kseg.segment.files import SegmentFile, list_segments, listing_of, segment_file
from kseg.segment.items import Batch, Damage, Message07, RowSpan, Spans, all_rows
from kseg.segment.paths import segments_at, some, warn_of_skipped_files
from kseg.segment.reader import SegmentReader, open_segment
from kseg.stores.place import Place
from kseg.stores.source import STANDARD_INPUT, Source, is_stream
from kseg.stores.trees import VirtualFiles
from kseg.views.filters import Filters, Selection
from kseg.views.walk import SegmentWalk, remote_file

if TYPE_CHECKING:
    from kseg.output.side_files import SideJsonPrinter
    from kseg.segment.isolation import Transactions
    from kseg.sidefiles.kinds import SideFile
    from kseg.stores.remote.segment import RemotePartition


PIPED_TABLE_WIDTH = 120
HEX_WIDTH = 80
KAFKA_MAX_BYTES = (1 << 31) - 1
"""kafka-dump-log's default of --max-bytes. With it, trailing bytes are reported as without the option."""


class EndOfDumpError(Exception):
    """The limit is reached, or the dump stops at damage."""


class Dump(SegmentWalk[DumpOptions]):
    """One run over all paths. ``renderer_of`` creates a renderer in other processes."""

    def __init__(self, sink: Sink, options: DumpOptions, renderer_of: RendererOf | None = None) -> None:
        super().__init__(sink, options)
        self.is_07, self.max_bytes, self.remote = options.is_07, options.max_bytes, options.remote
        self._hint_of_unread = "" if options.is_export else ", or give --all"
        self._choose = options.decoder_by_file(self.notices.warning)
        style = Style(
            options.shows_records, options.shows_contents, options.skip_record_metadata, sink.is_terminal,
            options.decoder_of_all(), self._choose,
        )  # fmt: skip
        selection = Selection(
            options.offsets, options.times, options.key, options.producer_id, options.key_patterns,
            options.value_patterns, options.header_patterns, options.patterns,
        )  # fmt: skip
        self.filters = Filters(
            selection, self.scratch, self.notices, is_07=options.is_07, last=options.last, around=options.around,
            counts_batches=not options.shows_records,
        )  # fmt: skip
        self._log_starts = LogStarts(self._paths)
        self._deleted: list[str] = []
        is_partial = options.hides_deleted and self._holds_deleted()
        self._has_limits = is_partial or options.limit is not None or options.read_committed or options.stop_on_damage
        self._spans: Spans = self._selected if self.is_selective else all_rows
        self.printer = self._printer(style)
        self._show_progress(options.quiet or sink.is_terminal, options.everything)  # output there replaces progress
        self._side: SideJsonPrinter | None = None
        self.left = options.limit
        self.transactions: Transactions | None = None
        self.damaged_bytes = 0
        self._errors = 0  # in parts rendered by other processes
        self._elsewhere = renderer_of(self._files()) if renderer_of is not None else None

    def _printer(self, style: Style) -> Any:
        """Returns the printer of the form; of whole files, text and JSON are rendered on several threads."""
        options, sink, scratch = self.options, self.sink, self.scratch
        if not options.as_hex and options.form != TABLE:
            form: type[Printer] = KafkaTextPrinter
            if options.form == JSON:
                from kseg.output.jsonl import JsonLinesPrinter

                form = JsonLinesPrinter
            jobs = options.jobs or usable_cores()
            if jobs == 1 or self.is_selective or not COMPILED:
                return form(sink, style, scratch)
            # Batches can be rendered independently.
            return ParallelPrinter(sink, lambda turn: form(turn, style, Scratch(options.max_batch_bytes)), jobs)
        paint = Paint(options.color, sink.is_terminal)
        if options.as_hex:
            from kseg.output.hex_view import HexPrinter

            width = line_width(sink, HEX_WIDTH)
            return HexPrinter(sink, scratch, paint=paint, width=width, positions=options.positions, unpacked=style.deep)
        from kseg.output.table import TablePrinter

        return TablePrinter(sink, style, scratch, paint=paint, width=line_width(sink, PIPED_TABLE_WIDTH))

    def split_parts(self, path: str) -> tuple[list[str], list[str]]:
        return self.parts_of_topics(path, self.options.remote.topics, self.options.everything)

    @property
    def is_in_place(self) -> bool:
        options = self.options
        limits = options.limit, options.positions, options.last, options.around
        return super().is_in_place or any(each is not None for each in limits)

    @property
    def is_selective(self) -> bool:
        return super().is_selective or self._has_limits

    def _files(self) -> Iterator[tuple[SegmentFile, bool]]:
        """Yields all segments in the order of the dump, each with a flag: whether a broker is still writing to it."""
        for path in self._paths:
            with suppress(KsegError):  # reported when the path is dumped
                for part in self.parts_of(path):
                    with suppress(KsegError):
                        yield from self._with_live(self.filters.among(segments_at(part, self.options.everything)))

    def run(self) -> int:
        """Prints every path. Returns the highest exit status."""
        status = super().run()
        self._report_deleted()
        errors = self.printer.errors + self._errors
        if errors and self.options.form == TEXT:
            self.notices.warning(
                f"damaged ranges: {self.damaged_ranges}, bytes in them: {self.damaged_bytes}, "
                f"problems with batches: {errors - self.damaged_ranges}"
            )
        if self._side is not None:
            errors += self._side.errors
            for line in self._side.report():
                put_line(on_one_line(line))
        return max(status, int(errors > 0))

    def _all_paths(self) -> None:
        try:
            super()._all_paths()
        except EndOfDumpError:
            self.printer.finish()

    def _end_of_log_directory(self, path: str) -> None:
        if self.options.everything:
            self._side_files(path)

    def _begin_remote(self, partition: "RemotePartition", files: list[SegmentFile], tree: VirtualFiles) -> None:
        self.transactions = None
        if self.options.read_committed:
            from kseg.node.remote_partitions import candidates_of, lineage_of, live_segments
            from kseg.segment.isolation import Transactions

            candidates, _ = candidates_of(partition)
            pieces = live_segments(candidates, lineage_of(candidates)).pieces  # as a consumer would read them
            logs = [remote_file(partition, piece.candidate.segment, tree) for piece in pieces]
            self.transactions = Transactions.of_segments(logs, self.scratch)
        self._decode_for_filters(files)
        self._narrow(files)

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
        if listing is not None:
            warn_of_skipped_files(path, not all_files, self.notices.warning, listing=listing)
        self._decode_for_filters(all_files)
        self._note_deleted(path, all_files)
        segments = [file for file in all_files if _is_segment(file)]
        self.transactions = None
        if self.options.read_committed and not is_stream(path):
            from kseg.segment.isolation import Transactions

            beside = segments_at(Place(path).absolute.parent if listing is None else path, listing=listing)
            logs = [file for file in beside if file.kind == LOG]
            if listing is None and os.path.basename(path) not in [file.name for file in logs]:
                logs = segments  # outside of a partition directory
            self.transactions = Transactions.of_segments(logs, self.scratch, self.options.live)
        self._narrow(segments, self.options.live)
        self._segments(self._with_live(self.filters.among(all_files)))
        if self.options.everything and listing is not None:
            self._side_files(path)
        self._end_of_place([] if self.options.fetch_response else all_files, path)

    def _narrow(self, files: Sequence[SegmentFile], live: bool = False) -> None:
        read = partial(open_segment, scratch=self.scratch, live=live, is_07=self.is_07, max_bytes=self.max_bytes)
        self.filters.narrow(files, read, self._is_visible)

    def _log_start(self, files: Sequence[SegmentFile]) -> int:
        """Returns the log start offset of a partition if some of its segments begin below it, else 0."""
        first = next((file for file in files if not file.leftover and file.is_segment), None)
        found = 0 if first is None else self._log_starts.of_file(first)
        return found if first is not None and found > (first.base_offset or 0) else 0

    def _holds_deleted(self) -> bool:
        """Whether records below a log start offset are left out of any partition."""
        for path in self._paths:
            with suppress(KsegError):  # reported when the path is dumped
                if any(self._log_start(segments_at(part)) for part in self.parts_of(path)):
                    return True
        return False

    def _note_deleted(self, path: str, files: Sequence[SegmentFile]) -> None:
        """Counts a partition with records below its log start offset, and leaves these out if they are to be hidden."""
        if path == STANDARD_INPUT:
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

    def _side_file(self, file: SegmentFile) -> bool:
        side = _side_file_at(file)
        if side is None:
            if file.kind:
                raise UnsupportedError(f"{file.path}: {file.kind} files cannot be dumped by this release of kseg")
            return False
        if self._side is None:
            from kseg.output.side_files import SideJsonPrinter, SideTextPrinter

            of, make = self.options, SideJsonPrinter if self.options.form == JSON else SideTextPrinter
            self._side = make(
                self.sink, self.scratch, self.notices.warning, verify_only=of.verify_index_only,
                sanity_check=of.index_sanity_check, max_message_bytes=of.max_message_size,
                escape=self.sink.is_terminal,
            )  # fmt: skip
        errors = self._side.errors
        self._side.dump(side)
        if self.options.stop_on_damage and self._side.errors > errors:
            raise EndOfDumpError
        return True

    def _source(self, file: SegmentFile, source: Source, live: bool) -> None:
        if self.options.read_committed and self.transactions is None:
            from kseg.segment.isolation import Transactions

            self.transactions = Transactions()
            self.transactions.read(self.reader(file, source, live))
        if self.left == 0:
            raise EndOfDumpError
        super()._source(file, source, live)

    def _read(self, file: SegmentFile, source: Source, live: bool) -> None:
        if self.options.fetch_response:
            self._message_sets(file, source)
            return
        reader = self.reader(file, source, live)
        self.filters.begin(reader, file)
        if self.options.positions is not None and source.is_in_place:
            from kseg.segment.seek import seek_position

            reader.begin_at(seek_position(reader, file, self.options.positions[0]) or 0)
        self._items(file, reader)

    def _segment(self, file: SegmentFile, live: bool) -> None:
        if self._elsewhere is not None and (rendered := self._elsewhere(file)) is not None:
            self._rendered(file, rendered)
        else:
            super()._segment(file, live)

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

    def _is_behind(self, reader: SegmentReader, position: int) -> bool:
        positions = self.options.positions
        return positions is not None and reader.source.is_in_place and position > positions[1]

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
        if not (self._is_visible(batch) and self.filters.holds(batch)):
            return True
        errors = self.printer.errors
        self.printer.batch(batch, self._spans)
        if self.left is not None and not self.printer.style.deep:
            self.left -= 1
        if self.left == 0 or (self.options.stop_on_damage and self.printer.errors > errors):
            raise EndOfDumpError
        return True

    def _is_visible(self, batch: Batch) -> bool:
        """Whether a consumer with this isolation gets the batch."""
        if self.transactions is None or isinstance(batch, Message07):
            return True
        stable = self.transactions.last_stable_offset
        return (stable is None or batch.last_offset < stable) and not self.transactions.is_aborted(batch)

    def _selected(self, rows: Rows) -> list[RowSpan]:
        kept: list[RowSpan] = []
        for first, stop in self.filters.selection.spans(rows):
            if self.left is not None:
                stop = min(stop, first + self.left)
                self.left -= max(stop - first, 0)
            if stop > first:
                kept.append((first, stop))
        return kept


def _is_segment(file: SegmentFile) -> bool:
    """Whether a file is read as a segment, which needs no telling name."""
    return file.is_segment or (not file.kind and _side_file_at(file) is None)


def _side_file_at(file: SegmentFile) -> "SideFile | None":
    """Returns the side file for a name that is not a segment's."""
    if file.is_segment:
        return None
    from kseg.sidefiles.kinds import side_file

    return side_file(file.path)
