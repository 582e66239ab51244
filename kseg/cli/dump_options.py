"""The options of ``kseg dump`` in groups: filters, contents, decoders, side files, views for people."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kseg.cli.completion import complete_codecs
from kseg.cli.contents import BytesPattern, ContentFormat, KeyBytes
from kseg.cli.options import ByteCount, OffsetRange
from kseg.cli.times import TimePoint, TimeRange
from kseg.decoders import FOR_TOPIC
from kseg.dump.decoding import INTERNAL_TOPICS
from kseg.dump.options import SORT_FIELDS
from kseg.limits import MAX_MESSAGE_BYTES
from kseg.segment.files import METADATA_TOPIC

if TYPE_CHECKING:
    from kseg.formats.compressing import Target

STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
_LARGEST = (1 << 63) - 1

_HELP = {name: f"Decode the records of {topic}." for topic, name in FOR_TOPIC.items()}
_HELP["cluster-metadata"] = f"Decode the records of {METADATA_TOPIC} and its snapshots."


class PositionRange(click.ParamType):  # type: ignore[type-arg]
    """``A..B``, bytes of a file, inclusive, decimal or 0x…; either end may be left out. Yields (first, last)."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, dots, last = str(value).partition("..")
        low, high = _position(first, 0), _position(last, _LARGEST)
        if low is None or high is None or not (first or last):
            self.fail(f"{value!r} is no range of positions such as 0..60, 0x1f00.. or ..4095", param, ctx)
        high = high if dots else low
        if low > high:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return low, high


class CodecTarget(click.ParamType):  # type: ignore[type-arg]
    """``zstd``, ``gzip:9``, ...: a codec and its level. Yields a `Target`."""

    name = "CODEC"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Target":
        from kseg.formats.compressing import Target, parse_target

        if isinstance(value, Target):
            return value
        try:
            return parse_target(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--offsets, --time, --last, --around, --key, --key-pattern, --grep, --producer-id, --open-transactions, --now."""
    for option in (
        click.option("--now", type=TimePoint(), help="Ages are counted to TIME, not to the newest record."),
        click.option(
            "--transaction-state",
            type=click.Path(readable=False),
            metavar="DIR",
            help="Of --open-transactions: the log directory whose __transaction_state is read (the partition's).",
        ),
        click.option(
            "--open-transactions",
            is_flag=True,
            help="List the transactions that no marker has ended, and nothing else.",
        ),
        click.option(
            "--producer-id", type=click.IntRange(min=0), metavar="N", help="Only batches of the producer with this id."
        ),
        click.option("--grep", type=BytesPattern(), help="Only records with values that match the regular expression."),
        click.option(
            "--key-pattern", type=BytesPattern(), help="Only records with keys that match the regular expression."
        ),
        click.option("--key", type=KeyBytes(), help="Only records with this key: text, base64:... or hex:...."),
        click.option(
            "--time",
            type=TimeRange(),
            help="Only records with timestamps in FROM..TO, as -2h.. or yesterday.",
        ),
        click.option(
            "--around",
            type=click.IntRange(min=0),
            metavar="OFFSET",
            help="Only the records next to OFFSET, ten before it and ten from it on.",
        ),
        click.option(
            "--last",
            type=click.IntRange(min=1),
            metavar="N",
            help="Only the last N records of each partition, or N batches without --deep-iteration.",
        ),
        click.option(
            "--offsets", type=OffsetRange(), help="Only batches, and records, with offsets in A..B (inclusive)."
        ),
    ):
        command = option(command)
    return command


def content_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How keys and values are shown: --key-format, --value-format, --key-decoder-class, --value-decoder-class."""
    for part in ("value", "key"):
        command = click.option(
            f"--{part}-decoder-class",
            type=ContentFormat(),
            metavar="CLASS",
            is_flag=False,
            flag_value=STRING_DECODER,
            help=f"Show {part}s as this class of Kafka's does; the same as --{part}-format.",
        )(command)
        command = click.option(
            f"--{part}-format",
            type=ContentFormat(),
            help=f"Show {part}s as auto, utf8, base64, hex, json, int, ..., module:callable; implies --print-data-log.",
        )(command)
    return command


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
        *(click.option(f"--{name}-decoder", is_flag=True, help=_HELP[name]) for name in reversed(INTERNAL_TOPICS)),
    ):
        command = option(command)
    return command


def side_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--index-sanity-check, --verify-index-only, --max-message-size."""
    for option in (
        click.option(
            "--max-message-size",
            type=ByteCount(),
            default=MAX_MESSAGE_BYTES,
            help="How far from the position of an index entry its batch may reach (5M).",
        ),
        click.option("--verify-index-only", is_flag=True, help="Check indexes against the .log, print no entries."),
        click.option("--index-sanity-check", is_flag=True, help="Check only whether indexes are sound in themselves."),
    ):
        command = option(command)
    return command


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--hex, --position, --summary, --what-if, --sample."""
    for option in (
        click.option(
            "--sample",
            type=click.IntRange(min=1),
            metavar="N",
            help="Of --what-if: try some N batches chosen at random instead of all, and tell the error.",
        ),
        click.option(
            "--sort",
            type=click.Choice(SORT_FIELDS),
            help="With the summary: one line for each partition, sorted, and totals; so are more than ten.",
        ),
        click.option(
            "--what-if",
            type=CodecTarget(),
            multiple=True,
            metavar="CODEC[:LEVEL]",
            shell_complete=complete_codecs,
            help="With the summary: what compressing each batch with CODEC would save, and its speed; repeatable.",
        ),
        click.option("--summary", is_flag=True, help="Print a picture of each partition in numbers instead."),
        click.option("--position", type=PositionRange(), help="Of --hex: only what lies at bytes A..B of each file."),
        click.option(
            "--hex",
            "as_hex",
            is_flag=True,
            help="Print the bytes, field by field; with --deep-iteration those inside compressed batches as well.",
        ),
    ):
        command = option(command)
    return command


def _position(text: str, default: int) -> int | None:
    """A position, the default for no text, None for what is none."""
    if not text:
        return default
    digits, base = (text[2:], 16) if text[:2] in ("0x", "0X") else (text, 10)
    if not (digits.isascii() and digits.isalnum()) or len(digits) > 19:
        return None
    try:
        return min(int(digits, base), _LARGEST)
    except ValueError:
        return None
