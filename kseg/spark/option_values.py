"""Parses the values of options. Each parser raises ValueError, whose text is the expected form."""

import json
import os
import re
from collections.abc import Callable

from kseg.formats.compressing import parse_target
from kseg.segment.times import parse_time
from kseg.spark.positions import TopicPartition, parse_numbers


def one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return text.lower()

    return parse


def chosen(first: str, second: str) -> Callable[[str], bool]:
    """Returns a parser that returns True for the second of two words."""
    parse = one_of(first, second)
    return lambda text: parse(text) == second


truth = chosen("false", "true")


def number_from(least: int) -> Callable[[str], int]:
    """Returns a parser of numbers of at most 18 digits."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= least):
            raise ValueError(f"a number from {least} on")
        return int(text)

    return parse


def time(end: int) -> Callable[[str], int]:
    """Returns a parser of times. ``end``: 0 for the first millisecond of a period such as a day, 1 for the last one."""

    def parse(text: str) -> int:
        found = parse_time(text)
        if found is None:
            raise ValueError("a time such as 2026-01-31T09:00:00Z, 2026-01-31 or 1769850000000")
        return found[end]

    return parse


def timestamps(text: str) -> dict[TopicPartition, int]:
    return dict(parse_numbers(text, 'JSON such as {"orders": {"0": 1769850000000}}'))


def private_keys(text: str) -> tuple[tuple[str, str], ...]:
    """Relative paths become absolute: workers have another working directory."""
    try:
        given = (
            json.loads(text) if text.lstrip().startswith("{") else dict(each.split("=", 1) for each in text.split(","))
        )
        return tuple((key.strip(), os.path.abspath(path.strip())) for key, path in given.items())
    except (ValueError, AttributeError):
        raise ValueError("keys and PEM files such as k1=/keys/k1.pem,k2=/keys/k2.pem, or JSON") from None


def byte_count(text: str) -> int:
    digits = text.rstrip("kKmMgG")
    scale = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[len(digits) :].upper())
    if scale is None or not (digits.isascii() and digits.isdigit()) or not int(digits):
        raise ValueError("a number of bytes such as 1000000, 64m or 1g")
    return int(digits) * scale


def codec(text: str) -> str:
    if text != "none":
        try:
            parse_target(text)
        except ValueError as error:
            raise ValueError(f"none or a codec: {error}") from None
    return text


def topics(text: str) -> frozenset[str]:
    found = frozenset(filter(None, (name.strip() for name in text.split(","))))
    if not found:
        raise ValueError("a list of topics such as orders,payments")
    return found


def topic_pattern(text: str) -> "re.Pattern[str]":
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression: {error}") from None


def assigned(text: str) -> frozenset[TopicPartition]:
    expected = 'JSON such as {"orders": [0, 1]}'
    try:
        found = frozenset((topic, number) for topic, numbers in json.loads(text).items() for number in numbers)
    except (ValueError, AttributeError, TypeError):
        raise ValueError(expected) from None
    if not found or not all(type(number) is int and number >= 0 for _, number in found):
        raise ValueError(expected)
    return found
