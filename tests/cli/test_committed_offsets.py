"""``kseg groups``, ``kseg transactions``: what a broker says that groups have committed, from its files alone."""

import json
import shutil
import struct
from collections import Counter
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from cli.command import TESTDATA, Kseg, findings_of
from kseg import scan
from kseg.formats.record_batch import build_batch

# Commands name the transactional id of a producer where __transaction_state of the same log directory has it.


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    copied = Path(shutil.copytree(TESTDATA / "log-directories" / "4.3.1-rounds" / "kill", tmp_path / "logs"))
    state = TESTDATA / "verify" / "4.3.1-transactional-ids" / "__transaction_state-0"
    shutil.copytree(state, copied / state.name)
    return copied


def test_verify_and_dump_name_it(logs: Path, kseg: Kseg) -> None:
    for words in (["verify", "--format", "json"], ["transactions", "--format", "json"]):
        for path in (logs, logs / "txn-0"):
            facts = [row.get("details", row) for row in kseg(*words, path).objects]
            named = {row["producerId"]: row["transactionalId"] for row in facts if "transactionalId" in row}
            assert named == {5: "tx-txn-2", 1015: "hang-a"}
    assert "its transactional id is tx-txn-2" in kseg("verify", "--severity", "info", logs).out.decode()
    assert " transactionalId: tx-txn-2 " in kseg("transactions", logs).out.decode()


@pytest.mark.parametrize(
    "code",
    [
        "open-transaction", "hanging-transaction", "batch-outside-transaction", "coordinator-epoch-falls",
        "bad-control-record", "transaction-index-incomplete",
    ],
)  # fmt: skip
def test_findings_of_a_transaction_have_a_transactional_id(code: str, kseg: Kseg) -> None:
    """null where no __transaction_state tells it."""
    folder = TESTDATA / "damaged" / "findings" / code
    (partition,) = folder.glob("*-0")
    details = [row["details"] for row in findings_of(kseg, "--now", "2026-10-01", partition, code=code)]
    assert [each.get("transactionalId", "none") for each in details] == [None]


def test_the_state_is_told_from_elsewhere_too(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    ask = ("transactions", "--format", "json")
    beside = {row["producerId"]: row for row in kseg(*ask, logs).objects}
    (logs / "__transaction_state-0").rename(other / "__transaction_state-0")
    alone = {row["producerId"]: row for row in kseg(*ask, logs).objects}
    told = {row["producerId"]: row for row in kseg(*ask, "--transaction-state", other, logs).objects}
    assert told == beside
    assert {row["state"] for row in alone.values()} == {row["transactionalId"] for row in alone.values()} == {None}
    assert beside[1015]["state"] == "Ongoing"
    assert beside[1015]["timeoutMs"] > 0
    assert kseg("dump", "--transaction-state", other, logs).status == 2
    assert kseg(*ask, "--transaction-state", other / "none", logs).status == 3


def test_prepared_transactions_of_deleted_topics(kseg: Kseg, tmp_path: Path) -> None:
    """Of the topics that --topic names; a single partition is none of theirs."""
    for name in ("__cluster_metadata-0", "__transaction_state-0"):
        shutil.copytree(TESTDATA / "kafka-4.3.1" / "internal" / name, tmp_path / name)
    log = max((tmp_path / "__transaction_state-0").glob("*.log"))
    end = max(row["lastOffset"] for row in kseg("dump", "--format", "json", log).of_type("batch"))
    fields = struct.pack(">hqhib", 0, 4242, 0, 600_000, 2)  # a version 0 value, PrepareCommit
    topic = struct.pack(">ih4sii", 1, 4, b"gone", 1, 5)
    value = fields + topic + struct.pack(">qq", 1_795_300_000_000, 1_795_300_000_000)
    with log.open("ab") as stream:
        stream.write(build_batch(end + 1, 0, 1_795_300_000_000, [(b"\0\0\0\2tx", value)]))
    ask = ("transactions", "--format", "json", "--now", 1_795_300_000_500)
    (row,) = kseg(*ask, tmp_path).objects
    assert (row["topic"], row["partition"], row["transactionalId"], row["ageMs"]) == ("gone", 5, "tx", 500)
    assert kseg(*ask, "--topic", "__*", tmp_path).objects == []
    assert kseg(*ask, tmp_path / "__transaction_state-0").objects == []


@pytest.fixture
def watched(logs: Path) -> Path:
    """The log directory with committed offsets, and the partition of which they are."""
    committed = TESTDATA / "kafka-4.3.1" / "committed"
    for partition in committed.glob("__consumer_offsets-*"):
        shutil.copytree(partition, logs / partition.name)
    shutil.copytree(logs / "txn-0", logs / "orders-0")
    (logs / "orders-0" / "partition.metadata").unlink()
    return logs


def test_verify_joins_open_transactions_with_their_coordinator(watched: Path, kseg: Kseg) -> None:
    findings = [row for row in kseg("verify", "--format", "json", watched).objects if row["type"] == "finding"]
    opened = {
        (Path(row["file"]).parent.name, row["details"]["producerId"]): row
        for row in findings
        if row["code"] == "open-transaction"
    }
    known, forgotten = opened["txn-0", 1015]["details"], opened["txn-0", 5]["details"]
    assert (known["state"], known["verdict"], known["abort"]) == ("Ongoing", "open", None)
    assert known["timeoutMs"] == 800_000
    assert (forgotten["state"], forgotten["verdict"]) == ("Empty", "hanging")
    assert forgotten["abort"][-2:] == ["--start-offset", str(forgotten["firstOffset"])]
    assert "state Ongoing, timeout 13 min 20 s" in opened["txn-0", 1015]["message"]
    message = opened["txn-0", 5]["message"]
    assert "hanging: the coordinator does not know this transaction, so nothing ends it" in message
    lines = kseg("verify", "--severity", "info", watched / "txn-0").lines
    at = lines.index(f"    {' '.join(forgotten['abort'])}")
    assert (lines[at - 1], message in lines[at - 2]) == ("to abort the transaction, on a live cluster:", True)


def test_groups_wait_behind_the_last_stable_offset(watched: Path, kseg: Kseg) -> None:
    rows = kseg("transactions", "--format", "json", watched / "orders-0").objects
    groups = {each["group"]: each["offset"] for each in rows[0]["waitingGroups"]}
    assert groups.items() >= {"billing": 10, "audit": 14, "ahead": 99}.items()
    text = kseg("transactions", watched / "orders-0").lines
    assert any(line.endswith(f" waitingGroups: {len(groups)}") for line in text)
    assert "waiting: ahead at 99, 60 offsets before it" in text
    details = [
        row["details"]
        for row in kseg("verify", "--format", "json", watched / "orders-0").objects
        if row.get("code") == "open-transaction" and "lastStableOffset" in row["details"]
    ]
    assert [each["waitingGroups"] for each in details] == [rows[0]["waitingGroups"]]
    assert [each["waitingOffsets"] for each in details] == [rows[0]["waitingOffsets"]]


COMMITTED = TESTDATA / "kafka-4.3.1/committed"
TRUTH = [json.loads(line) for line in (COMMITTED / "truth/committed-offsets.jsonl").read_text("utf-8").splitlines()]
FIELDS = ["group", "topic", "partition", "offset", "leaderEpoch", "metadata", "logEndOffset"]
OFFSETS = COMMITTED / "__consumer_offsets-1"
LOG = OFFSETS / "00000000000000000000.log"


def committed(kseg: Kseg, *arguments: object, status: int = 0) -> list[dict[str, Any]]:
    return kseg("groups", "--format", "json", *arguments).expect(status).of_type("committedOffset")


def short(found: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: offset[name] for name in names or FIELDS} for offset in found]


def test_the_offsets_are_those_that_the_broker_knows(kseg: Kseg) -> None:
    """Transactions that were committed, aborted, overtaken, left open; deleted offsets, groups and topics."""
    found = committed(kseg, COMMITTED)
    assert short(found) == TRUTH
    assert [offset["lag"] for offset in found] == [
        max(0, offset["logEndOffset"] - offset["offset"]) for offset in TRUTH
    ]
    assert len({offset["group"] for offset in found}) == 11
    assert {offset["group"]: offset["outside"] for offset in found if offset["outside"]} == {"ahead": 78}


def test_a_table_of_offsets_is_this_one(kseg: Kseg) -> None:
    expected = kseg("groups", COMMITTED).out
    assert kseg("groups", "--format", "table", COMMITTED).out == expected
    partitions = sorted(COMMITTED.glob("__consumer_offsets-*"), reverse=True)
    assert kseg("groups", *partitions).out == expected


def test_groups_by_the_size_of_their_records(kseg: Kseg) -> None:
    """As in the statistics of each partition; all partitions together."""
    rows = kseg("groups", "--by-size", "--format", "json", COMMITTED).expect(0).objects
    sums = Counter[str]()
    for summary in kseg("stats", "--format", "json", *COMMITTED.glob("__consumer_offsets-*")).objects:
        sums.update({row["group"]: row["bytes"] for row in summary["groups"]})
    assert [(row["group"], row["bytes"]) for row in rows] == sorted(sums.items(), key=lambda row: (-row[1], row[0]))
    assert kseg("groups", "--by-size", COMMITTED).lines[1].split()[0] == rows[0]["group"]


def test_a_lag_takes_the_partition(kseg: Kseg, tmp_path: Path) -> None:
    """Of another log directory, too: a broker may have several."""
    first, second = tmp_path / "first", tmp_path / "second"
    for name in ("__consumer_offsets-0", "__consumer_offsets-1"):
        shutil.copytree(COMMITTED / name, first / name)
    unknown = committed(kseg, first)
    assert short(unknown, *FIELDS[:-1]) == [{name: offset[name] for name in FIELDS[:-1]} for offset in TRUTH]
    assert {(offset["logEndOffset"], offset["lag"]) for offset in unknown} == {(None, None)}
    assert kseg("groups", first).lines[1].split()[3:5] == ["99", "-"]
    for name in ("orders-0", "orders-1", "empty-0", "again-0"):
        shutil.copytree(COMMITTED / name, second / name)
    shutil.copytree(COMMITTED / "orders-1", second / f"orders-0.{'0' * 32}-delete")
    assert short(committed(kseg, first, second)) == TRUTH
    assert short(committed(kseg, second, first)) == TRUTH


def test_a_topic_made_anew_is_another(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(COMMITTED, tmp_path / "logs"))
    (logs / "orders-0/partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAQA")
    shorter = Path(shutil.copytree(COMMITTED, tmp_path / "shorter"))
    with (shorter / "orders-0" / LOG.name).open("r+b") as log:
        log.truncate(700)
    for paths, end in (([logs], None), ([logs, shorter], 9)):
        ends = {(o["topic"], o["partition"], o["topicId"] is None): o["logEndOffset"] for o in committed(kseg, *paths)}
        assert ends["orders", 0, False] == end
        assert ends["orders", 0, True] == 21
        assert ends["orders", 1, False] == 15


def test_what_was_committed_at_a_record(kseg: Kseg) -> None:
    def at(last: int) -> dict[tuple[str, int], int]:
        found = committed(kseg, "--offsets", f"..{last}", OFFSETS)
        return {(offset["group"], offset["partition"]): offset["offset"] for offset in found}

    assert at(2) == {("billing", 0): 6}
    assert at(11)["deleted-group", 0] == 3
    assert ("deleted-group", 0) not in at(13)
    # Offsets 28 and 29: a commit in a transaction, and its marker.
    assert ("streams-like", 1) not in at(28)
    assert at(29)["streams-like", 1] == 3
    assert (at(36).get(("overtaken", 0)), at(37)["overtaken", 0], at(38)["overtaken", 0]) == (None, 6, 6)


def test_ages_count_to_the_newest_record_or_to_a_time(kseg: Kseg) -> None:
    found = committed(kseg, COMMITTED)
    stamps = [offset["commitTimestamp"] for offset in found]
    assert 0 < max(stamps) + min(offset["ageMs"] for offset in found) - max(stamps) < 10_000
    later = max(stamps) + 86_400_000
    shown = committed(kseg, "--now", later, COMMITTED)
    assert [offset["ageMs"] for offset in shown] == [later - stamp for stamp in stamps]
    assert " 1 d 0 h " in kseg("groups", "--now", later, COMMITTED).lines[1]


def test_damage_is_told(kseg: Kseg, tmp_path: Path) -> None:
    data = LOG.read_bytes()
    folder = tmp_path / OFFSETS.name
    folder.mkdir()
    (folder / LOG.name).write_bytes(data[:1300] + bytes([data[1300] ^ 1]) + data[1301:] + b"nonsense")
    done = kseg("groups", folder).expect(1)
    assert done.lines[-1] == (
        "damage: 1 range, 8 bytes; batches with problems: 1; commits in them are not known"
    )  # fmt: skip
    assert "batches with problems: 1" in kseg("groups", "--format", "json", folder).err


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", range(1, 4921, 97))
def test_a_cut_log_says_what_it_still_knows(size: int, kseg: Kseg, tmp_path: Path) -> None:
    """As many offsets as in the whole batches."""
    folder = tmp_path / OFFSETS.name
    folder.mkdir()
    (folder / LOG.name).write_bytes(LOG.read_bytes()[:size])
    batches = kseg("dump", "--format", "json", folder).of_type("batch")
    done = kseg("groups", "--format", "json", folder)
    last = max((batch["lastOffset"] for batch in batches), default=-1)
    expected = committed(kseg, "--offsets", f"..{last}", OFFSETS) if batches else []
    assert short(done.of_type("committedOffset"), *FIELDS[:-1]) == short(expected, *FIELDS[:-1])


def test_a_copying_a_partition_adds_nothing(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(OFFSETS, tmp_path / OFFSETS.name)
    assert short(committed(kseg, tmp_path / OFFSETS.name, COMMITTED), *FIELDS[:-1]) == [
        {name: offset[name] for name in FIELDS[:-1]} for offset in TRUTH
    ]


def test_the_copy_that_ends_last_counts(kseg: Kseg, tmp_path: Path) -> None:
    """What it has deleted is deleted, whatever a shorter copy still has."""
    shorter = Path(shutil.copytree(COMMITTED, tmp_path / "shorter"))
    for log, size in ((shorter / "__consumer_offsets-1" / LOG.name, 1783), (shorter / "orders-0" / LOG.name, 700)):
        log.write_bytes(log.read_bytes()[:size])
    for paths in ((COMMITTED, shorter), (shorter, COMMITTED)):
        for words in (["--format", "json"], ["--format", "json", "--by-size"]):
            assert kseg("groups", *words, *paths).objects == kseg("groups", *words, COMMITTED).objects
        if find_spec("pyarrow") is not None:
            rows = scan([*map(str, paths)], mode="commits").to_arrow().to_pylist()
            assert short(sorted(rows, key=itemgetter("group", "topic", "partition"))) == TRUTH
    for name in ("0", "1"):  # of another cluster
        (shorter / f"__consumer_offsets-{name}" / "partition.metadata").unlink()
    (shorter / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=another\n")
    assert len(committed(kseg, shorter, COMMITTED)) > len(TRUTH)
    unnamed = [(shorter / f"__consumer_offsets-{name}").rename(tmp_path / name) for name in ("0", "1")]
    assert len(committed(kseg, *unnamed)) == sum(len(committed(kseg, path)) for path in unnamed)


def test_a_log_directory_without_offsets(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(COMMITTED / "orders-0", tmp_path / "logs/orders-0")
    done = kseg("groups", tmp_path / "logs")
    assert (done.status, done.err) == (3, "kseg: no PATH holds a partition of __consumer_offsets\n")
    assert kseg("groups", tmp_path / "none").status == 3


def test_leftovers_of_the_cleaner_set_nothing(kseg: Kseg, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OFFSETS, tmp_path / OFFSETS.name))
    shutil.copy(LOG, folder / f"{LOG.name}.deleted")
    (folder / f"{LOG.name}.swap").write_bytes(LOG.read_bytes()[:500])
    expected = kseg("groups", folder).out
    (folder / f"{LOG.name}.deleted").unlink()
    (folder / f"{LOG.name}.swap").unlink()
    assert kseg("groups", folder).out == expected


def test_standard_input_has_no_log_directory(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OFFSETS)
    with LOG.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        found = committed(kseg, "-")
    assert short(found, *FIELDS[:-1]) == short(committed(kseg, LOG.name), *FIELDS[:-1])
    assert {offset["lag"] for offset in found} == {None}
    assert {offset["lag"] for offset in committed(kseg, LOG.name)} >= {0, 7}
