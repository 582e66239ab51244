"""The manifest of a change: what was applied is read again, field by field, and nothing else is believed."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from changes.trees import contents, make, plan_of, quarantine, random_files, random_plan
from kseg.changes import manifest
from kseg.changes.apply import Keeping, apply
from kseg.changes.disk import Disk
from kseg.changes.manifest import DONE, PREPARED, Change, read_manifest, write_change
from kseg.changes.plan import Plan, Range, Removed
from kseg.changes.quarantine import read_change
from kseg.changes.undo import last_change, undo
from kseg.errors import KsegError

LOG = bytes(range(256)) * 300


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    make(directory, {"a.log": LOG, "b.log": LOG[:1000], "c.log": LOG[:300], "d.log": LOG[:50], "e.log": LOG[:9]})
    return directory


def plan_for(partition: Path) -> Plan:
    """One step of each kind, with ranges of all kinds."""
    pieces = [Range("a.log", 0, 30_000), b"mended", Range("a.log", 40_000, len(LOG) - 40_000)]
    return plan_of(
        partition,
        ("truncate", "b.log", 400, "is cut", [Removed(400, 600, "damaged", 7, 9, 3), Removed(0, 1, "unknown")]),
        ("delete", "c.log", "is not needed"),
        ("rename", "d.log", "d.log.deleted", "is old", (), True),
        ("rename", "e.log", "f.log", "has another name"),
        ("write", "a.log", pieces, "is damaged", (), "", 1_600_000_000_000_000_001),
        ("write", "g.log", [b"new"], "is new"),
        gaps=[(3, 9), (12, 12)],
    )


def applied(plan: Plan, **more: Any) -> Change:
    change = apply(plan, "recover --all", **more)
    assert change is not None
    return change


def as_stored(change: Change) -> Change:
    """The change without what only applying it needs."""
    steps = [replace(step, pieces=(), source="", model="") for step in change.steps]
    return replace(change, steps=steps, digests={k: found for k, found in change.digests.items() if found})


def test_the_whole_change_is_read_again(partition: Path) -> None:
    change = applied(plan_for(partition), group="7.123")
    found = read_change(str(partition), change.number)
    assert (found.state, found.gaps, found.group, found.undoes) == (DONE, [(3, 9), (12, 12)], "7.123", 0)
    assert found.by_delta.keys() == {4}
    assert found.made.keys() == {4, 5}
    kinds = [step.action for step in found.steps]
    assert kinds == ["truncate", "delete", "rename", "rename", "replace", "create"]
    assert as_stored(found) == as_stored(change)
    assert found.digests[0] == [sha256(LOG[400:1000]).hexdigest(), sha256(LOG[:1]).hexdigest()]
    assert found.kept_bytes == 600 + 300 + 50 + found.by_delta[4].size
    assert found.by_delta[4].size == 10_000
    assert found.changes_a_log


@pytest.mark.parametrize("seed", range(12))
def test_random_changes_are_read_again(seed: int, tmp_path: Path) -> None:
    rng, directory = random.Random(seed), tmp_path / "orders-0"
    make(directory, random_files(rng))
    plan, _ = random_plan(rng, directory, 6)
    if not plan:
        return
    elsewhere = str(tmp_path / "kept") if seed % 2 else None
    change = applied(plan, keeping=Keeping(elsewhere=elsewhere))
    if quarantine(directory).exists():
        found = read_change(str(directory), change.number)
        assert as_stored(found) == as_stored(change)
        assert read_change(str(directory), change.number, "/else").is_kept_path_given is bool(elsewhere and found.kept)


@pytest.mark.parametrize(("names", "changes_a_log"), [(("a.log",), True), (("a.index",), False), (("a.kafka",), True)])
def test_whether_a_log_changes(names: tuple[str, ...], changes_a_log: bool, tmp_path: Path) -> None:
    make(tmp_path / "orders-0", dict.fromkeys(names, b"content"))
    plan = plan_of(tmp_path / "orders-0", *(("truncate", name, 3, "is cut") for name in names))
    assert applied(plan).changes_a_log is changes_a_log


def stored(partition: Path) -> tuple[Path, dict[str, Any]]:
    (path,) = quarantine(partition).rglob("manifest.json")
    return path, json.loads(path.read_text())


def test_a_manifest_of_an_older_version(partition: Path) -> None:
    """It has the clean shutdown marker of the log directory, which is in the journal now."""
    before = contents(partition)
    applied(plan_for(partition))
    path, row = stored(partition)
    path.write_text(json.dumps(row | {"marker": {"content": "", "mtimeNs": 1, "mode": 420}, "root": "ab"}))
    undo(last_change(str(partition)))
    assert contents(partition) == before


WRONG: list[tuple[int | None, dict[str, Any]]] = [
    (None, {"version": 0}), (None, {"version": 3}), (None, {"version": "2"}), (None, {"version": None}),
    (None, {"state": "finished"}), (None, {"state": None}), (None, {"timeMs": "soon"}), (None, {"timeMs": None}),
    (None, {"undoes": "one"}), (None, {"kept": "elsewhere"}), (None, {"kept": "/var"}),
    (None, {"kept": "old/../old"}), (None, {"kept": 7}), (None, {"gaps": [[1]]}), (None, {"gaps": [["a", 2]]}),
    (None, {"gaps": None}), (None, {"after": []}), (None, {"after": {"a/b": None}}),
    (None, {"after": {"a.log": [1, 2]}}), (None, {"after": {"..": None}}), (None, {"steps": None}),
    (None, {"steps": [{}]}),
    (0, {"action": "copy"}), (0, {"file": ""}), (0, {"file": "../a.log"}), (0, {"size": None}),
    (0, {"before": [1, 2]}), (0, {"madeBy": 0}), (1, {"madeBy": 1}), (1, {"madeBy": -1}), (2, {"target": "a/b"}),
    *[(0, {"file": name}) for name in ("meta.properties", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown")],
    *[(0, {"file": name}) for name in (".lock", ".kseg-quarantine")],
    (0, {"origin": "/etc/passwd"}), (0, {"mtimeNs": "x"}), (0, {"removed": [{}]}), (0, {"removed": None}),
    (0, {"remade": [1, "x"]}), (5, {"made": None}), (4, {"remade": [1]}), (4, {"before": None}), (4, {"made": None}),
    (4, {"remade": ["x", "y"]}), (5, {"madeBy": 0}), (1, {"stored": [1]}), (1, {"stored": ["x", 1, "y"]}),
]  # fmt: skip


@pytest.mark.parametrize(("k", "values"), WRONG)
def test_wrong_values_of_the_manifest_or_a_step(k: int | None, values: dict[str, Any], partition: Path) -> None:
    applied(plan_for(partition))
    path, row = stored(partition)
    (row if k is None else row["steps"][k]).update(values)
    path.write_text(json.dumps(row))
    with pytest.raises(KsegError, match="is no manifest"):
        read_change(str(partition), 1)


def test_a_step_may_continue_an_earlier_one(partition: Path) -> None:
    applied(plan_for(partition))
    path, row = stored(partition)
    row["steps"][5] |= {"madeBy": 4}
    path.write_text(json.dumps(row))
    assert read_change(str(partition), 1).steps[5].made_by == 4
    row["steps"][5] |= {"madeBy": 1}  # which makes no file
    path.write_text(json.dumps(row))
    with pytest.raises(KsegError, match="is no manifest"):
        read_change(str(partition), 1)
    path.write_text(json.dumps(row | {"state": PREPARED}))
    found = read_manifest(str(partition), 1, str(path.parent))
    assert found is not None
    assert found.steps[5].made_by == 1
    with pytest.raises(KsegError, match="its manifest was changed"):
        read_change(str(partition), 1)  # a committed change is none that is prepared


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_the_size_of_a_manifest_is_limited(spare: int, partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the largest one that is read, so that there is space for what is added later."""
    change = applied(plan_for(partition))
    path, _ = stored(partition)
    size = path.stat().st_size
    monkeypatch.setattr(manifest, "MAX_MANIFEST_BYTES", 2 * (size + spare))
    if spare < 0:
        with pytest.raises(KsegError, match="too many steps"):
            write_change(change, Disk())
    else:
        write_change(change, Disk())
        assert as_stored(read_change(str(partition), 1)) == as_stored(change)


def test_a_manifest_that_is_missing_or_too_large(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    applied(plan_for(partition))
    path, _ = stored(partition)
    folder = str(path.parent)
    monkeypatch.setattr(manifest, "MAX_MANIFEST_BYTES", path.stat().st_size)
    assert read_manifest(str(partition), 1, folder) is not None
    monkeypatch.setattr(manifest, "MAX_MANIFEST_BYTES", path.stat().st_size - 1)
    with pytest.raises(KsegError, match=r"manifest\.json"):
        read_manifest(str(partition), 1, folder)
    path.unlink()
    assert read_manifest(str(partition), 1, folder) is None
    with pytest.raises(KsegError, match="has no manifest"):
        read_change(str(partition), 1)


def applied_elsewhere(tmp_path: Path) -> Change:
    directory = tmp_path / "others-0"
    make(directory, {"a.log": LOG})
    plan = plan_of(directory, ("delete", "a.log", "is not needed"))
    return applied(plan, keeping=Keeping(elsewhere=str(tmp_path / "kept")))


Kept = Callable[[Change], str]


@pytest.mark.parametrize(
    ("kept", "is_trusted"),
    [
        (lambda change: change.kept, True),
        (lambda change: change.kept + "0", False),
        (lambda change: change.kept.replace(f".{change.time_ms}.", f".{change.time_ms + 1}."), False),
    ],
)
def test_a_place_elsewhere_is_trusted_by_its_name(kept: Kept, is_trusted: bool, tmp_path: Path) -> None:
    change = applied_elsewhere(tmp_path)
    changed = replace(change, kept=kept(change))
    assert changed.is_kept_path_trusted is is_trusted
    assert replace(changed, is_kept_path_given=True).is_kept_path_trusted
    assert not changed.is_kept_inside
