"""The table of symptoms: each entry is whole, and each pattern is that of a real message."""

import re
import tomllib
from pathlib import Path

import click
import pytest

from kseg.cli.main import main
from kseg.findings.table import KINDS
from kseg.symptoms.descriptions import MAX_WORDS, described
from kseg.symptoms.matching import Found, commands_of, symptom_of, symptoms_of_description
from kseg.symptoms.table import PLACEHOLDERS, SEVERITIES, SPEAKERS, SYMPTOMS

# Symptoms that a few words describe.


def names(text: str) -> list[str]:
    return [symptom.name for symptom in described(text)]


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
        ("consumer is stuck", "consumer-stuck"),
        ("gaps", "dump-non-consecutive"),
        ("the topic was deleted", "topic-deleted"),
        ("Kafka won't start", "logs-loading"),
        ("corrupted index", "corrupt-index"),
        ("rebuild the index", "corrupt-index"),
        ("log.dirs is full, the broker is down", "disk-full"),
        ("read-only file system", "read-only-disk"),
        ("find a message by its key", "export-records"),
        ("remote log segment not found", "remote-read-failed"),
        (".swap files", "interrupted-swap"),
        ("a -future directory is left over", "future-log"),
        ("stray partitions, deleted", "stray"),
    ],
)
def test_words_lead_to_an_entry(text: str, name: str) -> None:
    assert names(text)[0] == name


def test_every_phrase_finds_its_entry() -> None:
    described = [(phrase, symptom.name) for symptom in SYMPTOMS for phrase in symptom.phrases]
    assert described
    for phrase, name in described:
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


def test_all_disks_of_a_line_are_put_into_the_commands() -> None:
    found = symptom_of("Shutdown broker because all log dirs in /d1, /d.2, /d3 have failed (kafka.log.LogManager)")
    assert found is not None
    each = Found(found[0], 1, "")
    each.add(found[1])
    assert [argv for argv, _ in commands_of(each)] == [["kseg", "verify", "/d1", "/d.2", "/d3"]]


@pytest.mark.parametrize(
    ("text", "partition"),
    [("partition.metadata", "LOGDIR/TOPIC-N"), ("partition.metadata of /kafka-logs/orders-3", "/kafka-logs/orders-3")],
)
def test_a_command_for_one_partition_names_one(text: str, partition: str) -> None:
    (found,) = symptoms_of_description(text)
    assert ["kseg", "recover", "--topic-id", "UUID", partition] in [argv for argv, _ in commands_of(found)]


@pytest.mark.parametrize(
    "line",
    [
        "Duplicate log directories found: /d1/a.b-0, /d2/a.b-0!",
        "Duplicate log directories found: /d1/a.b-0, /d2/a.b-0",
        "Duplicate log directories for a.b-0 are found in both /d1/a.b-0 and /d2/a.b-0. It is likely",
    ],
)
def test_both_directories_of_a_partition_are_put_into_the_command(line: str) -> None:
    found = symptom_of(line)
    assert found is not None
    assert (found[1].other, found[1].partition) == ("/d2/a.b-0", "/d1/a.b-0")


FOLDER = Path(__file__).resolve().parent.parent.parent / "kseg/symptoms"
LINES = Path(__file__).resolve().parent.parent.parent / "testdata/symptoms/lines.tsv"
ROWS = [row.split("\t", 2) for row in LINES.read_text("utf-8").splitlines()]
VALUES = {
    "partition": "LOGDIR/orders-0", "logdir": "LOGDIR", "file": "LOGDIR/orders-0/0.log", "positions": "0..511",
    "offset": "7", "other": "OTHER/orders-0", "logdirs": "LOGDIR", "one": "LOGDIR/orders-0",
}  # fmt: skip


def test_a_real_line_leads_to_its_entry_and_place() -> None:
    for name, partition, line in ROWS:
        found = symptom_of(line)
        assert found is not None, line
        symptom, place = found
        assert (symptom.name, place.values()["partition"]) == (name, partition), line


WRITTEN = {
    "partition": "orders-3", "topic": "orders", "number": "3", "offset": "42", "position": "9", "n": "7", "word": "abc",
    "file": "/kafka-logs/orders-3/0.log", "logdir": "/kafka-logs", "other": "/disk2/orders-3", "leader": "1",
    "same-leader": "1", "": "...", "logdirs": "/d1, /d2",
}  # fmt: skip


def test_each_message_leads_to_its_entry() -> None:
    """No entry hides a message of another one."""
    for name, message in ((symptom.name, message) for symptom in SYMPTOMS for message in symptom.messages):
        line = re.sub(r"\{([\w-]*)\}", lambda each: WRITTEN.get(each[1], each[0]), message)
        found = symptom_of(f"[2026-11-28 09:00:00,123] WARN [ReplicaManager broker=1] {line} (kafka.log.Log)")
        assert found is not None, message
        assert found[0].name == name, message


@pytest.mark.parametrize(
    "line",
    [
        "the quick brown fox jumps over the lazy dog",
        "INFO Kafka version: 4.3.1 (org.apache.kafka.common.utils.AppInfoParser)",
        "INFO [LogLoader partition=orders-0, dir=/kafka-logs] Completed load of log with 1 segments",
        "INFO unclean.leader.election.enable = false",
        "INFO [kafka-log-cleaner-thread-0]: Stopped (org.apache.kafka.storage.internals.log.LogCleaner)",
        "",
    ],
)
def test_what_is_no_symptom_is_none(line: str) -> None:
    assert symptom_of(line) is None


def test_an_entry_is_whole() -> None:
    for symptom in SYMPTOMS:
        assert re.fullmatch(r"[a-z]+[0-9]?(-[a-z]+)*", symptom.name)
        assert symptom.speaker in SPEAKERS, symptom.name
        assert symptom.severity in SEVERITIES, symptom.name
        assert symptom.cause.endswith("."), symptom.name
        assert set(symptom.findings) <= KINDS.keys(), symptom.name
        assert symptom.messages or symptom.phrases, symptom.name
        for step in symptom.steps:
            assert not step.purpose.endswith("."), symptom.name
            assert set(re.findall(r"\{\w+\}", step.command)) <= set(PLACEHOLDERS), symptom.name


@pytest.mark.parametrize(
    "command", sorted({step.command for symptom in SYMPTOMS for step in symptom.steps}), ids=lambda text: text
)
def test_a_command_can_be_typed(command: str) -> None:
    program, name, *arguments = command.format(**VALUES).replace("UUID", "RdZ0TiwWTfi_zGntLPyOIg").split()
    assert program == "kseg"
    parent = main.make_context("kseg", [], resilient_parsing=True)
    found = main.get_command(parent, name)
    assert isinstance(found, click.Command)
    given = found.make_context(name, arguments, parent).params
    assert given["paths"] or given["topics_from"]


def test_each_command_of_the_table_is_named_by_an_entry() -> None:
    tables = [tomllib.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.toml")]
    shared = next(table["commands"] for table in tables if "commands" in table)
    steps = [step for table in tables for name in table.keys() - {"commands"} for step in table[name]["steps"]]
    assert shared.keys() == {step if isinstance(step, str) else step[0] for step in steps}


def test_names_are_unique() -> None:
    assert len({symptom.name for symptom in SYMPTOMS}) == len(SYMPTOMS)
