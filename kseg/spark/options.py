"""The options of the data source, as strings from Spark. Names are case-insensitive."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kseg.errors import KsegError
from kseg.formats.compressing import parse_target
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.files import LAST_OFFSET
from kseg.segment.times import LAST_TIMESTAMP, parse_time

MODES = ("records", "batches", "findings", "entries")
LEVELS = ("quick", "full", "deep")
SPLIT_BYTES = 64 << 20
_FIRST = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read. Ranges are inclusive; ``now_ms`` None: the time when the read is planned.

    ``storage``: options for the file system of URLs, without their prefix.
    """

    paths: tuple[str, ...] = ()
    mode: str = "records"
    first_offset: int = _FIRST
    last_offset: int = LAST_OFFSET
    earliest_ms: int = _FIRST
    latest_ms: int = LAST_TIMESTAMP
    is_committed: bool = False
    split_bytes: int = SPLIT_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    fails_on_damage: bool = False
    pushes_filters: bool = False
    level: str = "full"
    now_ms: int | None = None
    storage: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write to ``paths``: sizes in bytes, the codec as in `kseg convert`."""

    paths: tuple[str, ...] = ()
    codec: str = "none"
    batch_bytes: int = 16 << 10
    segment_bytes: int = 1 << 30
    interval_bytes: int = 4096


def parse_options(given: Mapping[str, str]) -> Options:
    """Returns the options of a read. Raises KsegError for an unknown option or invalid value."""
    storage = sorted((name[8:].lower(), text) for name, text in given.items() if name.lower().startswith("storage."))
    return Options(storage=tuple(storage), **_parsed(given, _OPTIONS))


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Returns the options of a write. Raises KsegError for an unknown option or invalid value."""
    return WriteOptions(**_parsed(given, _WRITE_OPTIONS))


def _parsed(given: Mapping[str, str], known: Mapping[str, "_Option"]) -> dict[str, Any]:
    found: dict[str, Any] = {"paths": _paths(given)}
    for name, text in given.items():
        key = name.lower()
        if key in ("path", "paths") or "." in key:  # options with dots belong to Spark and Hive
            continue
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(key, known, 1, 0.6)
            hint = f"; is it {known[near[0]][0]}?" if near else f": it has {', '.join(o[0] for o in known.values())}"
            raise KsegError(f"format kseg has no option {name!r}{hint}")
        shown, field, parse = known[key]
        try:
            found[field] = parse(text)
        except ValueError as error:
            raise KsegError(f"option {shown} of format kseg: {text!r} is not {error}") from None
    return found


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the paths of ``load(path)``, or of ``load([path, path])``, which Spark passes as JSON."""
    paths = [given["path"]] if given.get("path") else []
    return (*paths, *(json.loads(given["paths"]) if given.get("paths") else ()))


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return text.lower()

    return parse


def _chosen(first: str, second: str) -> Callable[[str], bool]:
    """Returns True for the second of two words."""
    parse = _one_of(first, second)
    return lambda text: parse(text) == second


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError("a number from 0 on")
    return int(text)


def _time(end: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        found = parse_time(text)
        if found is None:
            raise ValueError("a time such as 2026-01-31T09:00:00Z, 2026-01-31 or 1769850000000")
        return found[end]

    return parse


def _bytes(text: str) -> int:
    number, unit = text.rstrip("kKmMgG"), text[len(text.rstrip("kKmMgG")) :].upper()
    scale = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(unit)
    if scale is None or not (number.isascii() and number.isdigit()) or not int(number):
        raise ValueError("a number of bytes such as 1000000, 64m or 1g")
    return int(number) * scale


def _codec(text: str) -> str:
    if text != "none":
        try:
            parse_target(text)
        except ValueError as error:
            raise ValueError(f"none or a codec: {error}") from None
    return text


_Option = tuple[str, str, Callable[[str], Any]]

_ALL: tuple[_Option, ...] = (
    ("mode", "mode", _one_of(*MODES)),
    ("startOffset", "first_offset", _number),
    ("endOffset", "last_offset", _number),
    ("startTimestamp", "earliest_ms", _time(0)),
    ("endTimestamp", "latest_ms", _time(1)),
    ("isolation", "is_committed", _chosen("read_uncommitted", "read_committed")),
    ("onDamage", "fails_on_damage", _chosen("skip", "fail")),
    ("splitBytes", "split_bytes", _bytes),
    ("maxBatchBytes", "max_batch_bytes", _bytes),
    ("pushFilters", "pushes_filters", _chosen("false", "true")),
    ("level", "level", _one_of(*LEVELS)),
    ("now", "now_ms", _time(0)),
)
_WRITING: tuple[_Option, ...] = (
    ("codec", "codec", _codec),
    ("batchBytes", "batch_bytes", _bytes),
    ("segmentBytes", "segment_bytes", _bytes),
    ("indexIntervalBytes", "interval_bytes", _bytes),
)
_OPTIONS = {option[0].lower(): option for option in _ALL}
_WRITE_OPTIONS = {option[0].lower(): option for option in _WRITING}
NAMES = tuple(option[0] for option in _ALL)
WRITE_NAMES = tuple(option[0] for option in _WRITING)
