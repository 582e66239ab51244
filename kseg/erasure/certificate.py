"""The certificate of an erasure, JSON for an auditor, and the check of logs against it.

It names no key: keys and patterns are hashed with a salt, so that equal keys cannot be found across certificates.
Whoever has the certificate and guesses a key can confirm the guess.

Each partition is noted in a file beside the certificate before it is changed, so that a run which completes an
interrupted one certifies what both have erased.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import kseg
from kseg.changes.disk import Disk, opened
from kseg.changes.driver.command import is_partition
from kseg.changes.journal import replace_file
from kseg.changes.quarantine import kept_logs
from kseg.cleaner.log import CleaningThreads
from kseg.erasure.search import Criteria, LogSearch, Ranges, is_internal
from kseg.errors import KsegError, PathError, RequestError, errors_at
from kseg.formats.json_values import fields_of, name_of, name_value
from kseg.formats.suffixes import LOG
from kseg.limits import MAX_MANIFEST_BYTES
from kseg.quantities import plural
from kseg.segment.files import directory_name, list_segments, own_partitions, parse_partition_name
from kseg.segment.items import Damage
from kseg.stores.place import Place

TYPE, VERSION = "erasureCertificate", 1
_UNFINISHED = ".unfinished"
"""Ends the name of the file of notes beside a certificate."""
_NOTED_ONLY = "path", "keys"
_SALT_BYTES = 16
Row = dict[str, Any]


def hashed(salt: bytes, key: bytes) -> str:
    """Returns the SHA-256 of salt and key in hex."""
    return sha256(salt + key).hexdigest()


class TextSink(Protocol):
    """The output that gets a certificate."""

    def put(self, line: str) -> None: ...


@dataclass(slots=True)
class CertificateFile:
    """``notes``: the file with a line of JSON for each partition that was begun; "": there is none."""

    sink: TextSink
    notes: str
    is_finished: bool = False


@contextmanager
def certificate_file(
    open_sink: Callable[[str], AbstractContextManager[TextSink]], path: str | None
) -> Iterator[CertificateFile | None]:
    """Opens the file of a certificate, if one is wanted. Once it is in place, the notes go if all partitions are done.

    The certificate of a finished erasure stays: it is its only evidence. Raises PathError, OSError.
    """
    if path is None:
        yield None
        return
    target = Place(os.path.realpath(path))
    is_file = path != "-" and (target.is_file() or not target.exists())
    is_finished = is_file and target.exists() and target.size() > 0 and not Place(target + _UNFINISHED).lexists()
    if is_finished and any(read_certificate(path).offsets.values()):
        raise PathError(f"{path}: already certifies what was erased before; nothing was erased: name another file")
    with open_sink(path) as sink:
        yield (found := CertificateFile(sink, target + _UNFINISHED if is_file else ""))
    if found.is_finished and found.notes and Place(found.notes).lexists():
        Disk().unlink(found.notes)


class Certificate:
    """Collects what this run, and an interrupted one before it, have erased. Raises RequestError if that had another
    selection."""

    def __init__(self, criteria: Criteria, file: CertificateFile) -> None:
        self._criteria, self._file = criteria, file
        self._salt = os.urandom(_SALT_BYTES)
        self._begun: dict[str, list[Row]] = {}
        self._done: dict[str, Row] = {}
        self._has_notes = False
        if file.notes and Place(file.notes).lexists():
            self._read()

    def _read(self) -> None:
        with errors_at(path := self._file.notes):
            lines = Place(path).read(MAX_MANIFEST_BYTES).split(b"\n")[:-1]  # the last one may be half a line
        try:
            head, *rows = map(json.loads, lines)
            self._salt = bytes.fromhex(head["salt"])
            if head != self._head():
                raise ValueError(head)
            for row in rows:
                self._begun.setdefault(row["path"], []).append(row)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            text = f"{path}: notes of an interrupted erasure of other records: complete that one, or remove the file"
            raise RequestError(text) from error

    def _head(self) -> Row:
        chosen = self._criteria
        patterns = {"keyPatterns": chosen.key_patterns, "patterns": chosen.patterns}
        hashes = {name: sorted(hashed(self._salt, each.pattern) for each in found) for name, found in patterns.items()}
        return {
            "salt": self._salt.hex(),
            "selection": {
                "keys": sorted(hashed(self._salt, key) for key in chosen.keys),
                **hashes,
                "offsets": [list(each) for each in chosen.offsets],
            },
        }

    def begin(self, row: Row, keys: Iterable[bytes], is_changed: bool) -> None:
        """Takes a partition as it was found. Before it is changed, it is noted. Raises OSError."""
        hashes = sorted(hashed(self._salt, key) for key in keys)
        row = {"path": Place(row["directory"]).absolute, "keys": hashes, **row}
        begun = self._begun.setdefault(row["path"], [])
        begun.append(row)
        if not (is_changed and self._file.notes):
            return
        disk, is_longer, self._has_notes = Disk(), self._has_notes, False  # after an error it is written anew
        if is_longer:
            with opened(self._file.notes, os.O_WRONLY | os.O_APPEND) as descriptor:
                disk.write(descriptor, _lines(row))
                disk.sync(descriptor)
        else:
            every = (each for found in self._begun.values() for each in found)
            replace_file(self._file.notes, _lines(self._head(), *every), disk)
        self._has_notes = True

    def end(self, directory: str, after: Mapping[str, tuple[int, str]]) -> None:
        """Takes a partition as begun last, now that it was changed. ``after``: sizes and digests of its segments."""
        *earlier, row = self._begun[path := Place(directory).absolute]
        for each in reversed(earlier):
            row = _joined(each, row)
        for segment in row["segments"]:
            segment["sizeAfter"], segment["sha256After"] = after.get(segment["file"], (None, None))
        self._done[path] = row

    def finish(self, failed: Mapping[str, KsegError]) -> None:
        """Writes the certificate. ``failed``: the errors of partitions in which nothing was erased."""
        errors = {path: str(error) for path, error in failed.items()}
        known = {*self._done, *(Place(path).absolute for path in failed)}
        errors |= dict.fromkeys(self._begun.keys() - known, "was begun by an interrupted run, and not searched again")
        row = {
            "type": TYPE,
            "version": VERSION,
            "kseg": kseg.__version__,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **self._head(),
            "erasedKeys": sorted({key for each in self._done.values() for key in each["keys"]}),
            "records": sum(each["records"] for each in self._done.values()),
            "partitions": [{k: v for k, v in each.items() if k not in _NOTED_ONLY} for each in self._done.values()],
            "failed": [{"directory": path, "error": error} for path, error in sorted(errors.items())],
        }
        self._file.sink.put(json.dumps(row, indent=1))
        self._file.is_finished = not errors


def _lines(*rows: Row) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _joined(old: Row, new: Row) -> Row:
    """Returns two searches of a partition as one; without the old one if nothing was changed after it."""
    if {first for first, _ in old["offsets"]} & {first for first, _ in new["offsets"]}:
        return new
    segments = {each["file"]: each for each in new["segments"]}
    for each in old["segments"]:
        found = segments.get(each["file"], {"records": 0})
        segments[each["file"]] = each | {"records": each["records"] + found["records"]}
    others = {each["file"]: each for row in (old, new) for each in row["otherFiles"]}
    return new | {
        "records": old["records"] + new["records"],
        "offsets": sorted([*map(list, old["offsets"]), *map(list, new["offsets"])]),
        "keys": sorted({*old["keys"], *new["keys"]}),
        "otherNames": sorted({*old["otherNames"], *new["otherNames"]}),
        "segments": [segments[name] for name in sorted(segments)],
        "otherFiles": list(others.values()),
    }


# The check: none of the offsets holds a record, and no record has one of the keys.


@dataclass(frozen=True, slots=True)
class Known:
    """A certificate as it was read. ``offsets``: by topic and partition."""

    salt: bytes
    keys: frozenset[str]
    offsets: Mapping[tuple[str, int], Ranges]

    def criteria_for(self, directory: str) -> Criteria:
        """Returns the records that must not be in a partition."""
        place = parse_partition_name(directory_name(directory))
        ranges = tuple(self.offsets.get(place, ())) if place is not None else ()
        has_key = (lambda key: hashed(self.salt, key) in self.keys) if self.keys else None
        return Criteria(offsets=ranges, has_key=has_key)


def read_certificate(path: str) -> Known:
    """Raises PathError if it is none."""
    with errors_at(path):
        content = Place(path).read(MAX_MANIFEST_BYTES)
    try:
        row = json.loads(content)
        if row["type"] != TYPE or row["version"] != VERSION:
            raise ValueError(row["version"])
        offsets: dict[tuple[str, int], Ranges] = {}
        for each in row["partitions"]:
            ranges = [(int(first), int(last)) for first, last in each["offsets"]]
            offsets.setdefault((str(each["topic"]), int(each["partition"])), []).extend(ranges)
        keys = frozenset(map(str, [*row["selection"]["keys"], *row["erasedKeys"]]))
        return Known(bytes.fromhex(row["salt"]), keys, offsets)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise PathError(f"{path}: is no certificate of an erasure ({error!r})") from error


def check(known: Known, paths: Iterable[str], jobs: int) -> Iterator[Row]:
    """Yields an object for each partition: how many records of the certificate it still has, where, and what could not
    be searched. Raises PathError."""
    with closing(CleaningThreads(jobs)) as workers:
        for path in paths:
            partitions = [path] if is_partition(path) else own_partitions(path)
            for directory in (each for each in partitions if not is_internal(each)):
                records, ranges, damage = 0, Ranges(), list[Row]()
                search = LogSearch(known.criteria_for(directory), workers)
                files = [*list_segments(directory, everything=True), *kept_logs(directory)]
                for file in (each for each in files if each.kind == LOG):
                    found = search.file(file) if file.leftover else search.segment(file.path, lambda _: None)
                    records += found.records
                    ranges += found.ranges
                    damage += [damage_row(file.path, each) for each in found.damage]
                row = {"type": "erasureCheck", "directory": directory, "records": records}
                yield with_names({**row, "offsets": ranges, "notSearched": damage})


def damage_row(path: str, damage: Damage) -> Row:
    """Returns bytes that could not be searched as JSON."""
    return {"file": path} | fields_of(damage, "position", "length", "code", "message")


def with_names(row: Row, *lists: str) -> Row:
    """Returns the row of an erasure, or of a check of one, with its paths as in JSON; ``lists``: fields of several."""
    found = {**row, "directory": name_value(row["directory"])}
    found["notSearched"] = [{**each, "file": name_value(each["file"])} for each in row["notSearched"]]
    return found | {name: [name_value(path) for path in row[name]] for name in lists}


def sentence_of(row: Row) -> str:
    """Returns the result of a check for people."""
    text = f"{name_of(row['directory'])}: {plural(row['records'], 'record', 'records')} of the certificate"
    if row["offsets"]:
        shown = ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in row["offsets"][:8])
        text += f", at offsets {shown}{', ...' if len(row['offsets']) > 8 else ''}"
    if row["notSearched"]:
        text += f"; {plural(len(row['notSearched']), 'range', 'ranges')} of bytes could not be searched"
    return text
