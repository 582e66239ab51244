"""Rounds of random damage to real log directories, each partition held against Kafka's own loader, of 4.x and of 3.x.

A partition is right where kseg leaves what the loader leaves; where the loader refuses it, kseg refuses too, or mends
it so that the loader takes it; and where the loader cuts or refuses it, kseg verify has said so. CONTRIBUTING.md tells
of the variables that choose other rounds.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker import damages, loading
from broker.client import Client
from broker.loading import Loader
from broker.nodes import KraftNode
from broker.rounds import BASE, DEFAULT_INTERVAL_BYTES, NOW_MS, RELEASES, damaged, recovered
from broker.scenes import INTERVAL_BYTES, TOPIC, dumped, put
from kseg.changes.apply import apply
from kseg.node.node import Nodes
from kseg.recovery.options import BrokerStart
from kseg.recovery.salvage.salvage import plan_salvage

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SEED = os.environ.get("KSEG_ROUNDS_SEED", "1")
ROUNDS = int(os.environ.get("KSEG_ROUNDS", "8"))
KINDS = os.environ.get("KSEG_ROUNDS_KINDS", "")
SAMPLE = 8
NEWEST = next(iter(RELEASES.values()))


def chosen_kinds() -> tuple[damages.Kind, ...]:
    names = KINDS.split(",") if KINDS else []
    return tuple(kind for kind in damages.ALL if not names or kind.__name__ in names)


def found_by_verify(root: Path) -> str:
    """What kseg verify says of a log directory beyond what is of no weight, as JSON Lines."""
    command = [sys.executable, "-m", "kseg", "verify", "--level", "deep", "--quiet", "--format", "json", str(root)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode in (0, 1), done.stderr
    rows = map(json.loads, done.stdout.splitlines())
    return "\n".join(json.dumps(row) for row in rows if row["type"] == "finding" and row["severity"] != "info")


@pytest.mark.parametrize("number", range(ROUNDS))
def test_kseg_leaves_what_the_loader_leaves(loader: Loader, number: int, tmp_path: Path) -> None:
    release, nodes, misses = RELEASES[loader.release], Nodes(), []
    for partition, what in damaged(tmp_path / "damaged", SEED, number, chosen_kinds()).items():
        theirs, ours = tmp_path / "loader" / partition.name, tmp_path / "kseg" / partition.name
        for copy in (theirs, ours):
            shutil.copytree(partition.parent, copy.parent, dirs_exist_ok=True)
        interval_bytes = nodes.partition(str(partition)).interval_bytes[0] or DEFAULT_INTERVAL_BYTES
        answer = loader.load(theirs, NOW_MS, interval_bytes)
        refusal = recovered(ours, interval_bytes, release)
        if answer == "taken" and refusal:
            misses.append(f"{partition.name} [{what}] refused: {refusal}")
        elif answer == "taken":
            differing = loading.differences(theirs, ours, loader, NOW_MS, interval_bytes)
            misses += [f"{partition.name} [{what}] not alike: {differing}"] * bool(differing)
        elif not refusal and (again := loader.load(ours, NOW_MS, interval_bytes)) != "taken":
            misses.append(f"{partition.name} [{what}] recovered, and still {again}")
        is_changed = answer != "taken" or loading.logs_of(theirs) != loading.logs_of(partition)
        if is_changed and release == NEWEST and f"{partition.name}" not in found_by_verify(partition.parent):
            misses.append(f"{partition.name} [{what}] unseen by verify: {answer}")
        for copy in (theirs, ours):
            shutil.rmtree(copy.parent)
    assert misses == []


def test_a_broker_serves_what_salvage_leaves(client: Client, tmp_path: Path) -> None:
    """Of partitions that a batch or a range of bytes was damaged in; a consumer comes to the end of each."""
    with KraftNode(tmp_path / "node", client) as node:
        node.start()
        sources = sorted(path for path in (BASE / "clean").iterdir() if path.is_dir() and path.name[0] != "_")
        topics = {f"round-{n}": sources[n % len(sources)] for n in range(SAMPLE)}
        for topic in topics:
            node.create(topic, 1, *TOPIC)
        node.crash()
        for topic, source in topics.items():
            partition = node.logs / f"{topic}-0"
            put(partition, source)
            damages.damage(random.Random(f"{SEED}/{topic}"), partition, damages.OF_BYTES)
            start = BrokerStart(now_ms=NOW_MS, interval_bytes=INTERVAL_BYTES)
            apply(plan_salvage(str(partition), start).plan, "recover --mode salvage")
        node.start()
        for topic in topics:
            assert client.consume(node.address, topic, 0) == dumped(node.logs / f"{topic}-0")
        node.stop()
