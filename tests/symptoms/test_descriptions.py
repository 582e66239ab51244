"""Symptoms that a few words describe."""

import pytest

from kseg.symptoms.descriptions import MAX_WORDS, PHRASES, symptoms_of_description
from kseg.symptoms.matching import commands_of
from kseg.symptoms.table import SYMPTOMS


def names(text: str) -> list[str]:
    return [found.symptom.name for found in symptoms_of_description(text)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("disk full", "disk-full"),
        ("The disk is FULL!", "disk-full"),
        ("stray", "stray"),
        ("LSO not moving", "hanging-transaction"),
        ("last stable offset", "hanging-transaction"),
        ("__consumer_offsets grows without end", "cleaner-stopped"),
        ("stuck compaction", "cleaner-stopped"),
        ("a topic does not shrink", "retention-blocked"),
        ("retention is not working", "retention-blocked"),
        ("consumer is stuck", "consumer-corrupt-record"),
        ("gaps", "dump-non-consecutive"),
        ("the topic was deleted", "topic-deleted"),
        ("Kafka won't start", "logs-loading"),
        ("corrupted index", "corrupt-index"),
    ],
)
def test_words_lead_to_an_entry(text: str, name: str) -> None:
    assert names(text) == [name]


def test_every_phrase_is_of_an_entry_and_finds_it() -> None:
    assert set(PHRASES) <= {symptom.name for symptom in SYMPTOMS}
    for name, phrases in PHRASES.items():
        for phrase in phrases:
            assert name in names(phrase), phrase


@pytest.mark.parametrize(
    "text",
    ["", "foo", "the quick brown fox", "INFO Kafka version: 4.3.1", "disk", "full", "disk full " + "word " * MAX_WORDS],
)
def test_other_words_lead_nowhere(text: str) -> None:
    assert names(text) == []


def test_a_partition_in_the_words_is_put_into_the_commands() -> None:
    (found,) = symptoms_of_description("retention stuck in /kafka-logs/orders-3")
    assert ["kseg", "retain", "--explain", "/kafka-logs/orders-3"] in [argv for argv, _ in commands_of(found)]
