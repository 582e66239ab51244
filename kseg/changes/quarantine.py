"""Where changes are kept: `<partition>/.kseg-quarantine/N/`, a subdirectory, which brokers ignore.

    manifest.json   the change: state, steps, what was removed and why
    new/K           content of step K that is not yet in place
    old/K           what step K took away: a file, or the tail that was cut off

A directory N without a manifest is a change that never began. States: ``committed`` (to be rolled forward), ``done``,
``undoing`` (to be rolled on until all is back), ``abandoned`` (the files were changed by someone else since).
"""

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

from kseg.changes.disk import Disk
from kseg.changes.plan import Plan, Removed, Seen, Step
from kseg.errors import KsegError

FOLDER = ".kseg-quarantine"
MANIFEST = "manifest.json"
COMMITTED, DONE, UNDOING, ABANDONED = "committed", "done", "undoing", "abandoned"
_STATES = (COMMITTED, DONE, UNDOING, ABANDONED)
_HASH_BYTES = 4 << 20


@dataclass(slots=True)
class Change:
    """One change that was begun. ``folder`` is its directory, ``kept`` where its old bytes lie ("" if not kept).

    ``after`` is what each step left, for those that are done: None where no file is left.
    """

    number: int
    folder: str
    directory: str
    state: str
    command: str
    time_ms: int
    kept: str
    steps: list[Step]
    gaps: list[tuple[int, int]]
    digests: dict[int, list[str]]
    after: dict[int, Seen | None]

    def old(self, k: int) -> str:
        return os.path.join(self.kept, str(k))

    def new(self, k: int) -> str:
        return os.path.join(self.folder, "new", str(k))

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    @property
    def kept_bytes(self) -> int:
        return sum(step.freed_bytes for step in self.steps) if self.kept else 0


def folder_of(directory: str) -> str:
    return os.path.join(directory, FOLDER)


def numbers(directory: str) -> list[int]:
    """Numbers of all changes of a partition, begun or not, rising."""
    try:
        names = os.listdir(folder_of(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)


def changes(directory: str) -> list[Change]:
    """The changes of a partition that have a manifest, oldest first. Raises KsegError where one cannot be read."""
    found = (read_change(directory, number) for number in numbers(directory))
    return [change for change in found if change is not None]


def pending(directory: str) -> list[Change]:
    """Changes that were begun and not ended."""
    return [change for change in changes(directory) if change.state in (COMMITTED, UNDOING)]


def unbegun(directory: str) -> list[int]:
    """Numbers of changes that were being prepared when something stopped them: nothing was changed."""
    folder = folder_of(directory)
    return [n for n in numbers(directory) if not os.path.exists(os.path.join(folder, str(n), MANIFEST))]


def write_change(change: Change, disk: Disk) -> None:
    """Puts the manifest in place, whole, and makes that lasting."""
    path = os.path.join(change.folder, MANIFEST)
    disk.write_file(path + ".tmp", json.dumps(_row(change), indent=1).encode())
    disk.rename(path + ".tmp", path)
    disk.sync_directory(change.folder)


def digest(path: str, position: int, length: int) -> str:
    """SHA-256 of a range of a file, in hex; of what is there where the file is shorter."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        file.seek(position)
        while length > 0 and (data := file.read(min(length, _HASH_BYTES))):
            found.update(data)
            length -= len(data)
    return found.hexdigest()


def _row(change: Change) -> dict[str, Any]:
    return {
        "version": 1,
        "state": change.state,
        "command": change.command,
        "timeMs": change.time_ms,
        "kept": os.path.relpath(change.kept, change.folder) if _is_inside(change) else change.kept,
        "gaps": [list(gap) for gap in change.gaps],
        "steps": [_step_row(change, k, step) for k, step in enumerate(change.steps)],
    }


def _is_inside(change: Change) -> bool:
    return bool(change.kept) and os.path.dirname(change.kept) == change.folder


def _step_row(change: Change, k: int, step: Step) -> dict[str, Any]:
    digests = change.digests.get(k, [])
    row: dict[str, Any] = {"action": step.action, "file": step.file, "reason": step.reason, "size": step.size}
    row["before"] = list(step.before) if step.before else None
    if step.target:
        row["target"] = step.target
    if k in change.after:
        after = change.after[k]
        row["after"] = list(after) if after else None
    row["removed"] = [
        {
            "position": removed.position,
            "length": removed.length,
            "reason": removed.reason,
            "firstOffset": removed.first_offset,
            "lastOffset": removed.last_offset,
            "records": removed.records,
            "sha256": digests[i] if i < len(digests) else None,
        }
        for i, removed in enumerate(step.removed)
    ]
    return row


def read_change(directory: str, number: int) -> Change | None:
    """A change by its number; None where it has no manifest. Raises KsegError where that is no manifest of ours."""
    folder = os.path.join(folder_of(directory), str(number))
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, "rb") as file:
            row = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise KsegError(f"{path}: cannot be read: {error}") from error
    try:
        return _change(directory, number, folder, row)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise KsegError(f"{path}: is no manifest that this release of kseg understands ({error!r})") from error


def _change(directory: str, number: int, folder: str, row: dict[str, Any]) -> Change:
    if row["version"] != 1 or row["state"] not in _STATES:
        raise ValueError(row["state"])
    steps, digests, after = [], {}, {}
    for k, item in enumerate(row["steps"]):
        for name in (item["file"], item.get("target", "x")):
            if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
                raise ValueError(name)
        removed = tuple(
            Removed(r["position"], r["length"], r["reason"], r["firstOffset"], r["lastOffset"], r["records"])
            for r in item["removed"]
        )
        before = Seen(*map(int, item["before"])) if item["before"] else None
        steps.append(
            Step(item["action"], item["file"], item["reason"], before, int(item["size"]), item.get("target", ""),
                 removed=removed)
        )  # fmt: skip
        digests[k] = [r["sha256"] for r in item["removed"]]
        if "after" in item:
            after[k] = Seen(*map(int, item["after"])) if item["after"] else None
    kept = os.path.join(folder, row["kept"]) if row["kept"] else ""
    gaps = [(int(first), int(last)) for first, last in row["gaps"]]
    return Change(
        number, folder, directory, row["state"], str(row["command"]), int(row["timeMs"]), kept, steps, gaps, digests,
        after,
    )  # fmt: skip


def new_change(plan: Plan, command: str, time_ms: int, elsewhere: str | None, keeps: bool) -> Change:
    """A change to be prepared, with the next free number. ``elsewhere``: a directory for the bytes that are kept."""
    taken = numbers(plan.directory)
    number = taken[-1] + 1 if taken else 1
    folder = os.path.join(folder_of(plan.directory), str(number))
    kept = ""
    if keeps:
        name = f"{os.path.basename(os.path.abspath(plan.directory))}.{number}.{time_ms}"
        kept = os.path.join(os.path.abspath(elsewhere), name) if elsewhere else os.path.join(folder, "old")
    return Change(
        number, folder, plan.directory, COMMITTED, command, time_ms, kept, list(plan.steps), list(plan.gaps), {}, {}
    )
