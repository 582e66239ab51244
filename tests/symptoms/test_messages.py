"""Each message that Kafka's classes log as WARN or above, or throw, leads to an entry, or is not about stored data."""

import lzma
import re
from collections import defaultdict

from cli.command import TESTDATA
from kseg.symptoms.matching import symptom_of

FOLDER = TESTDATA / "symptoms"
VALUES = ("7", "orders-3", "/kafka-logs/orders-3/00000000000000000007.log")
"""What may be in a gap of a message: a message is known if it is with one of them."""


def listed() -> list[tuple[str, str, str]]:
    """Level, class and text of the messages, as .ci/kafka_messages.py lists them."""
    text = lzma.decompress((FOLDER / "messages.tsv.xz").read_bytes()).decode()
    return [(level, name, message) for level, name, message in (row.split("\t", 2) for row in text.splitlines())]


def elsewhere() -> dict[str, list[re.Pattern[str]]]:
    """The messages of each class that are not about stored data; * stands for any text."""
    found = defaultdict(list)
    for row in (FOLDER / "elsewhere.tsv").read_text("utf-8").splitlines():
        name, message = row.split("\t")
        found[name].append(re.compile(".*".join(map(re.escape, message.split("*"))), re.DOTALL))
    return found


def is_known(message: str) -> bool:
    return any(symptom_of(message.replace("{}", value)) for value in VALUES)


def test_each_message_of_kafka_has_an_entry_or_is_about_something_else() -> None:
    of_class = elsewhere()
    open_ones = [
        (level, name, message)
        for level, name, message in listed()
        if not is_known(message) and not any(each.fullmatch(message) for each in of_class.get(name, ()))
    ]
    assert open_ones == []


def test_each_line_on_what_is_elsewhere_is_needed() -> None:
    texts = defaultdict(list)
    for _, name, message in listed():
        if not is_known(message):
            texts[name].append(message)
    unused = [
        (name, pattern.pattern)
        for name, patterns in elsewhere().items()
        for pattern in patterns
        if not any(map(pattern.fullmatch, texts[name]))
    ]
    assert unused == []
