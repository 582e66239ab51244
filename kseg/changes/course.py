"""What lies under each name of a change at its start, on its way and at its end: how someone else's work is noticed.

A power cut may leave any mixture of steps that are taken and steps that are not, so names are judged one by one.
"""

from kseg.changes.manifest import Change
from kseg.changes.plan import DELETE, EXTEND, RENAME, Seen, seen
from kseg.errors import KsegError

_Held = tuple[int, int]
"""Inode and size."""


class ChangedSinceError(KsegError):
    """A file is not as it was when the plan was made, or as a change in the middle or at its end has it."""


class Course:
    """``initial``: the files as the plan saw them; ``final``: inode and size at the end; None for no file."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self.initial: dict[str, Seen | None] = {}
        self.final: dict[str, _Held | None] = {}
        self._inodes: dict[str, set[int | None]] = {}
        self._sizes: dict[int, list[tuple[int, int]]] = {}
        self._times: dict[int, tuple[int, int]] = {}
        for k in range(len(change.steps)):
            self._follow(k)

    def _follow(self, k: int) -> None:
        step, made = self._change.steps[k], self._change.made.get(k)
        self._mention(step.file, step.before if step.made_by is None else None)
        inode = self._change.subject(k)
        held: _Held | None = None if inode is None or step.before is None else (inode, step.before.size)
        if step.makes:
            held = None
            if made is not None:
                self._mention_file(made)
                held = made.inode, made.size
        elif step.action == DELETE:
            held = None
        elif step.action == RENAME:
            self._mention(step.target, None)
            self._hold(step.target, held)
            held = None
        elif held is not None:  # cut or extended
            low, high = sorted((held[1], step.size))
            self._sizes[held[0]] += [(low, high)] if step.action == EXTEND else [(step.size, step.size)]
            if step.action == EXTEND:
                self._times.pop(held[0], None)
            held = held[0], step.size
        self._hold(step.file, held)

    def _mention(self, name: str, found: Seen | None) -> None:
        if name not in self.initial:
            self.initial[name] = found
            self._hold(name, (found.inode, found.size) if found else None)
            if found is not None:
                self._mention_file(found)

    def _mention_file(self, found: Seen) -> None:
        self._sizes.setdefault(found.inode, []).append((found.size, found.size))
        self._times[found.inode] = (found.size, found.mtime_ns)

    def _hold(self, name: str, held: _Held | None) -> None:
        self.final[name] = held
        self._inodes.setdefault(name, set()).add(held[0] if held else None)

    @property
    def names(self) -> list[str]:
        """All names that the change uses."""
        return list(self._inodes)

    def inodes(self, name: str) -> set[int]:
        """Of the files that lie under a name at some time."""
        return {inode for inode in self._inodes[name] if inode is not None}

    @property
    def all_inodes(self) -> set[int]:
        return set(self._sizes)

    def may_have_size(self, inode: int, size: int) -> bool:
        """Whether a file has that size at some time."""
        return any(low <= size <= high for low, high in self._sizes[inode])

    def may_have_time(self, inode: int, now: Seen) -> bool:
        """Whether a file that is seen now with a size of its was last written when it should have been."""
        size, mtime_ns = self._times.get(inode, (-1, 0))
        return now.size != size or now.mtime_ns == mtime_ns

    def check_initial(self) -> None:
        """Raises ChangedSinceError unless all files are as the plan saw them, OSError where one cannot be looked at."""
        for name, found in self.initial.items():
            if seen(self._change.path(name)) != found:
                raise ChangedSinceError(f"{self._change.path(name)}: has changed since it was looked at")

    def check_on_the_way(self) -> None:
        """Raises ChangedSinceError where a file is as no step finds or leaves it."""
        for name, inodes in self._inodes.items():
            now = seen(self._change.path(name))
            if (now.inode if now else None) not in inodes or (now is not None and not self._is_known(now)):
                raise ChangedSinceError(
                    f"{self._change.path(name)}: was changed by someone else in the middle of {self._change.command!r}"
                )

    def _is_known(self, now: Seen) -> bool:
        return self.may_have_size(now.inode, now.size) and self.may_have_time(now.inode, now)

    def check_final(self) -> dict[str, Seen | None]:
        """What lies under each name now; raises ChangedSinceError unless that is what the last step leaves."""
        after = {}
        for name, held in self.final.items():
            now = after[name] = seen(self._change.path(name))
            if (None if now is None else (now.inode, now.size)) != held:
                raise ChangedSinceError(
                    f"{self._change.path(name)}: was changed by someone else in the middle of {self._change.command!r}"
                )
        return after
