"""The JSON form of a dump: one object per line, with Kafka's own camelCase keys, lossless for any bytes.

Bytes are a string if they are UTF-8, otherwise ``{"base64": …}``; null is null. Fields that a format lacks are absent;
fields that exist but are unset are null.
"""

from contextlib import suppress
from typing import Any

from kseg.formats.json_values import bytes_value, encode, fields_of, name_value, unset
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.kernel.render.lines import CONTENTS, DEEP
from kseg.output.printer import RenderingPrinter, Style
from kseg.output.sink import Sink
from kseg.segment.files import SegmentFile
from kseg.segment.items import Batch, Damage, Message, Message07, Problem, Record, Spans, all_rows


class JsonLinesPrinter(RenderingPrinter):
    """Prints a dump as JSON Lines."""

    _line_end = b"}\n"

    def enter(self, file: SegmentFile) -> None:
        super().enter(file)
        self._name, self._topic = name_value(file.path), name_value(file.topic)
        name = encode(self._name)
        place = b',"topic":' + encode(self._topic) + b',"partition":' + encode(file.partition)
        self._texts = (
            b'{"type":"batch","file":' + name + b',"position":',
            b'{"type":"record","file":' + name + b',"position":',
            place + b',"offset":',
        )
        self._unproven_texts = (*self._texts[:2], place + b',"proven":false,"offset":')
        self._use(self._texts)

    def _use(self, texts: tuple[bytes, bytes, bytes]) -> None:
        """Selects the texts of the following lines."""
        flags = DEEP * (self.style.deep or self._program is not None) | CONTENTS * self.style.contents
        self._renderer.show(flags, texts, self._program)

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        problems = batch.check() if self.style.deep else batch.problems
        self.errors += bool(problems)
        self._put(encode(self._batch_object(batch, problems)) + b"\n")
        if not self.style.deep:
            return
        if not batch.is_valid or any(problem.code == "undecodable-records" for problem in problems):
            self.unproven(batch, spans)
            return
        self._print_records(batch, spans)

    def unproven(self, batch: Batch, spans: Spans = all_rows) -> None:
        self._use(self._unproven_texts)
        self._print_records(batch, spans, is_proven=False)
        self._use(self._texts)

    def _print_records(self, batch: Batch, spans: Spans, is_proven: bool = True) -> None:
        # The batch line reports an error: `problems` comes from decoding the same records.
        with suppress(UndecodableError):
            if isinstance(batch, Message07):
                for record, _ in batch.entries(spans):
                    self._put(encode(self._object_07(batch, record, is_proven)) + b"\n")
                return
            for rows in batch.rows_before_fault():
                for first, stop in spans(rows):
                    self._print_rows(batch, rows, first, stop)

    def _batch_object(self, batch: Batch, problems: list[Problem]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "batch", "file": self._name, "position": batch.position, "size": batch.size,
            "magic": batch.magic,
        }  # fmt: skip
        header: Any = batch.header
        if isinstance(batch, Message07):
            found |= fields_of(batch, "base_offset", "next_offset", "compression")
        elif isinstance(batch, Message):
            first, count = batch.extent() if self.style.deep else (batch.base_offset, None if header.codec else 1)
            found |= {"baseOffset": first, "lastOffset": header.offset, "count": count}
            found["compression"] = batch.compression
            if batch.magic:
                found |= {"timestampType": batch.timestamp_type, "maxTimestamp": header.timestamp}
        else:
            producer = fields_of(header, "base_sequence", "last_sequence", "producer_id", "producer_epoch")
            producer |= fields_of(header, "partition_leader_epoch")
            found |= {
                **fields_of(header, "base_offset", "last_offset"),
                "count": header.record_count,
                **{name: unset(number) for name, number in producer.items()},
                **fields_of(header, "is_transactional", "is_control", "delete_horizon_ms"),
                **fields_of(batch, "compression", "timestamp_type"),
                "baseTimestamp": None if header.delete_horizon_ms is not None else header.base_timestamp,
                "maxTimestamp": header.max_timestamp,
            }
        return found | {
            "crc": header.crc,
            "isValid": batch.is_valid,
            "problems": [problem.code for problem in problems],
        }

    def _begin_record(self, batch: Batch, rows: Rows, i: int, record: Record) -> None:
        if batch.is_control:
            self._render_rows(batch, rows, i, i + 1)
            self._unwrite(len(self._line_end))
            return
        super()._begin_record(batch, rows, i, record)
        if record.headers:
            # Inserts the header values into the line, which the kernel has written without contents.
            end = self._renderer.written
            start = self._out.rfind(b"\n", 0, end) + 1
            # Within a JSON string, a quote after a comma is always escaped by a backslash.
            self._unwrite(end - self._out.index(b',"headers":[', start, end))
            shown = [{"key": bytes_value(header.key), "value": bytes_value(header.value)} for header in record.headers]
            self._put(b',"headers":' + encode(shown))

    def _rest_of_record(self, is_control: bool, record: Record) -> bytes:
        if is_control:
            from kseg.formats.control import control_object, parse_control  # with its schemas it takes 6 ms

            return b',"control":' + encode(control_object(parse_control(record.key, record.value)))
        decoded = self.style.decoder.decode(record.key, record.value, record.offset, record.headers)
        marks = decoded.marks or {}
        parts = ("key", decoded.key, decoded.key_text), ("value", decoded.value, decoded.payload_text)
        shown = b"".join(  # the text of a document is JSON
            b',"%b":%b' % (name.encode(), text.encode() if text and f"{name}Schema" in marks else encode(value))
            for name, value, text in parts
        )
        return shown + b"," + encode(marks)[1:-1] if marks else shown

    def _object_07(self, batch: Message07, record: Record, is_proven: bool) -> dict[str, Any]:
        value = record.value or b""
        row = {
            "type": "record", "file": self._name, "position": batch.position, "topic": self._topic,
            "partition": self._file.partition, "offset": record.offset, "nextOffset": record.next_offset,
            "valueSize": len(value), "isValid": record.is_valid,
        }  # fmt: skip
        if self.style.contents:
            row["value"] = bytes_value(value)
        return row if is_proven else row | {"proven": False}

    def damage(self, damage: Damage) -> None:
        self.errors += 1
        found = {"type": "damage", "code": damage.code, "file": self._name}
        self._put(encode(found | fields_of(damage, "position", "length", "message")) + b"\n")


class UnprovenRecords(JsonLinesPrinter):
    """Writes the decodable records of batches, as for ``kseg recover --records``. ``count``: their number."""

    def __init__(self, sink: Sink, scratch: Scratch) -> None:
        super().__init__(sink, Style(deep=True, contents=True), scratch)
        self.count = 0

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        self.unproven(batch, spans)

    def _print_rows(self, batch: Batch, rows: Rows, first: int, stop: int) -> None:
        self.count += stop - first
        # A damaged batch may have the control flag set by mistake.
        self._render_rows(batch, rows, first, stop)

    def _object_07(self, batch: Message07, record: Record, is_proven: bool) -> dict[str, Any]:
        self.count += 1
        return super()._object_07(batch, record, is_proven)
