"""The options of conversions as one typed object."""

from dataclasses import dataclass

from kseg.errors import KsegError, RequestError
from kseg.formats.areas import NONE
from kseg.formats.compressing import Target, parse_target
from kseg.limits import MAX_BATCH_BYTES
from kseg.runtime.threads import usable_cores
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES

# The request of a conversion, and the error for information that its target format cannot hold.


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """The options. ``magic`` and ``target``: None keeps those of each batch.

    ``has_level``: a compression level was given, so that batches with the same codec are recompressed, too.
    ``batch_bytes``: records are regrouped to batches of at most this size before compression; None keeps the batches.
    ``segment_bytes``: None keeps the segments. ``committed_only``: only records that a read_committed consumer sees.
    ``base_offset``: the offset of the first message of a 0.7 log, whose byte positions become a header named
    ``position_header``.
    """

    magic: int | None = None
    target: Target | None = None
    has_level: bool = False
    batch_bytes: int | None = None
    segment_bytes: int | None = None
    committed_only: bool = False
    is_lossy: bool = False
    skips_damage: bool = False
    base_offset: int = 0
    position_header: bytes | None = None
    interval_bytes: int = DEFAULT_INTERVAL_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    jobs: int = 1


class LossError(KsegError):
    """The target format cannot represent some information of the log."""


FORMATS = {"v0": 0, "v1": 1, "v2": 2}
EXPORTS = ("jsonl", "csv", "parquet", "arrow")


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The options of `kseg convert`; None for an option that is not given.

    ``form``: one of FORMATS or EXPORTS, None keeps the format of each batch. ``from_lines``: the paths are JSON Lines.
    ``codec``: ``none``, or a codec with or without a level, such as ``zstd:19``. ``output``: a directory for new
    partitions, or the file of an export; ``-`` is standard output. ``interval_bytes``: index.interval.bytes.
    """

    form: str | None = None
    from_lines: bool = False
    codec: str | None = None
    batch_bytes: int | None = None
    segment_bytes: int | None = None
    base_offset: int | None = None
    position_header: str | None = None
    read_committed: bool = False
    is_lossy: bool = False
    skips_damage: bool = False
    in_place: bool = False
    output: str | None = None
    interval_bytes: int | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES
    jobs: int | None = None
    topics: tuple[str, ...] = ()
    """Globs: of a log directory only partitions of such topics."""

    @property
    def is_export(self) -> bool:
        return self.form in EXPORTS

    def check(self) -> None:
        """Raises RequestError for a codec that the format lacks."""
        if self.codec and self.codec.startswith("zstd") and self.form in ("v0", "v1"):
            raise RequestError(f"{self.form} has no zstd: gzip, snappy or lz4")

    @property
    def target(self) -> Target | None:
        """The codec and its level, None to keep those of each batch."""
        return None if self.codec is None else codec_target(self.codec)

    @property
    def has_level(self) -> bool:
        return self.codec is not None and ":" in self.codec

    @property
    def request(self) -> ConversionRequest:
        """The options as a request."""
        header = self.position_header
        return ConversionRequest(
            magic=FORMATS.get(self.form or ""),
            target=self.target,
            has_level=self.has_level,
            batch_bytes=self.batch_bytes,
            segment_bytes=self.segment_bytes,
            committed_only=self.read_committed,
            is_lossy=self.is_lossy,
            skips_damage=self.skips_damage,
            base_offset=self.base_offset or 0,
            position_header=None if header is None else header.encode("utf-8", "surrogateescape"),
            interval_bytes=DEFAULT_INTERVAL_BYTES if self.interval_bytes is None else self.interval_bytes,
            max_batch_bytes=self.max_batch_bytes,
            jobs=self.jobs or usable_cores(),
        )

    @property
    def reason(self) -> str:
        """The reason of each step of a plan: the options of format, codec and sizes, as they were given."""
        given = {"to": self.form, "codec": self.codec, "batch-bytes": self.batch_bytes}
        given["segment-bytes"] = self.segment_bytes
        return f"converted ({' '.join(f'--{name} {value}' for name, value in given.items() if value is not None)})"


def codec_target(text: str) -> Target:
    """Returns the codec of ``none``, ``zstd`` or ``zstd:19``. Raises ValueError with a message for people."""
    return NONE if text == "none" else parse_target(text)
