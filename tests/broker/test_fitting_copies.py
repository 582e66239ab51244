"""Copies of three nodes, taken one after the other while they run: the commands that verify names, run in their order,
make one cluster of them, which serves every record that was acknowledged before the last copy was begun."""

import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.client import Client, Served, Writer
from broker.nodes import KRAFT, Trio, wait_until
from broker.test_clusters import TOPICS, copied_live, told, write
from cli.command import spawned

pytestmark = [pytest.mark.broker, pytest.mark.slow]
PAUSE_SECONDS = 2
ORDER = (3, 1, 2)
LATER = "later"
"""A topic that is made after the first copy."""


@pytest.mark.parametrize("release", [KRAFT, pytest.param("4.3.1", marks=pytest.mark.release)])
def test_named_commands_make_one_cluster(client: Client, tmp_path: Path, release: str) -> None:
    copies: dict[int, Path] = {}
    served: dict[str, dict[int, Any]] = {}
    with Trio(tmp_path / "trio", client, release) as trio:
        trio.start()
        for topic in TOPICS:
            trio.create(topic)
        with Client(tmp_path) as worker, Writer(partial(write, worker, trio.nodes[1].address), 0, 40) as writer:
            wait_until(lambda: bool(writer.acknowledged))
            for number in ORDER:
                time.sleep(PAUSE_SECONDS)
                served = {topic: values(client.consume(trio.nodes[1].address, topic, 0)) for topic in TOPICS}
                if copies:
                    served[LATER] = values(client.consume(trio.nodes[1].address, LATER, 0))
                copies[number] = tmp_path / "copies" / f"node{number}"
                copied_live(trio.nodes[number].logs, copies[number])
                if len(copies) == 1:
                    trio.create(LATER)
                    client.ask("produce", trio.nodes[1].address, LATER, "none", 0, 30)
        trio.stop()
    cluster, _ = told(copies)
    by_node = {copy["node"]: copy for copy in cluster["copies"]}
    first, newest = by_node[ORDER[0]], by_node[ORDER[-1]]
    assert (first["wasClean"], first["fits"], newest["fits"], cluster["lastResort"]) == (False, False, True, None)
    assert newest["newestTime"] - first["newestTime"] >= PAUSE_SECONDS * 1000
    assert newest["metadataEnd"] > first["metadataEnd"]
    assert first["offsetsBehind"] > newest["offsetsBehind"]
    assert cluster["commands"]
    for argv in cluster["commands"]:
        ran = spawned(*argv[1:]) if argv[0] == "kseg" else subprocess.run(argv, capture_output=True, check=False)
        assert ran.returncode == 0, (argv, ran.stderr)
    after, _ = told(copies)
    assert (after["commands"], [copy["fits"] for copy in after["copies"]]) == ([], [True] * 3)
    with Trio(tmp_path / "again", client, release, copies) as again:
        again.start()
        for topic in served:
            got = values(client.consume(again.nodes[1].address, topic, 0))
            assert served[topic]
            assert served[topic].items() <= got.items(), (topic, sorted(served[topic].keys() - got.keys()))


def values(records: Served) -> dict[int, Any]:
    return {record["offset"]: record["value"] for record in records}
