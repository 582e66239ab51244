"""The options of a dump as one typed object."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from kseg.decoders import FOR_TOPIC, decoder, name_for
from kseg.errors import RequestError
from kseg.limits import MAX_MESSAGE_BYTES
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, INPUT, RULES, Number, Option, Value, option, options
from kseg.segment.files import METADATA_TOPIC, SegmentFile
from kseg.segment.matching import Patterns
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.source import is_stream
from kseg.views.walk import WalkOptions

InclusiveRange = tuple[int, int]
"""First and last, both inclusive."""

FORMS = (declaration.TEXT, declaration.JSON, declaration.TABLE)
"""Values of --format."""
INTERNAL_TOPICS = tuple(FOR_TOPIC.values())
"""Names of decoders in kafka-dump-log's order: the first one requested is used."""

_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
AUTO = "auto"


def _decoder_flags() -> Any:
    text = "Decode the records of this topic; the same as --decode."
    return options(*(
        Option(f"--{name}-decoder", CONTENTS, text, bool, flag_value=name, is_hidden=True) for name in INTERNAL_TOPICS
    ))  # fmt: skip


def _content_format(part: str) -> Any:
    return options(
        Option(
            f"--{part}-format", CONTENTS,
            f"Print {part}s as auto, utf8, hex, json, int, avro, ..., module:callable; implies --print-data-log.",
            declaration.FORMAT,
        ),
        Option(
            f"--{part}-decoder-class", CONTENTS,
            f"Print {part}s as this class of Kafka's does; the same as --{part}-format.", declaration.FORMAT,
            metavar="CLASS", flag_value=_STRING_DECODER, is_hidden=True,
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DumpOptions(WalkOptions):
    """The options of `kseg dump`, one field each; times are ms since the epoch.

    Forms and filters exclude each other as described in kseg-dump(1).
    """

    is_export: bool = False
    """Whether kseg convert asks for the records."""
    hides_deleted: bool = False
    """Whether records below the log start offset are left out."""
    deep: bool = option("--deep-iteration", CONTENTS, "Also print the records of each batch.", bool)
    contents: bool = option("--print-data-log", CONTENTS, "Print keys and values; implies --deep-iteration.", bool)
    skip_record_metadata: bool = option(
        "--skip-record-metadata", CONTENTS, "Text: print only the key and value of a record.", bool
    )
    form: str = declaration.form(*FORMS)
    key_format: str | None = _content_format("key")
    value_format: str | None = _content_format("value")
    offsets: InclusiveRange | None = declaration.offsets("Only batches and records with offsets in A..B (inclusive).")
    last: int | None = option(
        "--last",
        INPUT,
        "Only the last N records of each partition, or N batches without --deep-iteration.",
        Number(1),
        metavar="N",
    )
    around: int | None = option(
        "--around",
        INPUT,
        "Only the ten records before OFFSET, and the ten from OFFSET on.",
        Number(),
        metavar="OFFSET",
    )
    times: InclusiveRange | None = declaration.times(
        "Only records with timestamps in FROM..TO, as -2h.. or yesterday; local time, unless it has a zone."
    )
    key: bytes | None = option(
        "--key", INPUT, "Only records with this key: text, base64:... or hex:....", declaration.KEY
    )
    key_patterns: Patterns = declaration.patterns(
        "--key-pattern", "Only records with keys that match the regular expression; may be repeated: any of them."
    )
    value_patterns: Patterns = declaration.patterns("--grep", "The same for values.")
    header_patterns: Patterns = declaration.patterns("--grep-header", "The same for headers, each as KEY=VALUE.")
    patterns: Patterns = declaration.patterns("--grep-any", "The same for keys, values and headers, any of them.")
    producer_id: int | None = option(
        "--producer-id", INPUT, "Only batches of the producer with this id.", Number(), metavar="N"
    )
    limit: int | None = option(
        "--limit", INPUT, "Stop after N records, or N batches without --deep-iteration.", Number(), metavar="N"
    )
    read_committed: bool = declaration.isolation()
    max_bytes: int | None = option(
        "--max-bytes", INPUT, "Read only the complete batches in the first BYTES of each file.", declaration.BYTES
    )
    is_07: bool = declaration.format_of_07()
    decoder_flag: str | None = _decoder_flags()
    """One of `INTERNAL_TOPICS`."""
    decode: str | None = option(
        "--decode",
        CONTENTS,
        f"Print the records of an internal topic decoded: {', '.join(INTERNAL_TOPICS)}; auto: by the names of the "
        "files, other topics by the schemas of _schemas-0 or --schemas.",
        (AUTO, *INTERNAL_TOPICS),
        metavar="auto|TOPIC",
    )
    schemas: str | None = declaration.schemas()
    redact: bool = option(
        "--redact", CONTENTS, "Hide SCRAM credentials and other secrets of decoded cluster metadata.", bool
    )
    fetch_response: bool = option(
        "--fetch-response", INPUT, "The files are captured fetch responses of Kafka 0.6 and 0.7.", bool
    )
    stop_on_damage: bool = option(
        "--stop-on-damage", RULES, "Stop at the first damage; default: continue after it.", bool
    )
    everything: bool = option(
        "--all",
        INPUT,
        "Of directories, print side files, .deleted, .cleaned and .swap files, and what quarantines keep of logs too.",
        bool,
    )
    jobs: int | None = declaration.jobs()
    index_sanity_check: bool = option(
        "--index-sanity-check", CONTENTS, "Run only the broker's sanity check of indexes.", bool
    )
    verify_index_only: bool = option(
        "--verify-index-only", CONTENTS, "Check indexes against the .log; print no entries.", bool
    )
    max_message_size: int = option(
        "--max-message-size",
        CONTENTS,
        "Largest distance from the position of an index entry to the end of its batch (5M).",
        declaration.BYTES,
        default=MAX_MESSAGE_BYTES,
    )
    as_hex: bool = option(
        "--hex",
        CONTENTS,
        "Print the bytes, field by field; with --deep-iteration also those of decompressed batches.",
        bool,
    )
    positions: InclusiveRange | None = option(
        "--position", CONTENTS, "Only bytes A..B of each file, for --hex.", Value("A..B", declaration.position_range)
    )
    private_keys: tuple[str, ...] = declaration.private_keys()
    topics: tuple[str, ...] = declaration.topics("a log directory or remote storage")
    remote: RemoteChoice = field(default_factory=RemoteChoice)

    def check(self) -> None:
        """Raises RequestError for options that exclude each other."""
        for message in self._contradictions():
            raise RequestError(message)

    def _contradictions(self) -> Iterator[str]:
        nearest = self.last is not None or self.around is not None
        if self.decoder_flag is not None and self.decode is not None:
            yield f"--decode {self.decode} chooses the decoder: give it or --{self.decoder_flag}-decoder"
        if self.as_hex and self.form != declaration.TEXT:
            yield "--hex excludes all --format except text"
        if nearest and (self.offsets or None not in (self.last, self.around)):
            yield "--last, --around and --offsets exclude each other"
        if nearest and (self.fetch_response or any(map(is_stream, self.paths))):
            yield "--last and --around need files, to be read twice"
        if self.positions and not self.as_hex:
            yield "--position is for --hex"
        if self.schemas is not None and not (self.needs_schemas or self.decode_by_topic):
            yield "--schemas is for --key-format avro, --value-format avro and --decode auto"
        is_decoded = self.decode_by_topic or self.decoder == "cluster-metadata"
        if self.redact and (self.as_hex or (self.shows_contents and not is_decoded)):
            yield "--redact hides decoded secrets: it needs --cluster-metadata-decoder or --decode auto"

    def check_for_spark(self) -> None:
        """Raises RequestError for options that need one reader from the first record to the last."""
        given = declaration.given_in(self) | ({"--format table"} if self.form == declaration.TABLE else set())
        names = (
            "--offsets --time --key --producer-id --limit --last --around --key-pattern --grep --grep-header "
            "--grep-any --topic --isolation "
            "--stop-on-damage --fetch-response --hex"
        )
        declaration.refuse([*names.split(), "--format table"], given, "is for the local engine")

    @property
    def decode_by_topic(self) -> bool:
        return self.decode == AUTO

    @property
    def decoder(self) -> str | None:
        """One of `INTERNAL_TOPICS`, for all records."""
        return self.decoder_flag or (None if self.decode_by_topic else self.decode)

    @property
    def shows_records(self) -> bool:
        return self.deep or self.shows_contents

    @property
    def shows_contents(self) -> bool:
        return self.contents or self.decoder is not None or self.has_content_format

    @property
    def has_content_format(self) -> bool:
        return self.key_format is not None or self.value_format is not None

    @property
    def filters_contents(self) -> bool:
        patterns = self.key_patterns or self.value_patterns or self.header_patterns or self.patterns
        return self.key is not None or bool(patterns)

    @property
    def needs_schemas(self) -> bool:
        """Whether keys or values are decoded by schemas, to be printed or for a filter."""
        is_shown = self.decoder is None and (self.filters_contents or not self.as_hex)
        return is_shown and "avro" in (self.key_format, self.value_format)

    def decoder_of_all(self) -> Any:
        """Returns the decoder for all records: one of `INTERNAL_TOPICS`, or formats of keys and values.

        Returns None for none, and if it depends on the file (`decoder_by_file`).
        """
        if self.decoder is not None:
            return decoder(self.decoder, self.redact)
        if not self.has_content_format or self.needs_schemas:
            return None
        from kseg.decoders.values import ValuesDecoder

        return ValuesDecoder(self.key_format or "utf8", self.value_format or "utf8")

    def decoder_by_file(self, warn: Callable[[str], None]) -> Callable[[SegmentFile], Any] | None:
        """Returns a function from a file to its decoder, by its topic or the schemas of its log directory; None for
        those without. Returns None if all files have that of `decoder_of_all`.

        Raises UnsupportedError if a library is missing; the function raises PathError if schemas are.
        """
        if not self.decode_by_topic and not self.needs_schemas:
            return None
        from kseg.decoders.values import by_schemas

        made = cache(lambda name: decoder(name, self.redact))
        other = "avro" if self.decode_by_topic else "utf8"
        formats = self.key_format or other, self.value_format or other
        by_log_directory = by_schemas(self.schemas, warn, formats, self.needs_schemas)
        is_used = self.shows_contents or self.filters_contents

        def choose(file: SegmentFile) -> Any:
            name = name_for(file.topic, file.kind) if self.decode_by_topic else None
            if self.redact and file.topic is None and self.shows_contents:
                name = FOR_TOPIC[METADATA_TOPIC]  # secrets of a log without a topic's name stay hidden
            return made(name) if name is not None else by_log_directory(file) if is_used else None

        return choose


class Rendered(NamedTuple):
    """The text of a part, compressed by zlib, its counts and warnings."""

    text: bytes = b""
    errors: int = 0
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    batches: int = 0
    size: int = 0
    end: int = 0
    warnings: tuple[str, ...] = ()
    shrank: str | None = None


Renderer = Callable[[SegmentFile], list[Rendered] | None]
"""Renders a segment in other processes. Returns its parts in order, None if it is rendered here. Raises KsegError,
OSError if it cannot be read."""
RendererOf = Callable[[Iterable[tuple[SegmentFile, bool]]], Renderer]
"""Creates the renderer of segments. Each comes with a flag: whether a broker is still writing to it."""
