"""Checks that the output of a conversion fits on the disk: by an estimate, and if that is too large, by a dry run."""

from kseg.changes.apply import MARGIN_BYTES, check_free, free_bytes
from kseg.conversion.request import ConversionRequest
from kseg.conversion.rewriting import rewrite
from kseg.segment.files import SegmentFile
from kseg.stores import trees

_SAME, _OTHER_FORMAT, _EXPANDED = 1.25, 4, 30
"""Estimated largest growth of segments: with a worse codec, from messages to batches, without compression."""


def check_space_to_rewrite(
    path: str, name: str, files: list[SegmentFile], directory: str | None, request: ConversionRequest
) -> None:
    """Raises KsegError if new segments for all of ``files`` do not fit into the file system of ``path``.

    The other arguments are those of `rewrite`, whose errors can be raised, too.
    """
    growth: float = _SAME if request.magic is None and request.batch_bytes is None else _OTHER_FORMAT
    if request.target is not None and not request.target.codec:
        growth = _EXPANDED
    size = sum(trees.getsize(file.path) for file in files if trees.isfile(file.path))
    if size * growth + MARGIN_BYTES <= free_bytes(path):
        return
    check_free(path, sum(rewrite(name, files, directory, request, None).files.values()))
