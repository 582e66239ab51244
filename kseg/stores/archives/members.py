"""The members of an archive as a tree of names; nothing is ever written under them."""

import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from kseg.stores.trees import DIRECTORY, FILE, LINK, OTHER, ArchiveProblem, Node

MAX_MEMBERS = 1 << 20
"""Largest number of members: a broker with 4,000 partitions of 50 segments has as many files."""
_MAX_NAME_BYTES = 4096
_MAX_DEPTH = 64
_MAX_PROBLEMS = 1000

DAMAGED, SKIPPED = "damaged-archive", "archive-member-skipped"


class Member(NamedTuple):
    """``kind`` as in `Node`. ``position``: start of the header; ``start``: start of a file's bytes; ``data``: how they
    are stored, as the archive's format defines; ``target``: the name to which a link refers.
    """

    kind: int
    position: int = 0
    start: int = 0
    size: int = 0
    modified_ns: int = 0
    data: object = None
    target: str = ""


_Folder = dict[str, "Member | _Folder"]


class Members:
    """All members by path. ``problems``: skipped members, and damage."""

    def __init__(self) -> None:
        self._root: _Folder = {}
        self._count = 0
        self.problems: list[ArchiveProblem] = []
        self._hard_links: list[tuple[str, Member]] = []

    def add(self, name: str, member: Member) -> None:
        """Adds a member under the name that the archive gives. A later one of the same name replaces an earlier one."""
        self._count += 1
        parts = self._parts(name, member)
        if parts is None:
            return
        if member.target and member.kind == FILE:
            self._hard_links.append(("/".join(parts), member))
            return
        self._put(parts, member)

    def finish(self) -> None:
        """Resolves hard links, which may come before the files to which they refer."""
        for name, link in self._hard_links:
            target = self._parts(link.target, link)
            found = None if target is None else self.at("/".join(target))
            if not isinstance(found, Member) or found.kind != FILE:
                self.skip(link, f"{_shown(name)}: a hard link to {_shown(link.target)}, which is not in the archive")
                continue
            self._put(name.split("/"), found._replace(position=link.position))
        self._hard_links = []

    @property
    def is_full(self) -> bool:
        return self._count >= MAX_MEMBERS

    def skip(self, member: Member, message: str) -> None:
        """Records a member that cannot be read."""
        self.problem(ArchiveProblem(SKIPPED, member.position, message, True))

    def problem(self, problem: ArchiveProblem) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem)
        elif problem.code == DAMAGED:
            self.problems[-1] = problem

    def _parts(self, name: str, member: Member) -> list[str] | None:
        """Returns the components of a name; None if it is not safe, which is recorded."""
        if "\0" in name or len(name) > _MAX_NAME_BYTES:
            self.skip(member, f"{_shown(name)}: not a usable name")
            return None
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or len(parts) > _MAX_DEPTH:
            reason = "leads out of the archive" if ".." in parts else "too many directories"
            self.skip(member, f"{_shown(name)}: {reason}")
            return None
        return parts

    def _put(self, parts: list[str], member: Member) -> None:
        folder = self._root
        for part in parts[:-1]:
            inner = folder.setdefault(part, {})
            if isinstance(inner, Member):
                self.skip(member, f"{_shown('/'.join(parts))}: is below a file")
                return
            folder = inner
        if not parts:
            return
        name, path = parts[-1], "/".join(parts)
        found = folder.get(name)
        if member.kind == DIRECTORY:
            if isinstance(found, Member):
                self.skip(member, f"{_shown(path)}: a directory of the same name as a file")
            else:
                folder.setdefault(name, {})
            return
        if isinstance(found, dict):
            self.skip(member, f"{_shown(path)}: of the same name as a directory")
            return
        if found is not None:
            self.skip(found, f"{_shown(path)}: is in the archive more than once; the last one is read")
        if member.kind == OTHER:
            self.skip(member, f"{_shown(path)}: a device or another special file")
        folder[name] = member

    def at(self, inner: str) -> "Member | _Folder | None":
        """Returns the member or directory at a path, None if there is none."""
        found: Member | _Folder | None = self._root
        for part in inner.split("/") if inner else ():
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def node(self, inner: str) -> Node | None:
        found = self.at(inner)
        return None if found is None else _node(found)

    def nodes(self, inner: str) -> Iterable[tuple[str, Node]]:
        found = self.at(inner)
        return [(name, _node(member)) for name, member in found.items()] if isinstance(found, dict) else []


def _node(found: "Member | _Folder") -> Node:
    if isinstance(found, dict):
        return Node(DIRECTORY, number=id(found))
    return Node(found.kind, found.size, found.modified_ns, found.position + 1)


def _shown(name: str) -> str:
    """Returns a name for a message, shortened."""
    return repr(name if len(name) < 200 else posixpath.basename(name)[:200])


__all__ = ["DAMAGED", "DIRECTORY", "FILE", "LINK", "MAX_MEMBERS", "OTHER", "SKIPPED", "Member", "Members"]
