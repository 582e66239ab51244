"""Progress over the bytes of all segments of some PATHs."""

from collections.abc import Callable, Sequence

from kseg.errors import KsegError
from kseg.output.progress import Progress
from kseg.segment.paths import expand_path, segment_bytes
from kseg.stores.source import STANDARD_INPUT


def progress_over(
    paths: Sequence[str],
    quiet: bool,
    everything: bool = False,
    parts_of: Callable[[str], list[str]] = expand_path,
) -> Progress:
    """Returns the progress, not started yet. With ``everything``, leftover files count, too.

    Reads no sizes if progress is not shown. ``parts_of`` returns the partitions and files of a path.
    """
    progress = Progress(None, quiet)
    if progress.is_on:
        progress.total = _total_bytes(paths, everything, parts_of)
    return progress


def _total_bytes(paths: Sequence[str], everything: bool, parts_of: Callable[[str], list[str]]) -> int | None:
    """Returns the total size of the segments of the paths; None if one is unknown."""
    total = 0
    for path in paths:
        if path == STANDARD_INPUT:
            return None
        try:
            total += sum(segment_bytes(part, everything) for part in parts_of(path))
        except (KsegError, OSError):
            return None  # reading the path will report the error
    return total
