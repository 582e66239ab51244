"""The text form of a dump: the lines of kafka-dump-log.sh 4.4.0, byte for byte if that tool reads a file to its end.

Differences: damage is a line ``| damage: CODE position: P length: N`` in its place, records of a damaged range begin
with ``| proven: false``, a magic outside 0-2 is not valid, and control characters are escaped on a terminal. Files of
Kafka 0.7, which that tool cannot read, have similar lines.
"""

import os
import re
from contextlib import suppress

from kseg.formats import java_text
from kseg.formats.message_set import MIN_SIZE
from kseg.formats.rows import Rows, UndecodableError, int64s
from kseg.formats.suffixes import CHECKPOINT
from kseg.kernel.layout.headers import ENTRY_OVERHEAD, ENTRY_SIZE, SHORT_TAIL_BYTES
from kseg.kernel.layout.rows import DONE, FRAME_MAGIC, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.kernel.records.messages import AS_DUMPED, SIZES_ONLY
from kseg.kernel.render.lines import CONTENTS, DEEP, ESCAPE, LINE_ONLY, SKIP_METADATA
from kseg.output.notices import on_one_line
from kseg.output.printer import RenderingPrinter
from kseg.segment.files import SegmentFile
from kseg.segment.items import REFUSED_CODES, Batch, Damage, Message, Message07, Record, Spans, all_rows


class KafkaTextPrinter(RenderingPrinter):
    """Prints a dump as text."""

    def enter(self, file: SegmentFile) -> None:
        super().enter(file)
        style = self.style
        flags = (
            DEEP * (style.deep or self._program is not None)
            | CONTENTS * style.contents
            | SKIP_METADATA * style.skip_metadata
            | ESCAPE * style.escape
        )
        self._renderer.show(flags, None, self._program)

    def begin(self, file: SegmentFile) -> None:
        super().begin(file)
        self._put(b"Dumping " + text_bytes(as_java_writes(file.path), self.style.escape) + b"\n")
        if file.kind == CHECKPOINT:
            if file.base_offset is None:
                self._put(b"KRaft bootstrap snapshot\n")
            else:
                self._put(b"Snapshot end offset: %d, epoch: %d\n" % (file.base_offset, file.epoch or 0))
        elif file.base_offset is not None:
            self._put(b"Log starting offset: %d\n" % file.base_offset)

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        self.errors += not batch.is_valid
        if isinstance(batch, Message07):
            self._batch_07(batch, spans)
            return
        renderer = self._renderer
        flags, renderer.flags = renderer.flags, LINE_ONLY
        renderer.go_to(0)
        renderer.origin = batch.position
        frame, scratch = int64s(FRAME_WIDTH), self.scratch  # the only frame of its own bytes
        frame[FRAME_SIZE], frame[FRAME_MAGIC], frame[FRAME_STATE] = batch.size, batch.magic, batch.is_valid
        while renderer.print_batches(batch.data, frame, 1, scratch.rows, scratch.headers, self._out) != DONE:
            self._flush()
        renderer.flags = flags
        if not self.style.deep:
            return
        is_refused = False
        try:
            found = batch.rows_before_fault()
            if isinstance(batch, Message):  # if its contents are not printed, sizes are the claimed ones
                found = batch.rows_before_fault(AS_DUMPED if self.style.contents else SIZES_ONLY)
            for rows in found:
                code = next((code for code, _ in batch.remarks if code in REFUSED_CODES), None)
                if code is not None and not is_refused:
                    is_refused = True  # kafka-dump-log stops before these rows
                    self.errors += 1
                    self._put_damage(code, batch.position, batch.size)
                self.errors += rows.misfits > 0
                for first, stop in spans(rows):
                    self._print_rows(batch, rows, first, stop)
        except UndecodableError as error:
            self.errors += 1
            self._put_damage(error.problem, batch.position, batch.size)

    def _begin_record(self, batch: Batch, rows: Rows, i: int, record: Record) -> None:
        if not self.style.skip_metadata:
            super()._begin_record(batch, rows, i, record)

    def _rest_of_record(self, is_control: bool, record: Record) -> bytes:
        if is_control:
            from kseg.formats.control import control_text, parse_control  # with its schemas it takes 6 ms

            shown = "" if self.style.skip_metadata else control_text(parse_control(record.key, record.value))
        else:
            decoded = self.style.decoder.decode(record.key, record.value, record.offset, record.headers)
            parts = [f"key: {decoded.key_text}"] if decoded.key_text is not None else []
            parts += [f"payload: {decoded.payload_text}"] if decoded.payload_text is not None else []
            shown = "".join(f" {part}" for part in parts)
            if self.style.skip_metadata and parts:
                shown = "|" + shown
        return on_one_line(shown).encode() if self.style.escape else shown.encode("utf-8", "replace")

    def damage(self, damage: Damage) -> None:
        self.errors += 1
        self._put_damage(damage.code, damage.position, damage.length)

    def unproven(self, batch: Batch, spans: Spans = all_rows) -> None:
        with suppress(UndecodableError):
            for rows in batch.rows_before_fault():
                for first, stop in spans(rows):
                    for i in range(first, stop):
                        self._put(b"| proven: false ")
                        self._print_rows(batch, rows, i, i + 1)

    def _put_damage(self, code: str, position: int, length: int) -> None:
        """Writes the line for damage, or for records that cannot be decoded."""
        self._put(b"| damage: %s position: %d length: %d\n" % (code.encode(), position, length))

    def trailing(self, damage: Damage, is_reported: bool = True) -> None:
        """Writes a line for bytes after the last batch; as in kafka-dump-log, no line with --max-bytes."""
        self.errors += 1
        if not is_reported:
            return
        name = text_bytes(self._file.name, self.style.escape)
        self._put(b"Found %d invalid bytes at the end of %s\n" % (damage.length, name))

    def _batch_07(self, batch: Message07, spans: Spans) -> None:
        is_valid = "true" if batch.is_valid else "false"
        line = f"offset: {batch.base_offset} position: {batch.position} size: {batch.size} magic: {batch.magic} "
        line += f"compresscodec: {batch.compression} crc: {batch.header.crc} isvalid: {is_valid}\n"
        self._put(line.encode())
        if not self.style.deep:
            return
        try:
            for record, crc in batch.entries(spans):
                content, value = b"", record.value or b""
                if self.style.contents:
                    shown = java_text.decode(value)
                    content = b" payload: " + (on_one_line(shown) if self.style.escape else shown).encode()
                head = b"|" if content else b""
                if not self.style.skip_metadata:
                    is_valid = "true" if record.is_valid else "false"
                    line = f"| offset: {record.offset} nextOffset: {record.next_offset} valueSize: {len(value)} "
                    head = f"{line}isValid: {is_valid} crc: {crc}".encode()
                self._put(head + content + b"\n")
        except UndecodableError as error:
            self.errors += 1
            self._put_damage(error.problem, batch.position, batch.size)


def ends_silently(damage: Damage, head: bytes) -> bool:
    """Whether kafka-dump-log ends at this damage without an error.

    That is the case for too few bytes for a header, or an entry longer than the rest of the file. ``head``: the first
    12 bytes; the damage extends to the end of the file. Source: FileLogInputStream.
    """
    if damage.length <= SHORT_TAIL_BYTES:
        return True
    size = int.from_bytes(head[ENTRY_SIZE:ENTRY_OVERHEAD], "big", signed=True)
    return size >= MIN_SIZE and size + ENTRY_OVERHEAD > damage.length


def as_java_writes(path: str) -> str:
    """Returns a path as java.io.File prints it: without doubled or trailing slashes."""
    return re.sub("/+", "/", path).rstrip("/") or "/"


def text_bytes(text: str, escape: bool) -> bytes:
    """Returns the bytes of text that may hold file names; ``escape``: control characters as backslash escapes."""
    return on_one_line(text).encode() if escape else os.fsencode(text)
