"""Finds the symptoms that a few words describe, for people who have no message.

A description matches if each word of one of its phrases begins a word of the text, in any order.
"""

import re

from kseg.symptoms.matching import Found
from kseg.symptoms.places import place_of
from kseg.symptoms.table import SYMPTOMS

MAX_WORDS = 10
"""Words of a description; a longer text is a message."""

PHRASES: dict[str, tuple[str, ...]] = {
    "cleaner-stopped": (
        "compact stuck", "compact stop", "compact not", "cleaner stuck", "cleaner dead", "cleaner stop", "cleaner not",
        "consumer_offsets grow", "consumer_offsets large", "consumer_offsets huge", "consumer_offsets size",
    ),
    "hanging-transaction": (
        "lso", "last stable offset", "transaction hang", "transaction open", "transaction stuck",
        "read_committed stuck",
    ),
    "disk-full": ("disk full", "disk space", "volume full", "space left"),
    "disk-error": ("disk error", "disk fail", "disk broken", "bad sector"),
    "stray": ("stray",),
    "topic-deleted": ("topic delete", "partition delete", "undelete"),
    "retention-blocked": (
        "retention not", "retention stuck", "not shrink", "never shrink", "old segment not", "topic grow", "log grow",
    ),
    "timestamp-out-of-range": ("timestamp future", "timestamp wrong", "timestamp microseconds"),
    "consumer-corrupt-record": ("consumer stuck", "consumer stop", "consumer hang", "crc", "checksum"),
    "dump-non-consecutive": ("offset gap", "gaps", "offset missing", "offset skip"),
    "offset-out-of-range": ("offset range",),
    "out-of-order-sequence": ("sequence order", "producer snapshot", "unknown producer"),
    "replication-failed": ("offset order", "offset monotonic", "follower stuck", "replica stuck"),
    "corrupt-index": ("index corrupt", "index broken", "index damage"),
    "slow-recovery": ("start slow", "start hours", "recover slow", "recover hours", "unclean shutdown"),
    "logs-loading": ("not start", "won't start", "cannot start", "start fail", "broker crash"),
    "metadata-log": ("metadata corrupt", "metadata damage", "cluster_metadata"),
    "no-meta-properties": ("meta.properties",),
    "bad-partition-metadata": ("partition.metadata",),
    "topic-id-mismatch": ("topic id",),
    "bad-leader-epochs": ("leader-epoch-checkpoint", "leader epoch checkpoint"),
    "bad-checkpoint": ("offset-checkpoint", "offset checkpoint"),
    "segment-overflow": ("offset overflow", "segment overflow"),
    "unsupported-format": ("message format", "old format", "magic"),
    "remote-copy-failed": ("remote storage", "tiered storage"),
    "unclean-election": ("unclean elect", "unclean leader"),
}  # fmt: skip


def symptoms_of_description(text: str) -> list[Found]:
    """Returns the symptoms that a short text describes, in the order of the table."""
    words = re.findall(r"[a-z][\w.'-]*", text.lower())
    if len(words) > MAX_WORDS:
        return []
    found = []
    for symptom in SYMPTOMS:
        if any(_describes(phrase, words) for phrase in PHRASES.get(symptom.name, ())):
            match = Found(symptom, 1, text.strip())
            match.add(place_of(text, {}))
            found.append(match)
    return found


def _describes(phrase: str, words: list[str]) -> bool:
    return all(any(word.lstrip("_").startswith(part) for word in words) for part in phrase.split())
