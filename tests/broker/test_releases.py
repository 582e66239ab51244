"""Real nodes and classes of several releases as the judges of what verify says about the start of each release."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import jars
from broker.client import Client
from broker.nodes import ALONE, LOGGING, KraftNode, java
from kseg.releases.metadata import FEATURES, METADATA_VERSION, METADATA_VERSIONS, RECORD_VERSIONS, MetadataRules
from kseg.releases.release import era_of
from kseg.segment.survey import FULL
from kseg.verification.partition import CheckSettings
from kseg.verification.report import CheckReporter
from kseg.verification.run import Check
from verification.log_directories import NOW_MS

pytestmark = [pytest.mark.broker, pytest.mark.slow]

RELEASES = ("3.9.1", "4.1.1", "4.3.1", "4.4.0")
WRITERS = {release: (release, ()) for release in RELEASES} | {
    "4.4.0 as 4.1": ("4.4.0", ("--release-version", "4.1")),
    "4.4.0 as 3.9": ("4.4.0", ("--release-version", "3.9")),
}
"""Who has written a log directory: a release, and the options of its format."""


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_of_levels_is_that_of_the_classes(release: str) -> None:
    class_path = jars.class_path("kafka_2.13", release, LOGGING)
    driver = str(Path(__file__).with_name("ReleaseLevels.java"))
    done = subprocess.run(java(class_path, driver), capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    rules = MetadataRules(era_of(release).release)

    features = {name: (int(low), int(high)) for kind, name, low, high in _of(rows, "feature")}
    assert features == {name: levels[1:] for name in FEATURES if (levels := rules.levels(name))}

    highest = features[METADATA_VERSION][1]
    names = {int(level): name for _, level, name in _of(rows, "version") if 0 < int(level) <= highest}
    lowest = min(names)
    assert names == {level: METADATA_VERSIONS[level] for level in range(lowest, highest + 1)}

    records = {int(key): int(newest) for _, key, _, newest in _of(rows, "record")}
    for key in {*records, *RECORD_VERSIONS}:
        newest = records.get(key, -1)
        assert [rules.accepts_record(key, version) for version in range(newest + 2)] == [True] * (newest + 1) + [False]
    assert rules.has_voter_records == (["control", "KRAFT_VOTERS"] in rows)


def _of(rows: list[list[str]], kind: str) -> list[list[str]]:
    return [row for row in rows if row[0] == kind]


@pytest.fixture(scope="module")
def written(client: Client, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The log directory of each writer, which has stopped in good order; the topic made has five records."""
    found = {}
    for name, (release, flags) in WRITERS.items():
        with KraftNode(tmp_path_factory.mktemp("writer") / "node", client, release, ALONE, *flags) as node:
            node.start()
            client.ask("create", node.address, "made", 1)
            client.ask("produce", node.address, "made", "none", 0, 5)
            node.stop()
            found[name] = node.logs
    return found


@pytest.fixture
def starter(client: Client, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[KraftNode]:
    with KraftNode(tmp_path / "node", client, request.param) as node:
        yield node


@pytest.mark.parametrize("starter", RELEASES, indirect=True)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_release_starts_where_verify_says_so(writer: str, starter: KraftNode, written: dict[str, Path]) -> None:
    shutil.rmtree(starter.logs)
    shutil.copytree(written[writer], starter.logs)
    check = Check(
        [str(starter.logs)], CheckSettings(FULL, NOW_MS, era=era_of(starter.RELEASE), may_fork=False), CheckReporter()
    )
    check.judge(str(starter.logs))
    (start,) = check.finish().starts
    line = starter.RELEASE.rpartition(".")[0]
    assert start.starts == (line in (start.releases or ()))
    if start.starts:
        starter.start()
    else:
        starter.start_in_vain()
