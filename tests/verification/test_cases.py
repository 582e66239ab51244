"""Each finding has a case in testdata/damaged/findings: committed files, and all that must be told of them. What
brokers wrote has none."""

import gzip
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conditions import CONDITIONS
from kseg.findings.table import INFO, KINDS
from kseg.node.node import Nodes
from kseg.output.json_schema import schema
from kseg.releases.release import Era, era_of
from kseg.segment.survey import DEEP, FULL, QUICK
from kseg.stores.remote.keys import PrivateKeys, RemoteChoice
from kseg.verification.manifest import check_manifest
from kseg.verification.nodes import judge_nodes
from kseg.verification.partition import CheckSettings
from kseg.verification.replicas import compare_path
from kseg.verification.run import judge_path
from verification.log_directories import NOW_MS
from verification.partitions import LATER_MS, TESTDATA, Found

FINDINGS = TESTDATA / "damaged" / "findings"
FOLDERS = sorted(path.name for path in FINDINGS.iterdir() if path.is_dir())
DETAILS = schema("verify")["$defs"]["details"]["properties"]


def told_of(folder: Path, level: int = DEEP) -> list[dict[str, Any]]:
    """What is told of a case, in the fields of its case.json."""
    case = json.loads((folder / "case.json").read_text("utf-8"))
    judged, found = str(folder / case["judged"]), Found()
    if "against" in case:
        by = tuple(case.get("by", "").split(",")) if "by" in case else ()
        compare_path(judged, str(folder / case["against"]), CheckSettings(FULL, 0), found.report, lambda _: None, by)
    elif "manifest" in case:
        check_manifest(str(folder / case["manifest"]), [judged], CheckSettings(FULL, 0), found.report)
    else:
        keys = {key: str(TESTDATA / path) for key, path in case.get("privateKeys", {}).items()}
        logs = (str(folder / case["logs"]),) if "logs" in case else ()
        remote = RemoteChoice(PrivateKeys(keys), log_directories=logs)
        now, limit = case.get("nowMs", NOW_MS), case.get("maxBatchBytes", 1 << 28)
        era = era_of(case["era"]) if "era" in case else Era()
        settings = CheckSettings(level, now, max_batch_bytes=limit, remote=remote, era=era)
        judge_path(judged, settings, found.report)
        judge_nodes(Nodes([judged]), settings, found.report)
    assert {name for finding in found.findings for name in finding.details} <= {*DETAILS}
    return in_order(
        {
            "code": finding.code, "severity": finding.severity, "file": os.path.relpath(finding.file, folder),
            "position": finding.position, "length": finding.length, "offset": finding.offset,
        }
        for finding in found.findings
    )  # fmt: skip


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=json.dumps)


def as_it_was_meant(folder: Path, place: Path) -> Path:
    """A copy of a case, what git cannot hold unpacked."""
    copied = Path(shutil.copytree(folder, place / folder.name))
    for name in json.loads((copied / "case.json").read_text("utf-8")).get("packed", []):
        packed = copied / f"{name}.gz"
        (copied / name).write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return copied


def test_every_finding_has_a_case() -> None:
    assert sorted(KINDS) == FOLDERS


@pytest.mark.sampled(5)
@pytest.mark.parametrize("code", FOLDERS)
def test_a_case_is_told_and_nothing_else(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = FINDINGS / code
    case = json.loads((folder / "case.json").read_text("utf-8"))
    if "packed" in case or "condition" in case:
        folder = as_it_was_meant(folder, tmp_path)
    if "condition" in case:
        CONDITIONS[case["condition"]](monkeypatch, folder)
    assert told_of(folder) == in_order(case["findings"])
    assert (code, KINDS[code].severity) in {(finding["code"], finding["severity"]) for finding in case["findings"]}


LOGS = ("kafka-*/**/*.log", "kafka-*/**/*.kafka", "verify/**/*.log")
BROKERS = sorted({log.parent for logs in LOGS for log in TESTDATA.glob(logs)})
ODD = {"tsedge-0": {"future-timestamp"}, "attribute-bits-0": {"unused-attributes"}, "e-plain-0": {"gap-unexplained"}}
"""Times and attributes that a client chose, and a log whose first batches a cleaner took: nothing tells that it did."""


@pytest.mark.parametrize("level", [QUICK, FULL, DEEP])
@pytest.mark.parametrize("partition", BROKERS, ids=lambda path: "/".join(path.parts[-3:]))
def test_nothing_is_wrong_with_what_brokers_wrote(partition: Path, level: int) -> None:
    """0.7 to 4.4, compacted or not, of leaders and followers: batches, indexes, snapshots, epochs."""
    found = Found()
    judge_path(str(partition), CheckSettings(level, LATER_MS), found.report)
    assert {finding.code for finding in found.findings if finding.severity != INFO} == ODD.get(partition.name, set())
    assert not any("index" in code or code == "unknown-file" for code in found.codes)


def test_a_case_tells_of_little_else() -> None:
    """Above info, a case is about its own finding, and at most two that cannot but come with it; batches of another
    partition contradict both indexes and a neighbour."""
    for code in FOLDERS:
        findings = json.loads((FINDINGS / code / "case.json").read_text("utf-8"))["findings"]
        assert len({finding["code"] for finding in findings if finding["severity"] != INFO} - {code}) <= 2 + (
            code == "foreign-batches"
        ), code
