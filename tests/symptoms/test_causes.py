"""The causes in whole logs of real nodes, in any layout."""

import json
import lzma
import re
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from kseg.symptoms.causes import causes_in
from kseg.symptoms.log_events import LINES_BACK, events_of
from kseg.symptoms.matching import Found, commands_of

LOGS = Path(__file__).resolve().parent.parent.parent / "testdata/symptoms/logs"
INCIDENTS = {
    "damage-below-recovery-point": "corrupt-record",
    "damaged-metadata-snapshot": "metadata-log",
    "deleted-segment": "file-vanished",
    "directory-of-another-cluster": "cluster-id",
    "directory-that-is-no-partition": "not-a-partition",
    "directory-without-meta-properties": "no-meta-properties",
    "full-disk": "disk-full",
    "lost-metadata-log": "metadata-log-empty",
    "no-controller": "controllers-lost",
    "offline-directory": "directory-gone",
    "partition-in-two-directories": "duplicate-log-directories",
    "permission-denied": "permission-denied",
    "port-in-use": "node-stopped",
    "too-many-open-files": "too-many-maps",
    "topic-id-of-a-former-topic": "stray",
    "torn-batch": "invalid-messages",
    "transaction-index": "corrupt-transaction-index",
    "two-nodes-on-one-directory": "locked",
    "unreadable-checkpoint": "bad-checkpoint",
    "unreadable-epochs": "bad-leader-epochs",
    "unsupported-metadata-version": "newer-software-needed",
}
HEALTHY = sorted(path.name.removesuffix(".log.xz") for path in LOGS.glob("healthy-*"))


def lines_of(name: str) -> list[bytes]:
    return lzma.decompress((LOGS / f"{name}.log.xz").read_bytes()).splitlines(keepends=True)


def names(causes: list[Found]) -> list[str]:
    return [found.symptom.name for found in causes]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("log", "cause"), INCIDENTS.items(), ids=INCIDENTS)
def test_an_incident_has_one_cause(log: str, cause: str) -> None:
    causes = causes_in(lines_of(log))
    assert names(causes) == [cause]
    words = {word for argv, _ in commands_of(causes[0]) for word in argv}
    assert not words & {"LOGDIR", "LOGDIR/__cluster_metadata-0", "OTHER"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("log", HEALTHY)
def test_a_healthy_log_names_nothing(log: str) -> None:
    assert names(causes_in(lines_of(log))) == []


def test_all_logs_are_tried() -> None:
    assert {path.name.removesuffix(".log.xz") for path in LOGS.glob("*.xz")} == {*INCIDENTS, *HEALTHY}
    assert len(HEALTHY) >= 15


def test_the_gravest_comes_first() -> None:
    """What stopped the node, what took a directory offline, damage, the rest: in whatever order the log has them."""
    order = ["torn-batch", "topic-id-of-a-former-topic", "offline-directory", "unreadable-checkpoint"]
    causes = causes_in(line for log in order for line in lines_of(log))
    assert names(causes) == ["bad-checkpoint", "directory-gone", "invalid-messages", "stray"]


def test_a_cause_has_its_number_times_and_consequences() -> None:
    (found,) = causes_in(lines_of("unreadable-checkpoint"))
    assert (found.count, found.first_time, found.last_time) == (2, "2026-11-28T22:40:43.582", "2026-11-28T22:40:43.589")
    offline = found.consequences["directory-offline"]
    assert offline.count > 2
    assert offline.last_time is not None
    assert "node-stopped" in found.consequences


def test_the_reason_of_an_unknown_end_is_its_last_exception() -> None:
    (found,) = causes_in(lines_of("port-in-use"))
    assert found.reason == "java.net.BindException: Address already in use"


def test_both_directories_of_a_partition_are_in_the_command() -> None:
    (found,) = causes_in(lines_of("partition-in-two-directories"))
    against = next(argv for argv, _ in commands_of(found) if "--against" in argv)
    assert against[-2:] == ["/data/moved/disk1/orders-2", "/data/moved/disk2/orders-2"]


def test_a_recovery_counts_only_if_it_takes_long() -> None:
    text = "INFO Recovering 9 logs from /d since no clean shutdown file was found (kafka.log.LogManager)"
    part = "INFO [LogLoader partition=a-{}, dir=/d] Recovering unflushed segment 0. 1/9 recovered for a-{}. (kafka.Log)"
    short = [f"[2026-11-28 22:00:0{i},000] {part.format(i, i)}\n".encode() for i in range(9)]
    first = f"[2026-11-28 22:00:00,000] {text}\n".encode()
    assert causes_in([first, *short]) == []
    late = f"[2026-11-28 22:05:01,000] {part.format(9, 9)}\n".encode()
    assert names(causes_in([first, *short, late])) == ["slow-recovery"]
    start = b"[2026-11-28 22:05:00,000] INFO Registered `kafka:type=kafka.Log4jController` MBean (kafka.utils.L)\n"
    assert causes_in([first, *short, start, first.replace(b"22:00:00", b"22:05:00"), late]) == []


# Layouts: the same log as other tools pass it on.

PLAIN = re.compile(r"\[(\S+ \S+)\] (\w+) (.*) \((\S+)\)$")


def with_prefix(prefix: str) -> Callable[[list[str]], Iterator[str]]:
    return lambda lines: (prefix.format(i % 10) + line for i, line in enumerate(lines))


def written_as(form: str) -> Callable[[list[str]], Iterator[str]]:
    """The lines in another form: of time, level, text and logger."""
    return lambda lines: (PLAIN.sub(form, line) for line in lines)


def in_objects(key: str, **more: str) -> Callable[[list[str]], Iterator[str]]:
    return lambda lines: (json.dumps({**more, key: line + "\n", "time": "2026-11-29T00:00:00.1Z"}) for line in lines)


def events(lines: list[str]) -> Iterator[tuple[str, str, str, str, list[str]]]:
    event: tuple[str, str, str, str, list[str]] | None = None
    for line in lines:
        if found := PLAIN.match(line):
            if event is not None:
                yield event
            event = (found[1].replace(" ", "T").replace(",", "."), found[2], found[3], found[4], [])
        elif event is not None:
            event[4].append(line)
    if event is not None:
        yield event


def json_rows(level_key: str, logger_key: str, trace_key: str) -> Callable[[list[str]], Iterator[str]]:
    def rows(lines: list[str]) -> Iterator[str]:
        for time, level, text, logger, more in events(lines):
            row = {"@timestamp": f"{time}Z", level_key: level, "message": text, logger_key: logger}
            yield json.dumps(row | ({trace_key: "\n".join(more)} if more else {}))

    return rows


def json_layout(lines: list[str]) -> Iterator[str]:
    for time, level, text, logger, more in events(lines):
        millis = datetime.fromisoformat(f"{time}+00:00").timestamp()
        row = {
            "instant": {"epochSecond": int(millis), "nanoOfSecond": round(millis % 1 * 1000) * 1_000_000},
            "level": level, "loggerName": logger, "message": text,
        }  # fmt: skip
        name, _, message = more[0].partition(": ") if more else ("", "", "")
        yield json.dumps(
            row | ({"thrown": {"name": name, "message": message, "extendedStackTrace": []}} if more else {})
        )


LAYOUTS = {
    "strimzi": written_as(r"\1 \2 \3 (\4) [main]"),
    "with-zone": written_as(r"[\1+0000] \2 \3 (\4)"),
    "level-first": written_as(r"\2 [\1] \3 (\4)"),
    "kubernetes": with_prefix("2026-11-29T00:00:00.12345678{}Z stdout F "),
    "kubectl": with_prefix("[pod/my-cluster-kafka-0/kafka] "),
    "kubectl-timestamps": with_prefix("2026-11-29T00:00:00.12345678{}Z "),
    "compose": with_prefix("kafka-1  | "),
    "journal": with_prefix("Nov 29 00:00:0{} host kafka-server-start.sh[4711]: "),
    "journal-iso": with_prefix("2026-11-29T00:00:0{}+0000 host kafka-server-start.sh[4711]: "),
    "journal-json": in_objects("MESSAGE", PRIORITY="6"),
    "syslog": with_prefix("<11>1 2026-11-29T00:00:0{}.1Z host kafka 4711 - - "),
    "stern": with_prefix("my-cluster-kafka-0 kafka "),
    "grep": with_prefix("logs/server.log:1{}:"),
    "colors": written_as("[\\1] \x1b[31m\\2\x1b[0m \x1b[1m\\3\x1b[0m (\\4)"),
    "docker": in_objects("log", stream="stdout"),
    "logstash": json_rows("level", "logger_name", "stack_trace"),
    "ecs": json_rows("log.level", "log.logger", "error.stack_trace"),
    "json-layout": json_layout,
}


@pytest.mark.sampled(17)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("log", ["full-disk", "unreadable-checkpoint", "permission-denied", "lost-metadata-log"])
def test_the_layout_does_not_matter(log: str, layout: str) -> None:
    lines = b"".join(lines_of(log)).decode().splitlines()
    (expected,) = causes_in(line.encode() for line in lines)
    (found,) = causes_in(f"{line}\n".encode() for line in LAYOUTS[layout](lines))
    assert (found.symptom, found.count, found.places) == (expected.symptom, expected.count, expected.places)
    times = [found.first_time, found.last_time]
    assert [re.sub(r"(Z|\+0000)$", "", time or "") for time in times] == [expected.first_time, expected.last_time]
    counts = {name: each.count for name, each in found.consequences.items()}
    assert counts == {name: each.count for name, each in expected.consequences.items()}


def test_what_follows_in_a_partition_without_a_directory_stands_under_its_cause() -> None:
    """As in the logs of 0.8 to 0.11."""
    texts = [
        "Found invalid offset during recovery for log dz-0. Deleting the corrupt segment and creating an empty one",
        "Corruption found in segment 483 of log dz-0, truncating to offset 483.",
        "Corruption found in segment 0 of log d-0, truncating to offset 7.",
    ]
    found = causes_in(f"[2026-11-21 09:27:07,165] WARN {text} (kafka.log.Log)\n".encode() for text in texts)
    assert names(found) == ["invalid-offset", "corruption-in-segment"]
    assert [[each.name for each in cause.places.values()] for cause in found] == [["dz-0"], ["d-0"]]


@pytest.mark.parametrize(("live", "cause"), [("", []), ("2", ["no-replica-online"])])
def test_a_controller_that_knows_no_broker_yet_is_at_its_start(live: str, cause: list[str]) -> None:
    change = "Controller 0 epoch 2 initiated state change for partition [dz,0] from OfflinePartition to OnlinePartition"
    why = f"No replica for partition [dz,0] is alive. Live brokers are: [Set({live})], Assigned replicas are: [List(0)]"
    lines = f"[2026-11-21 09:26:04,390] ERROR {change} failed", f"kafka.common.NoReplicaOnlineException: {why}"
    assert names(causes_in(f"{line}\n".encode() for line in lines)) == cause


def test_a_snapshot_that_is_not_there_is_no_loss() -> None:
    old, new = "/d/t-0/00000000000000000076.snapshot", "/d/t-0/00000000000000000076.snapshot.deleted"
    text = f"Failed atomic move of {old} to {new} retrying with a non-atomic move"
    head = f"[2026-11-27 00:19:06,140] WARN {text} (Utils)"
    trace = f"java.nio.file.NoSuchFileException: {old} -> {new}"
    assert causes_in(f"{line}\n".encode() for line in (head, trace, "\tat java.base/sun.nio.fs.X.y(X.java:1)")) == []
    lost = (f"{line}\n".replace(".snapshot", ".log").encode() for line in (head, trace))
    assert names(causes_in(lost)) == ["file-vanished"]


def test_records_that_a_consumer_skipped_are_named_in_its_log() -> None:
    text = "[Consumer clientId=c, groupId=g] Fetch position FetchPosition{offset=10, offsetEpoch=Optional[0]}"
    line = f"[2026-11-28 22:40:43,582] INFO {text} is out of range for partition orders-3, resetting offset\n"
    assert names(causes_in([line.encode()])) == ["offset-out-of-range"]


def test_an_object_in_a_message_is_a_part_of_it() -> None:
    line = b'[2026-11-28 22:40:43,582] ERROR Rolled back: {"message":"No space left on device","level":"INFO"}\n'
    (event,) = events_of([line])
    assert (event.time, event.level, event.lines) == ("2026-11-28T22:40:43.582", "ERROR", [line.decode().rstrip()])


def test_a_stack_trace_belongs_to_its_message() -> None:
    head = b"[2026-11-28 22:40:43,582] ERROR Something (kafka.Kafka$)\n"
    trace = [b"java.lang.RuntimeException: x\n", *[b"\tat a.b.C.d(C.java:1)\n"] * 30]
    deep = b"Caused by: java.io.IOException: No space left on device\n"
    (event,) = events_of([head, *trace, deep])
    assert (event.number, event.time, event.level) == (1, "2026-11-28T22:40:43.582", "ERROR")
    (found,) = causes_in([head, *trace, deep])
    assert (found.line_number, found.reason) == (1, "Caused by: java.io.IOException: No space left on device")


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile$Formatter.fromString", "bad-checkpoint"),
        ("org.apache.kafka.storage.internals.log.LogFileUtils.offsetFromFileName", "not-a-partition"),
        ("org.apache.kafka.storage.internals.log.LogManager.loadLogs", "not-a-partition"),
    ],
)
def test_a_number_that_cannot_be_read_is_told_by_its_place(frame: str, name: str) -> None:
    head = b"[2026-11-28 22:40:43,582] WARN Something (org.apache.kafka.storage.internals.log.LogManager)\n"
    trace = b'java.lang.NumberFormatException: For input string: "zero"\n'
    assert names(causes_in([head, trace, f"\tat {frame}(A.java:1)\n".encode()])) == [name]
    assert names(causes_in([trace])) == ["not-a-partition"]


def test_a_trace_longer_than_the_memory_is_a_message_of_its_own() -> None:
    lines = [b"\tat a.b.C.d(C.java:1)\n"] * (LINES_BACK + 10) + [
        b"Caused by: java.io.IOException: No space left on device\n"
    ]
    (found,) = causes_in(lines)
    assert (found.symptom.name, found.line_number) == ("disk-full", len(lines))


@pytest.mark.parametrize(
    "line",
    [
        b'{"message": 1}', b'{"log":"', b'{"log":"x"}', b'{"message":"No space left on device","level":7}', b"[" * 5000,
        b'{"message":"No space left on device","level":"ERROR","thrown":{"cause":{"cause":[1,{}]}}}', b"\xff\xfe",
        b"{" * 5000 + b"No space left on device" + b"}", b"2026-99-99 99:99:99,999 ERROR No space left on device",
        b"2026-02-30 10:00:60,999 INFO Recovering 9 logs from /d since no clean shutdown file was found",
        b'{"message":"No space left on device","level":"ERROR","instant":{"epochSecond":1,"nanoOfSecond":"x"}}',
        b'{"message":"No space left on device","level":"ERROR","instant":{"epochSecond":1,"nanoOfSecond":Infinity}}',
        b'{"message":"No space left on device","level":"ERROR","time":NaN,"ts":1e300,"date":-Infinity}',
    ],
)  # fmt: skip
def test_hostile_lines_are_read(line: bytes) -> None:
    assert set(names(causes_in([line, line]))) <= {"disk-full"}


@pytest.mark.slow
def test_the_memory_does_not_grow_with_long_lines() -> None:
    def lines() -> Iterator[bytes]:
        for i in range(1000):
            yield bytes([97 + i % 26]) * 200_000 + b"%d\n" % i

    tracemalloc.start()
    try:
        assert causes_in(lines()) == []
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
