"""``kseg cluster``: the cluster that a metadata log makes, for people and as JSON Lines."""

import json
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cli.command import CLEAN, LOGS, TESTDATA, Kseg

ALL_TYPES = TESTDATA / "metadata" / "4.4.0-all-types"
INTERNAL = TESTDATA / "kafka-4.3.1" / "internal"


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps([row["recordType"], row["version"], row["data"]], sort_keys=True) for row in rows)


def test_json_has_a_head_and_the_records_of_a_snapshot(kseg: Kseg) -> None:
    head, *records = kseg("cluster", "--format", "json", ALL_TYPES).objects
    assert head == {
        "type": "metadataImage", "file": str(ALL_TYPES), "offset": 263, "epoch": 3,
        "snapshot": "00000000000000000201-0000000003.checkpoint", "metadataVersion": head["metadataVersion"],
    }  # fmt: skip
    images = json.loads((TESTDATA / "metadata" / "images.json").read_text("utf-8"))
    assert len(records) == len(images["metadata/4.4.0-all-types/__cluster_metadata-0"]["records"])
    assert {row["type"] for row in records} == {"imageRecord"}
    assert records[0]["data"]["name"] == "metadata.version"


def test_what_stands_for_a_node_has_its_metadata(tmp_path: Path, kseg: Kseg) -> None:
    for name, source in (("a", LOGS), ("b", CLEAN)):
        shutil.copytree(source, tmp_path / "node" / name)
    configuration = tmp_path / "server.properties"
    configuration.write_text(f"log.dirs={tmp_path}/node/a,{tmp_path}/node/b\n")
    expected = kseg("cluster", tmp_path / "node" / "b")
    assert expected.status == 0
    assert kseg("cluster", configuration) == kseg("cluster", tmp_path / "node") == expected


def test_since_gives_what_differs(kseg: Kseg) -> None:
    def records(*words: object) -> list[dict[str, Any]]:
        return kseg("cluster", "--format", "json", *words, ALL_TYPES / "__cluster_metadata-0").objects[1:]

    old, new, changes = records("--as-of", 150), records("--as-of", 230), records("--as-of", 230, "--since", 150)
    by_kind = {kind: bag([row for row in changes if row["change"] == kind]) for kind in ("added", "removed")}
    assert by_kind == {"added": bag(new) - bag(old), "removed": bag(old) - bag(new)}
    assert all(by_kind.values())


def test_text_has_the_tables_that_have_rows(kseg: Kseg) -> None:
    captions = [line for before, line in pairwise(kseg("cluster", "--color", "never", CLEAN).lines) if not before]
    assert captions == ["Features", "Controllers", "Brokers", "10 topics, 56 partitions", "Settings"]
    assert kseg("cluster", "--as-of", 0, CLEAN).lines == [f"{CLEAN}: offset 0, epoch 0, metadata.version unknown"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_can_be_hidden(form: str, kseg: Kseg) -> None:
    whole = kseg("cluster", "--format", "json", INTERNAL).objects
    secrets = [
        row["data"][name]
        for row in whole
        if row.get("recordType") == "USER_SCRAM_CREDENTIAL_RECORD"
        for name in ("salt", "storedKey", "serverKey")
    ]
    assert secrets
    shown = kseg("cluster", "--redact", "--format", form, INTERNAL).out.decode()
    assert not any(secret in shown for secret in secrets)
