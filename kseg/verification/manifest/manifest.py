"""Writes digests of segments to a manifest, and checks the segments against it later (bit rot, tampering).

A batch's own checksum does not cover its first 21 bytes (v2; 16 of v0 and v1), and after a deliberate change it can be
recomputed. A manifest covers every byte. It has no side files, because brokers rebuild them.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kseg.errors import PathError
from kseg.formats.rows import Scratch
from kseg.limits import MAX_BATCH_BYTES
from kseg.runtime.threads import Pipeline
from kseg.segment.files import SegmentFile
from kseg.segment.paths import expand_path, segments_at
from kseg.stores import trees
from kseg.stores.regular_files import open_regular
from kseg.stores.source import STANDARD_INPUT, open_source
from kseg.verification.manifest.digests import blocks_of
from kseg.verification.manifest.manifest_file import ManifestLines, ManifestReader
from kseg.verification.manifest.segment_check import SegmentCheck
from kseg.verification.report import Report


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How segments are read; see `kseg.verification.settings.CheckSettings`."""

    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    is_live: bool = False
    is_07: bool = False
    advance: Callable[[int], None] = lambda _: None
    """Receives numbers of bytes read."""


@dataclass(slots=True)
class _Found:
    """A segment below a PATH; ``is_last``: whether it is the last of its directory. ``name`` is relative to the
    PATH."""

    file: SegmentFile
    name: bytes
    is_last: bool


def write_manifest(paths: Iterable[str], options: ReadOptions, put: Callable[[bytes], None]) -> ManifestLines:
    """Passes the lines of a manifest of all segments below ``paths`` to ``put``. Raises PathError."""
    lines, scratch = ManifestLines(), Scratch(options.max_batch_bytes)
    put(lines.head())
    with Pipeline(options.jobs) as pipeline:
        for found in _segments(paths).values():
            with open_source(found.file.path) as source:
                put(lines.segment(found.name, source.size))
                is_live = options.is_live and found.is_last
                for block in blocks_of(source, _is_07(found.file, options), is_live, scratch, pipeline):
                    put(lines.block(block))
                    options.advance(block.size)
    put(lines.total())
    return lines


def check_manifest(path: str, paths: Iterable[str], options: ReadOptions, report: Report) -> int:
    """Reports differences between the segments below ``paths`` and the manifest at ``path``. Returns the number of
    segments that are in the manifest. Raises PathError.
    """
    present = _segments(paths)
    known = _ManifestNames()
    compared = 0
    try:
        stream = open_regular(path)
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    with stream, Pipeline(options.jobs) as pipeline:
        missing = []
        for entry in ManifestReader(stream, path).entries():
            known.add(entry.name)
            found = present.get(entry.name)
            if found is None:
                missing.append((entry.name, entry.size))
                continue
            compared += 1
            is_07 = _is_07(found.file, options)
            SegmentCheck(found.file, is_07, options.max_batch_bytes, pipeline, report).run(entry)
            options.advance(entry.size)
    if known.names and not compared:
        raise PathError(f"{path}: names no segment of these paths; give the PATH from which it was written")
    root = next(iter(paths), "")
    _report_missing(missing, present, root, report)
    _report_new(known, present, report)
    return compared


def _is_07(file: SegmentFile, options: ReadOptions) -> bool:
    return options.is_07 or file.is_07


def _segments(paths: Iterable[str]) -> dict[bytes, _Found]:
    """Returns all segments below the paths by name, relative to the path. Raises PathError."""
    found: dict[bytes, _Found] = {}
    for path in paths:
        if path == STANDARD_INPUT:
            raise PathError("a manifest is of files, not of standard input")
        root = path if trees.isdir(path) else os.path.dirname(path) or "."
        for part in expand_path(path):
            files = segments_at(part)
            for file in files:
                name = os.fsencode(os.path.relpath(file.path, root))
                if name in found:
                    text = f"{file.path} and {found[name].file.path} would have the same name in the manifest"
                    raise PathError(f"{text}: make one of each PATH")
                found[name] = _Found(file, name, file is files[-1])
    return found


@dataclass(slots=True)
class _ManifestNames:
    """The names of a manifest's segments, and their base offsets by directory."""

    names: set[bytes] = field(default_factory=set)
    bases: dict[bytes, list[int]] = field(default_factory=dict)

    def add(self, name: bytes) -> None:
        self.names.add(name)
        self.bases.setdefault(os.path.dirname(name), []).append(_base(name))


def _base(name: bytes) -> int:
    """Returns the number at the start of a file's name, -1 if there is none."""
    digits = os.path.basename(name).split(b".")[0].split(b"-")[0]
    return int(digits) if digits.isdigit() and len(digits) <= 20 else -1


def _report_missing(missing: list[tuple[bytes, int]], present: dict[bytes, _Found], root: str, report: Report) -> None:
    """Reports missing segments of the manifest; at the start of a log retention removes them."""
    first: dict[bytes, int] = {}
    for name in present:
        folder = os.path.dirname(name)
        first[folder] = min(first.get(folder, _base(name)), _base(name))
    for name, size in missing:
        path = os.path.join(root if trees.isdir(root) else os.path.dirname(root), os.fsdecode(name))
        if _base(name) < first.get(os.path.dirname(name), -1):
            text = f"{size} bytes; the log now begins behind it"
            report.add("manifest-expired", path, text, 0, size)
        else:
            report.add("manifest-missing", path, f"the segment is missing, {size} bytes", 0, size)


def _report_new(known: _ManifestNames, present: dict[bytes, _Found], report: Report) -> None:
    """Reports segments that the manifest does not have; newer ones are expected in a growing log."""
    newer: dict[bytes, list[_Found]] = {}
    for name, found in present.items():
        if name in known.names:
            continue
        folder = os.path.dirname(name)
        if _base(name) > max(known.bases.get(folder, ()), default=-1):
            newer.setdefault(folder, []).append(found)
        else:
            report.add("manifest-added", found.file.path, "the manifest does not name this segment")
    for group in newer.values():
        path = os.path.dirname(group[0].file.path) or "."
        report.add("manifest-grown", path, f"segments that the manifest does not name: {len(group)}")
