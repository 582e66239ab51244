"""What ``kseg dump`` decodes records with: kafka-dump-log's decoders of internal topics, or each topic's own."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import click

from kseg.cli.questions import content_decoder
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, expand_path, parse_partition_name

NAMES = ("offsets", "transaction-log", "cluster-metadata", "remote-log-metadata", "share-group-state")
"""In kafka-dump-log's order, of which the first that is asked for counts."""

_HELP = {
    "offsets": "Decode the records of __consumer_offsets.",
    "transaction-log": "Decode the records of __transaction_state.",
    "cluster-metadata": "Decode the records of __cluster_metadata and its snapshots.",
    "remote-log-metadata": "Decode the records of __remote_log_metadata.",
    "share-group-state": "Decode the records of __share_group_state.",
}


def decoder_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--offsets-decoder and its like, --decode, --committed-offsets, --redact."""
    for option in (
        click.option(
            "--redact", is_flag=True, help="Hide SCRAM credentials and other secrets of decoded cluster metadata."
        ),
        click.option(
            "--committed-offsets",
            is_flag=True,
            help="List what consumer groups have committed, with lags; also --offsets-decoder --format table.",
        ),
        click.option(
            "--decode",
            type=click.Choice(["auto"]),
            help="auto: decode the records of internal topics, each file by the name of its topic.",
        ),
        *(click.option(f"--{name}-decoder", is_flag=True, help=_HELP[name]) for name in reversed(NAMES)),
    ):
        command = option(command)
    return command


def asked_decoder(options: dict[str, Any]) -> Any:
    """The decoder that is asked for by name, else formats of keys and values; None without any.

    Raises UsageError where --decode names another.
    """
    name = next((name for name in NAMES if options[name.replace("-", "_") + "_decoder"]), None)
    if name is not None and options["decode"]:
        raise click.UsageError(f"--decode auto chooses by topic: give it or --{name}-decoder")
    if name is None:
        return content_decoder(options)
    from kseg.decoders import decoder

    return decoder(name, options["redact"])


def offsets_parts(path: str) -> list[str]:
    """Of a PATH, what committed offsets are read from: of a log directory its partitions of __consumer_offsets.

    Raises PathError as `expand_path` does.
    """
    parts = expand_path(path)
    if parts == [path]:
        return parts
    places = ((part, parse_partition_name(os.path.basename(part))) for part in parts)
    return [part for part, place in places if place is not None and place[0] == OFFSETS_TOPIC]


def topic_decoder(options: dict[str, Any]) -> Callable[[SegmentFile], Any] | None:
    """With --decode auto: what gives the decoder of a file's topic, None for a topic that has none."""
    if options["decode"] is None:
        return None
    from kseg.decoders import decoder, name_for

    made = cache(lambda name: decoder(name, options["redact"]))

    def choose(file: SegmentFile) -> Any:
        name = name_for(file.topic, file.kind)
        return None if name is None else made(name)

    return choose
