"""The commands of each entry, on real directories with one of its findings."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import TESTDATA, Kseg
from kseg.symptoms.matching import Found, NamedPlace, commands_of
from kseg.symptoms.table import SYMPTOMS, Symptom
from verification.log_directories import NOW_MS

CASES = TESTDATA / "damaged" / "findings"
REPLICA = TESTDATA / "damaged/4.3.1-control-clean/dplain-0"
CHOICES = {"UUID": "94z80dvgS1WwWwVWhp2zpg", "TOPIC": "dplain", "REPLICA": str(REPLICA), "OTHER": str(REPLICA)}
ELSEWHERE = {"REMOTE"}
"""Words for things that a case does not have."""


def case_of(symptom: Symptom) -> tuple[str, Path, dict[str, Any]] | None:
    """The first finding of an entry whose case needs nothing beside the directory; its folder and case.json."""
    for code in symptom.findings:
        case = json.loads((CASES / code / "case.json").read_text("utf-8"))
        if not case.keys() & {"against", "manifest", "packed", "privateKeys", "logs", "maxBatchBytes", "condition"}:
            return code, CASES / code, case
    return None


TRIED = [(symptom, *case) for symptom in SYMPTOMS if (case := case_of(symptom))]


def copied(folder: Path, case: dict[str, Any], code: str, target: Path) -> tuple[Path, NamedPlace]:
    """A copy of what is judged, and the place of its finding, as a message would name it."""
    judged = folder / case["judged"]
    root = target / "logs"
    if judged.is_dir() and "-" not in judged.name:
        shutil.copytree(judged, root)
    else:
        shutil.copytree(judged if judged.is_dir() else judged.parent, root / "dplain-0")
    finding = next(row for row in case["findings"] if row["code"] == code)
    inside = os.path.relpath(folder / finding["file"], judged if judged.is_dir() else judged.parent)
    path = (root if judged.is_dir() and "-" not in judged.name else root / "dplain-0") / inside
    partition = next((each for each in (path, *path.parents) if each.parent == root and each.is_dir()), None)
    file = str(path) if path.is_file() else None
    name = partition.name if partition else "dplain-0"
    place = NamedPlace(str(root), str(partition or root), file, name, finding["position"] or 0, finding["offset"] or 0)
    return root, place


@pytest.mark.sampled(22)
@pytest.mark.parametrize(("symptom", "code", "folder", "case"), TRIED, ids=[each[0].name for each in TRIED])
def test_the_commands_run_and_find_what_the_entry_says(
    symptom: Symptom, code: str, folder: Path, case: dict[str, Any], kseg: Kseg, tmp_path: Path
) -> None:
    root, place = copied(folder, case, code, tmp_path)
    found = Found(symptom, 1, "")
    found.add(place)
    for argv, _ in commands_of(found):
        if ELSEWHERE & set(argv):
            continue
        words = [CHOICES.get(word, str(tmp_path / word.lower()) if word.isupper() else word) for word in argv[1:]]
        done = kseg(*words)
        assert done.status in (0, 1, 3), (argv, done.err)
        if words[0] == "verify":
            now = case.get("nowMs", NOW_MS)
            codes = {row["code"] for row in kseg(*words, "--now", now, "--format", "json").of_type("finding")}
            assert codes & set(symptom.findings), (argv, codes)
    assert root.is_dir()


def test_most_entries_are_tried() -> None:
    """The others have a finding that needs a replica, a manifest or remote storage."""
    assert len(TRIED) > sum(bool(symptom.findings) for symptom in SYMPTOMS) * 2 / 3
