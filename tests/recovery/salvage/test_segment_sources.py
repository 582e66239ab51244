"""The files that salvage removes because a broker would remove them, or would not start."""

from pathlib import Path

from kseg.recovery.salvage.segment_sources import remove_broker_leftovers
from kseg.recovery.workspace import Workspace

STEM = f"{7:020d}"
REMOVED = {
    f"{STEM}.log.deleted": "was to be deleted",
    f"{STEM}.index.swap": "was left by an unfinished cleaning, and has no batches",
    f"{STEM}.log.cleaned": "was left by an unfinished cleaning, and has no batches",
    "7.index": "belongs to no segment",
    f"{STEM}.old.timeindex": "belongs to no segment",
    f"{'x' * 20}.index": "belongs to no segment",
    f"{'9' * 20}.index": "belongs to no segment",
}
CHOSEN = f"{8:020d}.log.swap"
KEPT = (f"{STEM}.index", f"{STEM}.timeindex", f"{STEM}.log", "leader-epoch-checkpoint", "notes.txt", CHOSEN)


def test_leftovers_are_removed_and_indexes_of_segments_stay(tmp_path: Path) -> None:
    for name in (*REMOVED, *KEPT):
        (tmp_path / name).write_bytes(b"")
    workspace = Workspace(str(tmp_path))
    remove_broker_leftovers(workspace, {CHOSEN})
    assert sorted(workspace.files) == sorted(KEPT)
    assert {step.file: step.reason for step in workspace.plan().steps} == REMOVED
