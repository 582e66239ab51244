"""The certificate of an erasure, JSON for an auditor, and the check of logs against it.

It names no key: keys and patterns are hashed with a salt, so that equal keys cannot be found across certificates.
Whoever has the certificate and guesses a key can confirm the guess.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import kseg
from kseg.changes.driver.command import is_partition
from kseg.changes.manifest import digest
from kseg.changes.quarantine import kept_logs
from kseg.cleaner.log import CleaningThreads
from kseg.erasure.search import Criteria, LogSearch, Ranges, is_internal
from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.suffixes import LOG
from kseg.limits import MAX_MANIFEST_BYTES
from kseg.quantities import plural
from kseg.segment.files import list_segments, own_partitions, parse_partition_name
from kseg.segment.items import Damage
from kseg.stores.place import Place

TYPE, VERSION = "erasureCertificate", 1
_SALT_BYTES = 16
Row = dict[str, Any]


def hashed(salt: bytes, key: bytes) -> str:
    """Returns the SHA-256 of salt and key in hex."""
    return sha256(salt + key).hexdigest()


def sizes_and_digests(directory: str, names: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Returns size and SHA-256 of the files that exist. Raises OSError."""
    found = {}
    for name in names:
        if (path := Place(directory) / name).is_file():
            size = path.size()
            found[name] = size, digest(path, 0, size)
    return found


@dataclass(slots=True)
class Certificate:
    """Collects what one run has erased. ``partitions``: an object for each partition that was searched."""

    criteria: Criteria
    salt: bytes = field(default_factory=lambda: os.urandom(_SALT_BYTES))
    keys: set[bytes] = field(default_factory=set)
    partitions: list[Row] = field(default_factory=list)

    def as_object(self, failed: Mapping[str, KsegError]) -> Row:
        """Returns the certificate. ``failed``: the errors of partitions in which nothing was erased."""
        chosen = self.criteria
        patterns = {"keyPatterns": chosen.key_patterns, "patterns": chosen.patterns}
        hashes = {name: sorted(hashed(self.salt, each.pattern) for each in found) for name, found in patterns.items()}
        return {
            "type": TYPE,
            "version": VERSION,
            "kseg": kseg.__version__,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "salt": self.salt.hex(),
            "selection": {
                "keys": sorted(hashed(self.salt, key) for key in chosen.keys),
                **hashes,
                "offsets": [list(each) for each in chosen.offsets],
            },
            "erasedKeys": sorted(hashed(self.salt, key) for key in self.keys),
            "records": sum(each["records"] for each in self.partitions),
            "partitions": self.partitions,
            "failed": [{"directory": path, "error": str(error)} for path, error in failed.items()],
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
        place = parse_partition_name(os.path.basename(os.path.abspath(directory)))
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
                for file in [*list_segments(directory, everything=True), *kept_logs(directory)]:
                    if file.kind != LOG:
                        continue
                    is_live = not file.leftover
                    found = search.segment(file.path, lambda _: None) if is_live else search.file(file)
                    records += found.records
                    ranges += found.ranges
                    damage += [damage_row(file.path, each) for each in found.damage]
                yield {
                    "type": "erasureCheck",
                    "directory": directory,
                    "records": records,
                    "offsets": ranges,
                    "notSearched": damage,
                }


def damage_row(path: str, damage: Damage) -> Row:
    """Returns bytes that could not be searched as JSON."""
    return {
        "file": path,
        "position": damage.position,
        "length": damage.length,
        "code": damage.code,
        "message": damage.message,
    }


def sentence_of(row: Row) -> str:
    """Returns the result of a check for people."""
    text = f"{row['directory']}: {plural(row['records'], 'record', 'records')} of the certificate"
    if row["offsets"]:
        shown = ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in row["offsets"][:8])
        text += f", at offsets {shown}{', ...' if len(row['offsets']) > 8 else ''}"
    if row["notSearched"]:
        text += f"; {plural(len(row['notSearched']), 'range', 'ranges')} of bytes could not be searched"
    return text
