"""Reads the log of a broker as messages: each with its time, its level and the lines of its exception.

Known layouts: Kafka's own and others with time and level in the line, with any text before it (containers, journals),
and JSON objects, one per line.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kseg.symptoms.patterns import MAX_LINE, Pattern, PatternIndex

LINES_BACK = 400
"""Lines among which the first line of a message is looked for."""
LINES_KEPT = 4
"""Lines of a message that are kept from its first line on, whatever they hold."""
MAX_MATCHED = 50
"""Lines of one message that are searched."""

START = ("Log4jController", "KafkaConfig values", "Verifying properties")
"""What a node prints first when it starts."""
_DIRECTORIES = ("LogLoader", "Created log for partition", "log.dirs =", "Loading logs from log dirs", "dir= topicId=")
"""What says in which directory a partition is."""
_CAUSES = ("Caused by",)
"""Lines of an exception that are always kept."""

_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[ T](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?) ?(?P<zone>Z\b|[+-]\d\d:?\d\d|UTC\b|GMT\b)?"
)
_LEVEL = re.compile(r"(?<![\w.=/-])(?P<level>TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)(?![\w=/-]|\.\w)")
_HEAD_LENGTH = 300
_STAMP = r"\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)"
_CONTAINER = re.compile(
    r"(?:[\w./-]+\.log(?:\.\d+)?[:-])?(?:\d+[:-](?!\d\d-\d\d))?(?:> )*"
    rf"(?:[\w.-]+ +\| |\[[\w./ -]+\] |(?:[A-Z][a-z]{{2}} [ \d]\d [\d:]{{8}}|{_STAMP}) \S+ [^\s:]+: "
    rf"|<\d+>1 {_STAMP} \S+ \S+ \S+ \S+ (?:-|\[.*?\]) |[\w.]+-[\w.-]+ (?:› )?[\w.-]+ (?:› )?)?"
    rf"(?:{_STAMP} (?:std(?:out|err) [FP] )?)?"
)
"""The prefixes of grep, quotations, Docker, Kubernetes, containers' runtimes, journals and syslog."""
_COLOR = re.compile(rb"\x1b\[[\d;]*m")
_CONTINUED = re.compile(r"\s|$|[\w.$]+(?:Exception|Error|Throwable|Fault)\b|Caused by: |Suppressed: |\.\.\. \d+ ")


class Head(NamedTuple):
    """Time and level of a message, where its own text begins in the line, and the lines of text if it is JSON."""

    time: str | None
    level: str | None
    begin: int
    lines: tuple[str, ...] | None = None


def head_of(line: str) -> Head | None:
    """Returns the head of a line that begins a message; None if the line continues one."""
    if (found := _json_in(line)) is not None and (head := _head_of_json(*found)) is not None:
        return head
    level = _LEVEL.search(line, 0, _HEAD_LENGTH)
    if level is None:
        return None
    times = list(_TIME.finditer(line, 0, _HEAD_LENGTH))
    before = [time for time in times if time.end() <= level.start()]
    if before:
        begin = before[-1].start()
        return Head(_time(before[-1]), level["level"], begin - line.startswith("[", begin - 1) if begin else 0)
    if _CONTINUED.match(line):
        return None
    after = next((time for time in times if time.start() - level.end() <= 3), None)
    return Head(_time(after) if after else None, level["level"], level.start())


def _time(found: re.Match[str]) -> str | None:
    """Returns a time in ISO 8601, with the zone that the log has; None if there is no such time."""
    zone = {"UTC": "Z", "GMT": "Z"}.get(found["zone"] or "", found["zone"] or "")
    time = f"{found['day']}T{found['clock'].replace(',', '.')}{zone}"
    try:
        datetime.fromisoformat(time)
    except ValueError:
        return None
    return time


_TEXT_KEYS = ("message", "msg", "log", "@message", "short_message", "MESSAGE")
_LEVEL_KEYS = ("level", "log.level", "severity", "levelname", "loglevel")
_TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "date", "asctime")
_LOGGER_KEYS = ("logger", "loggerName", "logger_name", "log.logger")
_MILLIS_KEYS = ("timeMillis", "epochMillis", "instant", *_TIME_KEYS)
_SECONDS_BELOW = 1 << 37
"""Smaller times are in seconds."""
_EXCEPTION_KEY = re.compile("thrown|throwable|exception|error|stack", re.IGNORECASE)


def _json_in(line: str) -> tuple[int, dict[str, Any], str, str | None] | None:
    """Returns where the JSON object begins that ends a line, the object, its text and its level. One that
    stands after a level is a part of a message."""
    brace = line.find("{", 0, _HEAD_LENGTH)
    if brace < 0 or not line.rstrip().endswith("}") or _LEVEL.search(line, 0, brace):
        return None
    try:
        row = json.loads(line[brace:])
    except (ValueError, RecursionError):
        return None
    text = next((row[key] for key in _TEXT_KEYS if isinstance(row.get(key), str)), None)
    if text is None:
        return None
    level = next((row[key].upper() for key in _LEVEL_KEYS if isinstance(row.get(key), str)), None)
    if level is None and isinstance(row.get("log"), dict) and isinstance(row["log"].get("level"), str):
        level = row["log"]["level"].upper()
    return brace, row, text, level


def _head_of_json(brace: int, row: dict[str, Any], text: str, level: str | None) -> Head | None:
    logger = next((f" ({row[key]})" for key in _LOGGER_KEYS if isinstance(row.get(key), str)), "")
    exceptions = [each for key, value in row.items() if _EXCEPTION_KEY.search(key) for each in _texts(value)]
    lines = tuple(each for part in (text + logger, *exceptions) for each in part.splitlines() if each.strip())
    inner = head_of(lines[0]) if level is None and lines and not lines[0].startswith("{") else None
    if inner is not None:
        return Head(inner.time or _json_time(row), inner.level, brace, (lines[0][inner.begin :], *lines[1:]))
    if level is None:  # a container's line around a line of an exception
        return None
    return Head(_json_time(row), level, brace, lines)


def _json_time(row: dict[str, Any]) -> str | None:
    for key in _TIME_KEYS:
        if isinstance(row.get(key), str) and (found := _TIME.search(row[key])):
            return _time(found)
    for key in _MILLIS_KEYS:
        value = row.get(key)
        if isinstance(value, dict) and isinstance(value.get("epochSecond"), int):
            nanos = value.get("nanoOfSecond")
            value = value["epochSecond"] * 1000 + (nanos // 1_000_000 if isinstance(nanos, int) else 0)
        if isinstance(value, int | float) and 1 << 29 < value < 1 << 47:
            value *= 1000 if value < _SECONDS_BELOW else 1
            return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return None


def _texts(value: Any) -> Iterator[str]:
    """Yields the texts of an exception in JSON: its class and message in one line, then those of its causes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, str):
                yield each
    elif isinstance(value, dict):
        own = [str(value[key]) for key in ("name", "type", "class", "exception_class", "className") if value.get(key)]
        own += [str(value[key]) for key in ("message", "localizedMessage", "exception_message") if value.get(key)][:1]
        yield ": ".join(own)
        for key, each in value.items():
            if re.search("cause|stack_?trace$", key, re.IGNORECASE) and key != "extendedStackTrace":
                yield from _texts(each)


def _unwrapped(line: str) -> str:
    """Returns the line of an exception, or the JSON object, that a container's or journal's JSON object is around."""
    found = _json_in(line)
    if found is None:
        return line
    _, _, text, level = found
    return text if level is None and (text.startswith("{") or head_of(text) is None) else line


@dataclass(slots=True)
class LogEvent:
    """A message of a log, with its exception. ``lines`` are its first ones, without the prefix of a container or a
    journal; ``candidates`` are its lines that may match, each with the patterns."""

    number: int
    time: str | None
    level: str | None
    prefix: str
    lines: list[str]
    candidates: list[tuple[str, list[Pattern]]] = field(default_factory=list)
    last: int = 0

    def text_of(self, line: str) -> str:
        """Returns a further line of this message without its prefix."""
        begin = len(self.prefix)
        if _same_but_digits(line[:begin], self.prefix):
            return line[begin:]
        container = _CONTAINER.match(line)
        return line[container.end() :] if container else line


def _same_but_digits(one: str, other: str) -> bool:
    return one == other or re.sub(r"\d", "0", one) == re.sub(r"\d", "0", other)


def events_of(lines: Iterable[bytes]) -> Iterator[LogEvent]:
    """Yields those messages of a log that may match a pattern, that begin a start, or that tell a directory."""
    index = PatternIndex((*START, *_DIRECTORIES, *_CAUSES))
    recent: deque[bytes] = deque(maxlen=LINES_BACK)
    event: LogEvent | None = None
    for number, raw in enumerate(lines, 1):
        if b"\x1b" in raw:
            raw = _COLOR.sub(b"", raw)
        candidates = index.candidates(raw)
        if candidates is not None:
            line = _decoded(raw)
            head = head_of(line)
            distance, first = 0, line
            if head is None and _is_continued(line):
                distance, first, head = _first_line(line, recent, number - event.last if event else LINES_BACK + 1)
            if event is None or number - distance not in (event.number, event.last):
                if event is not None:
                    yield event
                event = _begun(number - distance, first, head)
            _add_line(event, number, line, head if distance == 0 else None, candidates)
        elif event is not None and number == event.last + 1 and len(event.lines) < LINES_KEPT:
            line = _decoded(raw)
            if head_of(line) is None and _CONTINUED.match(text := event.text_of(line)):
                event.lines.append(text[:MAX_LINE].rstrip())
                event.last = number
        recent.append(raw if len(raw) <= MAX_LINE else raw[:MAX_LINE])
    if event is not None:
        yield event


def _decoded(raw: bytes) -> str:
    return _unwrapped(raw.decode("utf-8", "replace"))


def _is_continued(line: str) -> bool:
    """Whether a line without a head belongs to the message before it."""
    container = _CONTAINER.match(line)
    return _CONTINUED.match(line, container.end() if container else 0) is not None


def _first_line(line: str, recent: deque[bytes], farthest: int) -> tuple[int, str, Head | None]:
    """Returns how many lines before a line its message begins, or goes on if that is ``farthest``; and that line."""
    for distance, raw in enumerate(reversed(recent), 1):
        earlier = _decoded(raw)
        head = head_of(earlier)
        if distance == farthest or head is not None or not _is_continued(earlier):
            return distance, earlier, head
    return 0, line, None


def _begun(number: int, first: str, head: Head | None) -> LogEvent:
    if head is None:
        return LogEvent(number, None, None, "", [first[:MAX_LINE].rstrip()], last=number)
    lines = head.lines if head.lines is not None else (first[head.begin :],)
    kept = [line[:MAX_LINE].rstrip() for line in lines[:LINES_KEPT]]
    return LogEvent(number, head.time, head.level, first[: head.begin], kept, last=number)


def _add_line(event: LogEvent, number: int, line: str, head: Head | None, candidates: list[Pattern | None]) -> None:
    """Adds a line that may match to its event."""
    patterns = [each for each in candidates if each is not None]
    if number == event.number:
        texts = list(head.lines) if head is not None and head.lines is not None else event.lines[:1]
    else:
        texts = [event.text_of(line)]
        if number == event.last + 1 and len(event.lines) < LINES_KEPT:
            event.lines.append(texts[0][:MAX_LINE].rstrip())
    if len(event.candidates) < MAX_MATCHED:
        event.candidates += [(text[:MAX_LINE], patterns) for text in texts]
    event.last = number
