"""What real brokers of all eras left of a damaged partition is what kseg makes of it, and the table of releases."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from broker.rounds import DEFAULT_INTERVAL_BYTES, RECORDED, RECORDED_SEED, REFUSED, damaged, digest, recovered
from kseg.node.node import Nodes
from kseg.recovery.options import BrokerStart
from kseg.recovery.workspace import BrokerRefusesError
from kseg.releases.release import NEWEST, Era, era_of
from recovery.partitions import TESTDATA, contents, copy_of, recover

# Recovery leaves the files that Kafka's loaders left of the same damaged partitions; their results are recorded.
#
# tests/broker/test_rounds.py runs the loaders themselves, with other rounds.

RESULTS: dict[str, dict[str, list[str]]] = json.loads(RECORDED.read_text())
ROUNDS = sorted({int(name.partition("/")[0]) for results in RESULTS.values() for name in results})


@pytest.mark.sampled(12)
@pytest.mark.parametrize("number", ROUNDS)
def test_the_files_are_those_of_the_loader(number: int, tmp_path: Path) -> None:
    done = damaged(tmp_path / "damaged", RECORDED_SEED, number)
    for release, results in RESULTS.items():
        root, nodes, misses = tmp_path / release, Nodes(), []
        shutil.copytree(tmp_path / "damaged", root)
        for path, damage in done.items():
            name = f"{number}/{path.name}"
            if name not in results:
                continue
            assert results[name][0] == damage
            partition = root / path.name
            interval_bytes = nodes.partition(str(path)).interval_bytes[0] or DEFAULT_INTERVAL_BYTES
            refusal = recovered(partition, interval_bytes, release)
            if (REFUSED if refusal else digest(partition)) != results[name][1]:
                misses.append(f"{name} [{damage}]: {refusal or 'other files'}")
        assert misses == []


CASES = sorted(path.parent for path in (TESTDATA / "recovery").glob("*/case.json"))
DAMAGED = sorted(path.parent for path in (TESTDATA / "damaged").glob("[0-9]*/case.json"))
NOW_MS = 1_795_250_000_000
ENTRY_BYTES = {".index": 8, ".timeindex": 12}


def without_preallocated(name: str, data: bytes) -> bytes:
    width = ENTRY_BYTES.get(Path(name).suffix, 1)
    return data if width == 1 else data[: -(-len(data.rstrip(b"\0")) // width) * width]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_partition_becomes_what_its_broker_made_of_it(case: Path, tmp_path: Path) -> None:
    told = json.loads((case / "case.json").read_text())
    directory = copy_of(case / "before" / told["partition"], tmp_path)
    before = contents(directory)
    interval_bytes, era = told.get("intervalBytes", 1024), era_of(told["era"])
    recover(directory, BrokerStart(told["wasClean"], told["recoveryPoint"], 0, NOW_MS, interval_bytes, era=era))
    found = contents(directory)
    expected = contents(case / "after" / told["partition"])
    for name, size in told["logSizes"].items():
        expected[name] = before[name][:size]
    # A new leader's epoch is written by what follows a start, and empty transaction indexes tell nothing.
    for files in (found, expected):
        files.pop("leader-epoch-checkpoint", None)
        files.pop("partition.metadata", None)
        for name in [name for name, data in files.items() if name.endswith(".txnindex") and not data]:
            del files[name]
    assert sorted(found) == sorted(expected)
    for name, data in expected.items():
        if not name.endswith(".snapshot"):  # which producers have expired depends on the clock of that day
            assert without_preallocated(name, found[name]) == without_preallocated(name, data), name


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case.name)
def test_a_damaged_segment_is_cut_or_refused_as_by_its_broker(case: Path, tmp_path: Path) -> None:
    told = json.loads((case / "case.json").read_text())
    path, data = Path(told["file"]), (case / told["file"]).read_bytes()
    directory = copy_of(case / path.parent, tmp_path)
    with nullcontext() if told["brokerStarted"] else pytest.raises(BrokerRefusesError):
        recover(directory, BrokerStart(now_ms=NOW_MS, interval_bytes=1024, era=era_of(told["broker"])))
    assert (directory / path.name).read_bytes() == data[: told["sizeAfter"]]


def test_cases_cover_all_eras() -> None:
    eras = {json.loads((case / "case.json").read_text())["era"] for case in CASES}
    assert eras == {"0.7.2", "0.8.2.2", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "4.4.0"}


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.7", (0, 7)), ("0.7.2", (0, 7)), ("0.8", (0, 8, 2)), ("0.8.0", (0, 8, 0)), ("0.8.2.2", (0, 8, 2)),
        ("0.9.0.1", (0, 9, 0)), ("0.10", (0, 10, 2)), ("0.10.1.1", (0, 10, 1)), ("1.1.1", (1, 1)), ("2.8.2", (2, 8)),
        ("3", (3, 9)), ("4.3", (4, 3)), ("4.3.1", (4, 3)), ("4", (4, 4)), ("4.4.0", (4, 4)),
    ],
)  # fmt: skip
def test_releases_are_told_by_their_first_numbers(version: str, release: tuple[int, ...]) -> None:
    assert era_of(version).release == release


@pytest.mark.parametrize("version", ["", "0", "0.6", "0.12", "1.2", "2.9", "4.5", "5.0", "4.x", "-1", "4..3", "²"])
def test_others_are_not_known(version: str) -> None:
    if version == "0":  # begins every release from 0.7 to 0.11
        assert era_of(version).release == (0, 11, 0)
        return
    with pytest.raises(ValueError, match="no release"):
        era_of(version)


def test_the_newest_is_the_default() -> None:
    assert Era().release == NEWEST
    assert Era().max_message_bytes is None
    assert era_of("0.10.2").max_message_bytes == 1_000_012
    assert era_of("0.8.0").max_message_bytes == (1 << 31) - 1
