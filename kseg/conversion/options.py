"""The options of conversions as one typed object."""

from dataclasses import dataclass

from kseg.errors import KsegError, RequestError
from kseg.formats.areas import NONE
from kseg.formats.compressing import Target, parse_target
from kseg.limits import MAX_BATCH_BYTES
from kseg.runtime.threads import usable_cores
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES


class LossError(KsegError):
    """The target format cannot represent some information of the log."""


FORMATS = {"v0": 0, "v1": 1, "v2": 2}
EXPORTS = ("jsonl", "csv", "parquet", "arrow")


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The options of `kseg convert`; None for an option that is not given.

    ``form``: one of FORMATS or EXPORTS, None keeps the format of each batch. ``from_lines``: the paths are JSON Lines.
    ``codec``: ``none``, or a codec with or without a level, such as ``zstd:19``; None keeps that of each batch.
    ``batch_bytes``: records are regrouped to batches of at most this size before compression; None keeps the batches.
    ``segment_bytes``: None keeps the segments. ``base_offset``: that of the first message of a 0.7 log, whose byte
    positions become a header named ``position_header``. ``read_committed``: only records that such a consumer sees.
    ``output``: a directory for new partitions, or the file of an export; ``-`` is standard output. ``interval_bytes``:
    index.interval.bytes.
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
        """The codec and its level."""
        return None if self.codec is None else codec_target(self.codec)

    @property
    def has_level(self) -> bool:
        """Whether batches with the same codec are recompressed, too."""
        return self.codec is not None and ":" in self.codec

    @property
    def magic(self) -> int | None:
        """The message format, None to keep that of each batch."""
        return FORMATS.get(self.form or "")

    @property
    def first_offset(self) -> int:
        return self.base_offset or 0

    @property
    def position_key(self) -> bytes | None:
        return None if self.position_header is None else self.position_header.encode("utf-8", "surrogateescape")

    @property
    def index_interval(self) -> int:
        return DEFAULT_INTERVAL_BYTES if self.interval_bytes is None else self.interval_bytes

    @property
    def threads(self) -> int:
        return self.jobs or usable_cores()

    @property
    def reason(self) -> str:
        """The reason of each step of a plan: the options of format, codec and sizes, as they were given."""
        given = {"to": self.form, "codec": self.codec, "batch-bytes": self.batch_bytes}
        given["segment-bytes"] = self.segment_bytes
        return f"converted ({' '.join(f'--{name} {value}' for name, value in given.items() if value is not None)})"


def codec_target(text: str) -> Target:
    """Returns the codec of ``none``, ``zstd`` or ``zstd:19``. Raises ValueError with a message for people."""
    return NONE if text == "none" else parse_target(text)
