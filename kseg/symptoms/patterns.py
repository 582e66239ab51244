"""Finds the entries of the table that a line has a message of; their words drop most lines of a log at once."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from kseg.symptoms.table import PLACEHOLDER, SYMPTOMS, VALUES, Symptom

MAX_LINE = 20_000
"""Characters of a line that are searched or remembered: a pattern's time grows with a line's length."""
MAX_TEMPLATES, MAX_TEMPLATE_BYTES = 50_000, 1000
"""Lines without a message, apart from their digits, that are remembered."""
_WORD = re.compile(rb"\w+", re.ASCII)
_SAME_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_COMMON = frozenset(b"the for in to of at is and from with while not partition offset Error segment Exception".split())
_LOOSE = ("word", "partition", "topic", "number", "offset", "position", "file", "logdir", "logdirs", "other")
"""Placeholders that may have an unexpected form."""

Groups = dict[str, str | None]


class Pattern(NamedTuple):
    """A message of an entry. ``length``: characters of its text; of two in a line the longer one counts."""

    symptom: Symptom
    text: str
    length: int


class PatternIndex:
    """The patterns by their words: a line can have a message only if it has all of its words.

    Lines that differ only in digits are looked up once, if the first of them has no message: digits are alike in words.
    ``more`` are further texts of interest.
    """

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._by_word: dict[bytes, list[tuple[frozenset[bytes], Pattern | None]]] = {}
        for symptom in SYMPTOMS:
            for text in symptom.messages:
                self._add(text, Pattern(symptom, text, len(PLACEHOLDER.sub("", text))))
        for text in more:
            self._add(text, None)
        self._words = frozenset(self._by_word)
        self._dull: set[bytes] = set()

    def _add(self, text: str, pattern: Pattern | None) -> None:
        literal = re.sub(r"\w*\0\w*", " ", PLACEHOLDER.sub("\0", text))
        words = _WORD.findall(literal.encode().translate(_SAME_DIGITS))
        rarest = max(words, key=lambda word: (word not in _COMMON, len(word)))
        self._by_word.setdefault(rarest, []).append((frozenset(words), pattern))

    def candidates(self, line: bytes) -> list[Pattern | None] | None:
        """Returns the patterns whose words a line has, with None for texts of ``more``; None if there are none."""
        template = line.translate(_SAME_DIGITS)
        if template in self._dull:
            return None
        words = set(_WORD.findall(template))
        found = [
            pattern
            for word in self._words.intersection(words)
            for needed, pattern in self._by_word[word]
            if needed <= words
        ]
        if found:
            return found
        if len(self._dull) >= MAX_TEMPLATES:
            self._dull.clear()
        if len(template) <= MAX_TEMPLATE_BYTES:
            self._dull.add(template)
        return None


@cache
def _compiled(text: str, is_strict: bool) -> re.Pattern[str]:
    parts = PLACEHOLDER.split(text)  # text, name of a placeholder, text, ...
    parts[::2] = [re.escape(part).replace(r"\ ", r"\s+") for part in parts[::2]]
    loose = () if is_strict else _LOOSE
    parts[1::2] = [r"\S.*?" if name in loose else VALUES[name][0] for name in parts[1::2]]
    return re.compile(r"(?<!\w)" * text[0].isalnum() + "".join(parts) + r"(?!\w)" * text[-1].isalnum())


def matches_of(line: str, patterns: Iterable[Pattern]) -> Iterator[tuple[Pattern, Groups]]:
    """Yields each pattern that a line matches, and its groups: causes first, then by length.

    Consequences come last because such a line often quotes its cause.
    """
    for pattern in sorted(patterns, key=lambda each: (each.symptom.is_consequence, -each.length)):
        for is_strict in (True, False):  # a message is known also if its partition has an unexpected form
            if match := _compiled(pattern.text, is_strict).search(line):
                yield pattern, match.groupdict()
                break
