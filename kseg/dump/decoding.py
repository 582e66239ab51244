"""Selects the decoder of a dump: a named one, formats of keys and values, or one for each internal topic."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from kseg.decoders import FOR_TOPIC
from kseg.dump.options import DumpOptions
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, parse_partition_name
from kseg.segment.paths import expand_path

INTERNAL_TOPICS = tuple(FOR_TOPIC.values())
"""Names of decoders in kafka-dump-log's order: the first one requested is used."""


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


def offsets_partitions(path: str) -> list[str]:
    """As `expand_path`, but for a log directory only the partitions of __consumer_offsets. Raises PathError."""
    parts = expand_path(path)
    if parts == [path]:
        return parts
    places = ((part, parse_partition_name(os.path.basename(part))) for part in parts)
    return [part for part, place in places if place is not None and place[0] == OFFSETS_TOPIC]
