"""Partition directories that a broker has renamed (-delete, -stray, -future), and their restored names.

A broker removes -delete directories when it starts. It renames a log to -stray if its topic id is not in the
cluster's metadata, and creates an empty log if there is a topic of that name.
"""

import os
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

from kseg.errors import KsegError, PathError
from kseg.segment.files import list_segments, own_name
from kseg.stores import trees


class DirectoryRestore(NamedTuple):
    """``path`` is renamed to ``name``, and an empty directory that has this name to ``displaced``."""

    path: str
    name: str
    displaced: str = ""


def is_renamed_directory(path: str) -> bool:
    """Whether a broker has renamed a partition directory."""
    return own_name(path) != os.path.basename(os.path.abspath(path))


def plan_restores(paths: Sequence[str], is_copy: bool) -> tuple[list[DirectoryRestore], list[tuple[str, KsegError]]]:
    """Returns the renames of directories among ``paths``, and the errors of others; empty directories are skipped.

    ``is_copy``: the names are those in an output, with all of ``paths``.
    """
    found: list[DirectoryRestore] = []
    errors: list[tuple[str, KsegError]] = []
    moved = [path for path in paths if is_renamed_directory(path) and has_records(path)]
    names = Counter(own_name(path) for path in moved)
    for path in moved:
        name = own_name(path)
        target = os.path.join(os.path.dirname(os.path.abspath(path)), name)
        if names[name] > 1:
            text = f"{path}: {names[name]} directories were {name}: name the one to restore"
            errors.append((path, PathError(text)))
        elif not (target in paths if is_copy else trees.lexists(target)):
            found.append(DirectoryRestore(path, name))
        elif trees.islink(target) or not trees.isdir(target) or has_records(target):
            text = f"{path}: {name} is there and holds records: take it back under another name, with --output and --as"
            errors.append((path, PathError(text)))
        else:
            found.append(DirectoryRestore(path, name, f"{name}.{uuid4().hex}-delete"))
    return found, errors


def has_records(path: str) -> bool:
    """Whether a partition directory has a segment that is not empty, deleted ones included."""
    return any(trees.status(file.path).st_size for file in list_segments(path, everything=True))
