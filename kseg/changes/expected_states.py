"""The states that each file may have before, during and after a change; any other was made by another program.

After a power cut any subset of the steps may have reached the disk, so each name is checked by itself.
"""

from typing import NamedTuple

from kseg.changes.manifest import Change
from kseg.changes.plan import DELETE, EXTEND, RENAME, FileState, file_state
from kseg.errors import KsegError


class _File(NamedTuple):
    """The file under a name."""

    inode: int
    size: int


class ChangedSinceError(KsegError):
    """A file differs from the state in the plan, and from every state that the change can leave."""


class ExpectedStates:
    """The expected states of all files of a change. None means no file.

    ``initial``: the states in the plan; ``final``: inode and size after the last step.
    """

    def __init__(self, change: Change) -> None:
        self._change = change
        self.initial: dict[str, FileState | None] = {}
        self.final: dict[str, _File | None] = {}
        self._inodes: dict[str, set[int | None]] = {}
        self._sizes: dict[int, list[tuple[int, int]]] = {}
        self._times: dict[int, tuple[int, int]] = {}
        for k in range(len(change.steps)):
            self._follow(k)

    def _follow(self, k: int) -> None:
        step, made = self._change.steps[k], self._change.made.get(k)
        self._add_name(step.file, step.before if step.made_by is None else None)
        inode = self._change.changed_inode(k)
        file = None if inode is None or step.before is None else _File(inode, step.before.size)
        if step.makes:
            file = None
            if made is not None:
                self._add_file(made)
                file = _File(made.inode, made.size)
        elif step.action == DELETE:
            file = None
        elif step.action == RENAME:
            self._add_name(step.target, None)
            self._set(step.target, file)
            file = None
        elif file is not None:  # cut or extended
            low, high = sorted((file.size, step.size))
            self._sizes[file.inode] += [(low, high)] if step.action == EXTEND else [(step.size, step.size)]
            if step.action == EXTEND:
                self._times.pop(file.inode, None)
            file = file._replace(size=step.size)
        self._set(step.file, file)

    def _add_name(self, name: str, found: FileState | None) -> None:
        if name not in self.initial:
            self.initial[name] = found
            self._set(name, _File(found.inode, found.size) if found else None)
            if found is not None:
                self._add_file(found)

    def _add_file(self, found: FileState) -> None:
        self._sizes.setdefault(found.inode, []).append((found.size, found.size))
        self._times[found.inode] = (found.size, found.mtime_ns)

    def _set(self, name: str, file: _File | None) -> None:
        self.final[name] = file
        self._inodes.setdefault(name, set()).add(file.inode if file else None)

    @property
    def names(self) -> list[str]:
        """All names that the change uses."""
        return list(self._inodes)

    def inodes(self, name: str) -> set[int]:
        """Inodes of the files that have this name at some point."""
        return {inode for inode in self._inodes[name] if inode is not None}

    @property
    def all_inodes(self) -> set[int]:
        return set(self._sizes)

    def may_have_size(self, inode: int, size: int) -> bool:
        """Whether the file has this size at some point."""
        return any(low <= size <= high for low, high in self._sizes[inode])

    def may_have_time(self, inode: int, now: FileState) -> bool:
        """Whether the modification time is the expected one, if the file has the size that this time belongs to."""
        size, mtime_ns = self._times.get(inode, (-1, 0))
        return now.size != size or now.mtime_ns == mtime_ns

    def has_time(self, inode: int, now: FileState) -> bool:
        """Whether size and modification time are the expected ones."""
        return self._times.get(inode) == now[1:]

    def check_initial(self) -> None:
        """Raises ChangedSinceError unless all files are in their initial state, OSError if one cannot be examined."""
        for name, found in self.initial.items():
            if file_state(self._change.path(name)) != found:
                raise ChangedSinceError(f"{self._change.path(name)}: has changed since it was read")

    def check_intermediate(self) -> None:
        """Raises ChangedSinceError if a file is in a state that no step expects or leaves."""
        for name, inodes in self._inodes.items():
            now = file_state(self._change.path(name))
            if (now.inode if now else None) not in inodes or (now is not None and not self._is_known(now)):
                raise ChangedSinceError(
                    f"{self._change.path(name)}: was changed by another program during {self._change.command!r}"
                )

    def _is_known(self, now: FileState) -> bool:
        return self.may_have_size(now.inode, now.size) and self.may_have_time(now.inode, now)

    def check_final(self) -> dict[str, FileState | None]:
        """Returns the current state of each name. Raises ChangedSinceError if one differs from the final state."""
        after = {}
        for name, file in self.final.items():
            now = after[name] = file_state(self._change.path(name))
            if (None if now is None else _File(now.inode, now.size)) != file:
                raise ChangedSinceError(
                    f"{self._change.path(name)}: was changed by another program during {self._change.command!r}"
                )
        return after
