"""Partition directories that a broker has set aside (-delete, -stray, -future), and the names that they get back.

A broker removes -delete directories when it starts. It sets a log aside as -stray if its topic id is not in the
cluster's metadata, and begins an empty log in its place if there is a topic of that name.
"""

import os
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

from kseg.errors import KsegError, PathError
from kseg.segment.files import list_segments, own_name
from kseg.stores import trees


class Return(NamedTuple):
    """``path`` becomes ``name`` in its log directory; the empty directory of that name, if any, becomes ``aside``."""

    path: str
    name: str
    aside: str = ""


def is_moved(path: str) -> bool:
    """Whether a broker has renamed a partition directory."""
    return own_name(path) != os.path.basename(os.path.abspath(path))


def returns(paths: Sequence[str], is_copy: bool) -> tuple[list[Return], list[tuple[str, KsegError]]]:
    """Returns the directories among ``paths`` that can have their names back, and the error of each other one.

    A directory without records is neither. ``is_copy``: they get the names in an output, with all of ``paths``.
    """
    found: list[Return] = []
    errors: list[tuple[str, KsegError]] = []
    moved = [path for path in paths if is_moved(path) and has_records(path)]
    names = Counter(own_name(path) for path in moved)
    for path in moved:
        name = own_name(path)
        target = os.path.join(os.path.dirname(os.path.abspath(path)), name)
        if names[name] > 1:
            text = f"{path}: {names[name]} directories were {name}: name the one to take back"
            errors.append((path, PathError(text)))
        elif not (target in paths if is_copy else trees.lexists(target)):
            found.append(Return(path, name))
        elif trees.islink(target) or not trees.isdir(target) or has_records(target):
            text = f"{path}: {name} is there and holds records: take it back under another name, with --output and --as"
            errors.append((path, PathError(text)))
        else:
            found.append(Return(path, name, f"{name}.{uuid4().hex}-delete"))
    return found, errors


def has_records(path: str) -> bool:
    """Whether a partition directory has a segment that is not empty, deleted ones included."""
    return any(trees.status(file.path).st_size for file in list_segments(path, everything=True))
