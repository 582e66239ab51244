"""Recovery leaves the files that Kafka's loaders left of the same damaged partitions; their results are recorded.

tests/broker/test_rounds.py runs the loaders themselves, with other rounds.
"""

import json
import shutil
from pathlib import Path

import pytest

from broker.rounds import DEFAULT_INTERVAL_BYTES, RECORDED, RECORDED_SEED, REFUSED, damaged, digest, recovered
from kseg.logdir.topics import KnownTopics

RESULTS: dict[str, dict[str, list[str]]] = json.loads(RECORDED.read_text())
ROUNDS = sorted({int(name.partition("/")[0]) for results in RESULTS.values() for name in results})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", ROUNDS)
def test_the_files_are_those_of_the_loader(number: int, tmp_path: Path) -> None:
    done = damaged(tmp_path / "damaged", RECORDED_SEED, number)
    for release, results in RESULTS.items():
        root, topics, misses = tmp_path / release, KnownTopics(), []
        shutil.copytree(tmp_path / "damaged", root)
        for path, damage in done.items():
            name = f"{number}/{path.name}"
            if name not in results:
                continue
            assert results[name][0] == damage
            partition = root / path.name
            refusal = recovered(partition, topics.interval_bytes(str(path))[0] or DEFAULT_INTERVAL_BYTES, release)
            if (REFUSED if refusal else digest(partition)) != results[name][1]:
                misses.append(f"{name} [{damage}]: {refusal or 'other files'}")
        assert misses == []
