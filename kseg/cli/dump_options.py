"""The options of ``kseg dump`` in groups: filters, contents, decoders, side files, views for people."""

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kseg.cli.completion import complete_codecs
from kseg.cli.contents import BytesPattern, ContentFormat, KeyBytes
from kseg.cli.options import ByteCount, CommandFunction, OffsetRange, number_option, with_options
from kseg.cli.times import TimePoint, TimeRange
from kseg.decoders import FOR_TOPIC
from kseg.dump.options import INTERNAL_TOPICS
from kseg.limits import MAX_MESSAGE_BYTES
from kseg.output.fleet_table import SUMMARY_FIELDS
from kseg.segment.files import METADATA_TOPIC

if TYPE_CHECKING:
    from kseg.formats.compressing import Target

STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
_LARGEST = (1 << 63) - 1

_HELP = {name: f"Decode the records of {topic}." for topic, name in FOR_TOPIC.items()}
_HELP["cluster-metadata"] = f"Decode the records of {METADATA_TOPIC} and its snapshots."


class PositionRange(click.ParamType):  # type: ignore[type-arg]
    """``A..B``, bytes of a file, inclusive, decimal or 0x…; either end may be omitted. Yields (first, last)."""

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


_FILTERS = (
    click.option("--offsets", type=OffsetRange(), help="Only batches and records with offsets in A..B (inclusive)."),
    number_option("--last", 1, "Only the last N records of each partition, or N batches without --deep-iteration."),
    number_option("--around", 0, "Only the ten records before OFFSET, and the ten from OFFSET on.", "OFFSET"),
    click.option(
        "--time",
        "times",
        type=TimeRange(),
        help="Only records with timestamps in FROM..TO, as -2h.. or yesterday; local time, unless it has a zone.",
    ),
    click.option("--key", type=KeyBytes(), help="Only records with this key: text, base64:... or hex:...."),
    click.option(
        "--key-pattern", type=BytesPattern(), help="Only records with keys that match the regular expression."
    ),
    click.option("--grep", type=BytesPattern(), help="Only records with values that match the regular expression."),
    number_option("--producer-id", 0, "Only batches of the producer with this id."),
    click.option(
        "--open-transactions",
        is_flag=True,
        help="List only the transactions without an end marker.",
    ),
    click.option(
        "--transaction-state",
        type=click.Path(readable=False),
        metavar="DIR",
        help="With --open-transactions: the log directory with __transaction_state; default: the partition's.",
    ),
    click.option(
        "--now", type=TimePoint(), help="Compute ages at TIME; default: the newest timestamp, with --summary now."
    ),
)
_CONTENTS = tuple(
    option
    for part in ("key", "value")
    for option in (
        click.option(
            f"--{part}-format",
            type=ContentFormat(),
            help=f"Print {part}s as auto, utf8, base64, hex, json, int, ..., module:callable; implies "
            "--print-data-log.",
        ),
        click.option(
            f"--{part}-decoder-class",
            type=ContentFormat(),
            metavar="CLASS",
            is_flag=False,
            flag_value=STRING_DECODER,
            help=f"Print {part}s as this class of Kafka's does; the same as --{part}-format.",
        ),
    )
)
_DECODERS = (
    *(click.option(f"--{name}-decoder", is_flag=True, help=_HELP[name]) for name in INTERNAL_TOPICS),
    click.option(
        "--decode",
        "decode_by_topic",
        type=click.Choice(["auto"]),
        callback=lambda _ctx, _param, choice: choice is not None,
        help="auto: decode the records of internal topics, each file by the name of its topic.",
    ),
    click.option(
        "--committed-offsets",
        is_flag=True,
        help="List the committed offsets of consumer groups, with lags; also --offsets-decoder --format table.",
    ),
    click.option(
        "--redact", is_flag=True, help="Hide SCRAM credentials and other secrets of decoded cluster metadata."
    ),
)
_SIDE_FILES = (
    click.option("--index-sanity-check", is_flag=True, help="Run only the broker's sanity check of indexes."),
    click.option("--verify-index-only", is_flag=True, help="Check indexes against the .log; print no entries."),
    click.option(
        "--max-message-size",
        type=ByteCount(),
        default=MAX_MESSAGE_BYTES,
        help="Largest distance from the position of an index entry to the end of its batch (5M).",
    ),
)
_VIEWS = (
    click.option(
        "--hex",
        "as_hex",
        is_flag=True,
        help="Print the bytes, field by field; with --deep-iteration also those of decompressed batches.",
    ),
    click.option("--position", "positions", type=PositionRange(), help="With --hex: only bytes A..B of each file."),
    click.option("--summary", is_flag=True, help="Print statistics of each partition instead."),
    click.option(
        "--what-if",
        type=CodecTarget(),
        multiple=True,
        metavar="CODEC[:LEVEL]",
        shell_complete=complete_codecs,
        help="With --summary: the savings of recompression with CODEC, and its speed; may be repeated.",
    ),
    click.option(
        "--sort",
        type=click.Choice(SUMMARY_FIELDS),
        metavar="FIELD",
        help="With --summary: one line for each partition, the default for more than ten, and totals; sorted by FIELD: "
        f"{', '.join(SUMMARY_FIELDS)}.",
    ),
    number_option(
        "--sample",
        1,
        "With --what-if: compress about N random batches instead of all; print the error of the estimate.",
    ),
)


def filter_options(command: CommandFunction) -> CommandFunction:
    """--offsets, --last, --around, --time, --key, --key-pattern, --grep, --producer-id, --open-transactions,
    --transaction-state, --now.
    """
    return with_options(command, _FILTERS)


def content_options(command: CommandFunction) -> CommandFunction:
    """As ``key_format`` and ``value_format``: --key-format, --key-decoder-class, and the same for values."""

    @wraps(command)
    def with_formats(
        key_format: str | None,
        key_decoder_class: str | None,
        value_format: str | None,
        value_decoder_class: str | None,
        **given: Any,
    ) -> Any:
        formats = {"key_format": key_format or key_decoder_class, "value_format": value_format or value_decoder_class}
        return command(**formats, **given)

    return with_options(with_formats, _CONTENTS)


def decoder_options(command: CommandFunction) -> CommandFunction:
    """As ``decoder``: --offsets-decoder and its like, of several the first in kafka-dump-log's order.

    Also --decode, --committed-offsets, --redact.
    """

    @wraps(command)
    def with_decoder(**given: Any) -> Any:
        wanted = [name for name in INTERNAL_TOPICS if given.pop(f"{name.replace('-', '_')}_decoder")]
        return command(decoder=wanted[0] if wanted else None, **given)

    return with_options(with_decoder, _DECODERS)


def side_file_options(command: CommandFunction) -> CommandFunction:
    """--index-sanity-check, --verify-index-only, --max-message-size."""
    return with_options(command, _SIDE_FILES)


def view_options(command: CommandFunction) -> CommandFunction:
    """--hex, --position, --summary, --what-if, --sort, --sample."""
    return with_options(command, _VIEWS)


def _position(text: str, default: int) -> int | None:
    """Returns a position; the default for "", None for invalid text."""
    if not text:
        return default
    digits, base = (text[2:], 16) if text[:2] in ("0x", "0X") else (text, 10)
    if not (digits.isascii() and digits.isalnum()) or len(digits) > 19:
        return None
    try:
        return min(int(digits, base), _LARGEST)
    except ValueError:
        return None
