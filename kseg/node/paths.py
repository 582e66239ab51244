"""Expands PATHs that stand for a node: a broker's configuration, or the directory that holds its log directories."""

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from kseg.errors import KsegError, PathError
from kseg.segment.files import LOG_DIRECTORY_FILES, holds_segments, regular_and_other_names
from kseg.segment.paths import is_log_directory
from kseg.stores.place import Place

if TYPE_CHECKING:
    from kseg.node.server_properties import ServerProperties

_SUFFIX = ".properties"


def configuration_at(path: str) -> "ServerProperties | None":
    """Returns the broker's configuration at a path; None if it is none: a file that names log directories. Raises
    PathError for that of a node that names none, as Kafka's default is a directory of the machine it runs on."""
    name = os.path.basename(path)
    if not name.endswith(_SUFFIX):
        return None
    # Only here: most PATHs are none, and a small dump must not pay for the imports.
    from kseg.node.server_properties import read_server_properties
    from kseg.sidefiles.text_files import META_PROPERTIES

    if name == META_PROPERTIES or not Place(path).is_file():
        return None
    found = read_server_properties(path)
    if not found.directories and (found.node_id is not None or found.roles):
        raise PathError(f"{path}: names no log directory: give the log directories of the node")
    return found if found.directories else None


def expanded(paths: Iterable[str]) -> list[str]:
    """Returns the PATHs; those that stand for a node are replaced by its log directories. Raises PathError if a
    configuration cannot be read."""
    return [each for path in paths for each in _expanded(path)]


def _expanded(path: str) -> list[str]:
    if (server := configuration_at(path)) is not None:
        return server.directories
    try:
        if Place(path).is_dir() and not holds_segments(path) and not is_log_directory(path):
            return [*_log_directories_in(path)] or [path]
    except KsegError:
        pass  # whoever reads the path reports the error
    return [path]


def _log_directories_in(path: str) -> list[Place]:
    """Returns the log directories that lie in a directory, by their own files; no links. Raises PathError."""
    inside = (Place(path) / name for name in sorted(regular_and_other_names(path)[1]))
    found = []
    for each in inside:
        if each.is_dir() and not each.is_link():
            with suppress(PathError):
                if not LOG_DIRECTORY_FILES.isdisjoint(regular_and_other_names(each)[0]):
                    found.append(each)
    return found
