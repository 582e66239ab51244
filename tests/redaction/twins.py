"""Twins of real logs, and what must be the same of both."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from kseg.changes.driver.command import ChangeOptions
from kseg.formats.rows import UndecodableError
from kseg.redaction.directories import RedactOptions, redact
from kseg.segment.files import SegmentFile, segment_file
from kseg.segment.items import Batch, Damage
from kseg.segment.reader import open_segment
from kseg.segment.survey import DEEP
from kseg.verification.partition import CheckSettings
from kseg.verification.run import judge_path
from verification.partitions import Found

LEAST_BYTES = 8
"""A payload of so many bytes is not by chance in other bytes."""


def counts_of(path: Path, output: Path, **options: Any) -> dict[str, int]:
    """Writes the twin of a path; returns what was replaced in it."""
    twin = redact(str(path), ChangeOptions(output=str(output)), RedactOptions(**options), lambda _: None)
    return twin.facts or {}


def twin_of(path: Path, output: Path, **options: Any) -> Path:
    """Writes the twin of a path; returns what stands for the path in it."""
    counts_of(path, output, **options)
    inside = [found for found in sorted(output.rglob(path.name)) if found.is_dir() == path.is_dir()]
    return inside[0] if inside else output


def findings_of(path: Path, now_ms: int, **settings: Any) -> Counter[tuple[str, str, str]]:
    """Code, severity and file of all findings, at level deep."""
    found = Found()
    judge_path(str(path), CheckSettings(DEEP, now_ms, **settings), found.report)
    return Counter((each.code, each.severity, os.path.relpath(each.file, path)) for each in found.findings)


def logs_at(path: Path) -> list[SegmentFile]:
    found = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return [file for file in map(segment_file, map(str, found)) if file.is_segment]


def payloads_of(path: Path) -> set[bytes]:
    """Keys, values and header values of all user records that can be read."""
    found = set[bytes]()
    for file in logs_at(path):
        with open_segment(file) as reader:
            for item in reader:
                for record in () if isinstance(item, Damage) or item.is_control else item:
                    fields = record.key, record.value, *(header.value for header in record.headers)
                    found |= {field for field in fields if field and len(field) >= LEAST_BYTES and len(set(field)) > 4}
    return found


def bytes_of(path: Path) -> bytes:
    """All that a reader of a twin can get: its files, and its records."""
    whole = [each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()] if path.is_dir() else []
    return b"\0".join((*whole, *payloads_of(path)))


def shape_of(path: Path) -> list[Any]:
    """All that a twin must share with the original, but for what is left of broken streams."""
    found: list[Any] = []
    for file in logs_at(path):
        with open_segment(file) as reader:
            for item in reader:
                found.append(_shape(item))
    return found


def _shape(item: Batch | Damage) -> tuple[Any, ...]:
    if isinstance(item, Damage):
        return (item.code,)
    records: Any = "cannot be read"
    try:
        sizes = [
            (
                record.offset, record.timestamp, record.timestamp_type, record.sequence, _size(record.key),
                _size(record.value), [(len(header.key), _size(header.value)) for header in record.headers],
            )
            for record in item
        ]  # fmt: skip
        records = sizes
    except UndecodableError:
        pass
    codes = sorted(problem.code for problem in item.check())
    if not item.is_valid:
        return item.magic, item.is_valid, codes  # of a wrong magic the other fields mean nothing
    if {"undecodable-records", "decompression-limit"} & {*codes}:
        records = "cannot be read"
    return item.magic, item.is_valid, item.compression, item.last_offset, item.max_timestamp, codes, records


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
