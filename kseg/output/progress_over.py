"""Progress over the bytes of all segments that some PATHs stand for."""

import os
from collections.abc import Callable, Sequence

from kseg.errors import KsegError
from kseg.output.progress import Progress
from kseg.segment.paths import expand_path, segments_at
from kseg.segment.source import STANDARD_INPUT


def progress_over(
    paths: Sequence[str],
    quiet: bool,
    everything: bool = False,
    parts_of: Callable[[str], list[str]] = expand_path,
) -> Progress:
    """Not yet begun; with ``everything`` leftovers are counted too. Looks at no file where nobody watches.

    ``parts_of`` gives the partitions and files that a path stands for.
    """
    progress = Progress(None, quiet)
    if progress.is_on:
        progress.total = _total_bytes(paths, everything, parts_of)
    return progress


def _total_bytes(paths: Sequence[str], everything: bool, parts_of: Callable[[str], list[str]]) -> int | None:
    """Bytes of all segments that the paths stand for; None where one cannot be told."""
    total = 0
    for path in paths:
        if path == STANDARD_INPUT:
            return None
        try:
            total += sum(
                os.path.getsize(file.path) for part in parts_of(path) for file in segments_at(part, everything)
            )
        except (KsegError, OSError):
            return None  # the pass over it will say why
    return total
