"""The options of a dump as one typed object."""

import os
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.decoders import FOR_TOPIC
from kseg.errors import KsegError
from kseg.limits import MAX_BATCH_BYTES, MAX_MESSAGE_BYTES
from kseg.output.notices import Color
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, parse_partition_name
from kseg.segment.paths import expand_path
from kseg.stores.remote.keys import RemoteChoice

if TYPE_CHECKING:
    from kseg.formats.compressing import Target


InclusiveRange = tuple[int, int]
"""First and last, both inclusive."""

TEXT, JSON, TABLE = "text", "json", "table"
FORMS = (TEXT, JSON, TABLE)
"""Values of --format; `printer_class` has the printer of each."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of `kseg dump`, one field each; times are ms since the epoch.

    Forms and filters exclude each other as described in kseg-dump(1); `kseg.cli.dump` rejects contradictions.
    """

    paths: Sequence[str]
    form: str = TEXT
    everything: bool = False
    """Includes side files and leftovers of directories."""
    deep: bool = False
    contents: bool = False
    """Keys and values; implies ``deep``."""
    skip_record_metadata: bool = False

    decoder: str | None = None
    """One of `kseg.dump.options.INTERNAL_TOPICS`."""
    decode_by_topic: bool = False
    key_format: str | None = None
    value_format: str | None = None
    redact: bool = False

    offsets: InclusiveRange | None = None
    times: InclusiveRange | None = None
    key: bytes | None = None
    key_pattern: re.Pattern[bytes] | None = None
    grep: re.Pattern[bytes] | None = None
    """Matched against values."""
    producer_id: int | None = None
    read_committed: bool = False
    limit: int | None = None
    """In records, or in batches if only batches are printed."""
    last: int | None = None
    """The number of last records or batches of each partition, counted like ``limit``."""
    around: int | None = None
    """The records next to this offset."""

    committed_offsets: bool = False
    open_transactions: bool = False
    transaction_state: str | None = None
    """The log directory with __transaction_state; None means that of the partition."""
    now: int | None = None
    """The time for ages; None means the newest timestamp, for the cleaner's backlog in a summary the current time."""

    as_hex: bool = False
    positions: InclusiveRange | None = None
    summary: bool = False
    sort: str | None = None
    """The field that sorts the table of partitions."""
    what_if: "tuple[Target, ...]" = ()
    sample: int | None = None

    max_bytes: int | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES
    is_07: bool = False
    """Files are in the format of 0.6 and 0.7, whatever their suffix."""
    fetch_response: bool = False
    remote: RemoteChoice = field(default_factory=RemoteChoice)
    live: bool = False
    stop_on_damage: bool = False

    max_message_size: int = MAX_MESSAGE_BYTES
    verify_index_only: bool = False
    index_sanity_check: bool = False

    jobs: int | None = None
    output: str | None = None
    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False

    @property
    def shows_records(self) -> bool:
        return self.deep or self.shows_contents

    @property
    def shows_contents(self) -> bool:
        return self.contents or self.committed_offsets or self.decoder is not None or self.has_content_format

    @property
    def has_content_format(self) -> bool:
        return self.key_format is not None or self.value_format is not None


INTERNAL_TOPICS = tuple(FOR_TOPIC.values())
"""Names of decoders in kafka-dump-log's order: the first one requested is used."""


def printer_class(form: str) -> Any:
    """Returns the class that prints a form."""
    if form == JSON:
        from kseg.output.jsonl import JsonLinesPrinter

        return JsonLinesPrinter
    if form == TABLE:
        from kseg.output.table import TablePrinter

        return TablePrinter
    from kseg.output.kafka_text import KafkaTextPrinter

    return KafkaTextPrinter


def decoder_of(options: DumpOptions) -> Any:
    """Returns the decoder for all records, None for none: one of `INTERNAL_TOPICS`, or formats of keys and values."""
    if options.decoder is not None:
        from kseg.decoders import decoder

        return decoder(options.decoder, options.redact)
    if not options.has_content_format:
        return None
    from kseg.decoders.values import decoder as content_decoder

    return content_decoder(options.key_format or "utf8", options.value_format or "utf8")


def decoder_by_topic(options: DumpOptions) -> Callable[[SegmentFile], Any] | None:
    """With ``decode_by_topic``, returns a function from a file to the decoder of its topic, None for other topics."""
    if not options.decode_by_topic:
        return None
    from kseg.decoders import decoder, name_for

    made = cache(lambda name: decoder(name, options.redact))

    def choose(file: SegmentFile) -> Any:
        name = name_for(file.topic, file.kind)
        return None if name is None else made(name)

    return choose


def parts_of(options: DumpOptions, path: str) -> list[str]:
    """As `expand_path`, but for a log directory only the partitions that are wanted. Raises PathError."""
    if options.remote.topics and not options.committed_offsets:
        from kseg.logdir.topics import of_topics

        return of_topics([path], options.remote.topics)
    parts = expand_path(path)
    if parts == [path] or not options.committed_offsets:
        return parts
    places = ((part, parse_partition_name(os.path.basename(part))) for part in parts)
    return [part for part, place in places if place is not None and place[0] == OFFSETS_TOPIC]


def partitions_in(options: DumpOptions) -> int:
    """Returns the number of partitions and files; paths that cannot be read are reported when they are dumped."""
    count = 0
    for path in options.paths:
        with suppress(KsegError):
            count += len(parts_of(options, path))
    return count


class Rendered(NamedTuple):
    """The compressed text of a part, its counts and warnings. ``failure``: why it could not be read at all."""

    text: bytes = b""
    errors: int = 0
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    batches: int = 0
    size: int = 0
    end: int = 0
    warnings: tuple[str, ...] = ()
    shrank: str | None = None
    failure: str | None = None


def rendered_text(rendered: Rendered) -> bytes:
    """Returns the text."""
    return zlib.decompress(rendered.text)


RendererOf = Callable[[Iterable[tuple[SegmentFile, bool]]], Any]
"""Creates the renderer of segments in other processes. Each segment comes with a flag: whether a broker is still
writing to it. ``rendered(file)`` returns the parts of a file in order, None if it is rendered here.
"""
