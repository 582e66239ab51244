"""Paths whose content does not lie there, or not as readers want it: it is handed over here instead.

The side files of a segment in remote storage are parts of one object, and its log is stored in chunks. Readers of a
segment and of the files beside it open both under the paths that they have in LocalTieredStorage.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_sources: dict[str, Callable[[], Any]] = {}
_contents: dict[str, Callable[[], bytes]] = {}


@contextmanager
def given_files(
    sources: Mapping[str, Callable[[], Any]], contents: Mapping[str, Callable[[], bytes]]
) -> Iterator[None]:
    """``sources`` open the log at a path (`kseg.stores.source.Source`); ``contents`` return the bytes of a small file,
    or raise OSError."""
    _sources.update(sources)
    _contents.update(contents)
    try:
        yield
    finally:
        for path in sources:
            _sources.pop(path, None)
        for path in contents:
            _contents.pop(path, None)


def given_source(path: str) -> Any:
    """Returns the source that was handed over for a path, None for other paths."""
    opener = _sources.get(path)
    return None if opener is None else opener()


def given_descriptor(path: str) -> int:
    """Returns a descriptor of an unnamed file with the content handed over for a path; -1 for other paths.

    Raises OSError.
    """
    content = _contents.get(path)
    if content is None:
        return -1
    import tempfile  # a dump of plain files does not need it

    with tempfile.TemporaryFile() as file:
        file.write(content())
        file.seek(0)
        return os.dup(file.fileno())
