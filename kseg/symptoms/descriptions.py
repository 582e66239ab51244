"""Finds the entries of the table of symptoms that a few words describe, for people who have no message.

A description has a phrase of an entry if each word of the phrase begins a word of it, in any order; forms of a word and
synonyms count as the word. Entries of the phrase with the most words are taken, else the neighbours that share the
rarest words with it.
"""

import math
import re
from collections import Counter
from functools import cache

from kseg.symptoms.table import SYMPTOMS, Symptom

MAX_WORDS = 12
"""Words of a description that mean something; a longer text is a message."""
_MAX_ENTRIES = 3
_NEIGHBOUR = 4.5
"""Least weight of the words that a neighbour shares: two that few entries have."""

_SYNONYMS = {
    "delete": "remove erase drop purge wipe",
    "message": "record event messages",
    "disappear": "lost lose gone vanish miss missing",
    "grow": "increase fill bloat expand",
    "large": "big huge giant",
    "stuck": "hang hung block frozen freeze",
    "start": "boot startup starting launch",
    "slow": "slowly forever",
    "corrupt": "corrupted corruption broken garbage garbled",
    "full": "exhausted",
    "deserialize": "deserialization deserializer deserializing deserialise",
    "broker": "kafka node server",
    "compact": "compaction compacting",
    "disk": "volume",
    "restore": "recover recovery bring",
    "duplicate": "twice double duplication",
    "permission": "denied",
    "move": "relocate migrate migration",
    "crash": "die died",
    "bad": "wrong incorrect",
    "not": "n't never no cannot can't won't doesn't isn't don't aren't didn't",
}
_STOP_WORDS = frozenset(
    "a an and any are as be because been but by can did do does for from had has have how i if in into is it its just"
    " me my of on or our please so some than that the their them then there these they this to up us was we were what"
    " when why will with would you your after again all at also get got".split()
)
_IS_MESSAGE = re.compile(r"[:=(){}\[\]]|^(?:INFO|WARN|ERROR|FATAL)\b|Exception\b")
"""A text is a message: words that it shares with an entry say nothing."""
_WORD = re.compile(r"[a-z0-9_][\w.%+/'-]*")


def _root(word: str) -> str:
    """Returns a word without its ending: deleted, deletes and deleting have one root."""
    word = word.lstrip("_").rstrip(".'-/") or word
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    for ending in ("ing", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2 and not word.endswith("ss"):
            word = word[: -len(ending)]
    return word


_ROOTS = {_root(word): _root(meaning) for meaning, words in _SYNONYMS.items() for word in words.split()}


def roots_of(text: str) -> list[str]:
    """Returns the roots of the words of a text that mean something; synonyms have one root."""
    words = _WORD.findall(text.lower())
    return [_ROOTS.get(root, root) for word in words if word not in _STOP_WORDS and (root := _root(word))]


@cache
def _phrases() -> list[tuple[Symptom, list[str]]]:
    return [(symptom, roots_of(phrase)) for symptom in SYMPTOMS for phrase in symptom.phrases]


def described(text: str) -> list[Symptom]:
    """Returns the entries that a short text describes, the best first; at most three."""
    words = roots_of(text)
    if not words or len(words) > MAX_WORDS or _IS_MESSAGE.search(text):
        return []
    weights: dict[str, tuple[int, int]] = {}
    entries = {symptom.name: symptom for symptom in SYMPTOMS}
    for symptom, phrase in _phrases():
        if all(any(word.startswith(part) for word in words) for part in phrase):
            weights[symptom.name] = max(weights.get(symptom.name, (0, 0)), (len(phrase), sum(map(len, phrase))))
    most = max((weight[0] for weight in weights.values()), default=0)
    best = sorted((name for name in weights if weights[name][0] == most), key=lambda name: -weights[name][1])
    return [entries[name] for name in best[:_MAX_ENTRIES]] or _neighbours(words)


@cache
def _vocabulary() -> list[tuple[Symptom, frozenset[str]]]:
    """Returns the words of each entry: of its name, its phrases and its cause."""
    return [
        (symptom, frozenset(roots_of(" ".join((symptom.name.replace("-", " "), *symptom.phrases, symptom.cause)))))
        for symptom in SYMPTOMS
    ]


def _neighbours(words: list[str]) -> list[Symptom]:
    """Returns the two entries that share the rarest words with a description, if these are two at least."""
    counts = Counter(word for _, vocabulary in _vocabulary() for word in vocabulary)
    found = []
    for symptom, vocabulary in _vocabulary():
        shared = vocabulary & set(words)
        weight = sum(math.log(len(SYMPTOMS) / counts[word]) for word in shared)
        if len(shared) > 1 and weight >= _NEIGHBOUR:
            found.append((weight, symptom))
    found.sort(key=lambda each: -each[0])
    return [symptom for weight, symptom in found[:2] if weight > found[0][0] * 0.7]
