"""Replaces names by others of the same length: equal names get equal ones, different names different ones.

A replacement is made of lower-case letters and digits, so that it is a legal name wherever the name was one. Groups and
transactional ids keep their hash (Java's String.hashCode): it chooses the partition of __consumer_offsets,
__transaction_state and __share_group_state that holds their records.
"""

import os
import re
from hashlib import blake2b
from threading import Lock

from kseg.formats import java_text
from kseg.kernel.compact.key_map import SECRET_BYTES, Secret
from kseg.kernel.records.replacing import Replacer
from kseg.sidefiles.hash_order import coordinator_partition, string_hash

_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"
_DIGITS = bytes(_LETTERS[byte % len(_LETTERS)] for byte in range(256))
_FIRST = bytes(_LETTERS[byte % 26] for byte in range(256))
_MAX_REMEMBERED = 1 << 18
"""Names up to _SHORT bytes of which two could get one replacement; beyond this number they may."""
LONGEST_REMEMBERED = 1 << 12
"""Replacements of longer names and fields are made each time: memory does not grow with what a record holds."""
_SHORT = 12
_ATTEMPTS = 2048
_WRAP = 1 << 32
_FACTOR = 31
_SOLVED = 8
"""Characters at the end of a name that give it its hash: 36 characters have each remainder of 31 but some."""
_PARTITIONS = 50
"""Of the coordinators' topics, by default; a name that is too short for its hash keeps only its partition."""

INTERNAL = re.compile(
    r"__.*|_schemas|connect-(configs|offsets|status)|mm2-offset-syncs\..*\.internal|(.*\.)?checkpoints\.internal"
    r"|(.*\.)?heartbeats"
)
"""Topics whose names are kept: they tell how their records are read."""
_PRINCIPAL = re.compile(rb"(User|Group):(?=.)")
_SUFFIXED = re.compile(rb"(.+)-(key|value)", re.DOTALL)


class Pseudonyms:
    """The replacements of one run; its random key is in memory only. ``with_topics``: topic names are replaced, too."""

    def __init__(self, with_topics: bool = False) -> None:
        self.with_topics = with_topics
        key = os.urandom(SECRET_BYTES)
        self._secret, self._key = Secret(key), os.urandom(32)
        self._found: dict[bytes, bytes] = {}
        self._taken: set[bytes] = set()
        self._lock = Lock()
        self._hashed: dict[bytes, bytes] = {}
        self._fields = self.replacer()

    def replacer(self) -> Replacer:
        """Returns a new replacer of keys and values, for one thread."""
        return Replacer(self._secret, self.with_topics)

    def payload(self, data: bytes) -> bytes:
        """Returns the replacement of a key or value."""
        return self._fields.replace_bytes(data)

    def name(self, data: bytes) -> bytes:
        """Returns the replacement of a name: of a member, client, host, user or whatever a person has chosen."""
        if len(data) > _SHORT:
            return self._drawn(data, 0)
        with self._lock:
            found = self._found.get(data)
            if found is None:
                drawn = (self._drawn(data, number) for number in range(_ATTEMPTS))
                found = next((each for each in drawn if each not in self._taken and each != data), None)
                found = found or self._drawn(data, 0)
                if len(self._found) < _MAX_REMEMBERED:
                    self._found[data] = found
                    self._taken.add(found)
            return found

    def identity(self, data: bytes) -> bytes:
        """Returns the replacement of a group or transactional id, of the same hash."""
        with self._lock:
            found = self._hashed.get(data)
        if found is None:
            found = self._same_hash(data)
            with self._lock:
                if len(self._hashed) < _MAX_REMEMBERED and len(data) <= LONGEST_REMEMBERED:
                    self._hashed[data] = found
        return found

    def host(self, data: bytes) -> bytes:
        """Returns the replacement of a host; a client's address begins with a slash."""
        return data[:1] + self.name(data[1:]) if data.startswith(b"/") else data if data == b"*" else self.name(data)

    def principal(self, data: bytes) -> bytes:
        """Returns the replacement of a principal, such as User:ann; its type and User:* stay."""
        found = _PRINCIPAL.match(data)
        start = found.end() if found else 0
        return data[:start] + (data[start:] if data[start:] == b"*" else self.name(data[start:]))

    def topic(self, data: bytes) -> bytes:
        """Returns the name of a topic in the twin."""
        if not self.with_topics or data == b"*" or INTERNAL.fullmatch(data.decode("utf-8", "replace")):
            return data
        return self.name(data)

    def subject(self, data: bytes, topics: frozenset[bytes]) -> bytes:
        """Returns the replacement of a subject of a Schema Registry; that of a topic keeps to the topic's name."""
        found = _SUFFIXED.fullmatch(data)
        if found is None:
            return self.topic(data) if data in topics else self.name(data)
        name = self.topic(found[1]) if found[1] in topics else self.name(found[1])
        return name + b"-" + found[2]

    def _drawn(self, data: bytes, number: int) -> bytes:
        """Returns the draw ``number`` for a name."""
        digest = blake2b(data, key=self._key, salt=number.to_bytes(8, "little")).digest()
        text = digest[:1].translate(_FIRST) + digest[1:].translate(_DIGITS)
        return (text * (len(data) // len(text) + 1))[: len(data)]

    def _same_hash(self, data: bytes) -> bytes:
        text, number = java_text.decode(data), 0
        if len(data) < _SOLVED + 1:
            partition = coordinator_partition(text, _PARTITIONS)
            for number in range(_ATTEMPTS):
                drawn = self._drawn(data, number)
                if drawn != data and coordinator_partition(drawn.decode(), _PARTITIONS) == partition:
                    return drawn
            return self.name(data)
        wanted = string_hash(text) % _WRAP
        while True:
            head = self._drawn(data, number)[: len(data) - _SOLVED]
            number += 1
            hash_of_head = string_hash(head.decode()) % _WRAP
            left = (wanted - hash_of_head * pow(_FACTOR, _SOLVED, _WRAP)) % _WRAP
            for wraps in range(_LETTERS[25] * _FACTOR**_SOLVED // (_FACTOR - 1) // _WRAP):
                tail = _ending(left + wraps * _WRAP, _SOLVED)
                if tail is not None and head + tail != data:
                    return head + tail


_BY_REMAINDER = [[letter for letter in _LETTERS if letter % _FACTOR == rest] for rest in range(_FACTOR)]


def _ending(number: int, size: int) -> bytes | None:
    """Returns ``size`` characters whose polynomial of 31 is the number; None if there are none."""
    if size == 0:
        return b"" if number == 0 else None
    least = _LETTERS[26] * (_FACTOR**size - 1) // (_FACTOR - 1)  # of zeros
    if number < least or number > _LETTERS[25] * (_FACTOR**size - 1) // (_FACTOR - 1):
        return None
    for letter in _BY_REMAINDER[number % _FACTOR]:
        head = _ending((number - letter) // _FACTOR, size - 1)
        if head is not None:
            return head + bytes((letter,))
    return None
