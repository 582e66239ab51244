"""Moves new content that is too large for memory to an unnamed temporary file, mapped until the plan is applied."""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kseg.changes.plan import Content, Piece, Pieces
from kseg.errors import KsegError


@dataclass(frozen=True, slots=True)
class File:
    """``origin``: the real file whose first ``size`` bytes these are; None for new content made of ``pieces``."""

    origin: str | None
    size: int
    pieces: Pieces = ()


def spill(files: Mapping[str, File]) -> dict[str, File]:
    """Moves the content of files in memory to one temporary file, which is removed together with the last of them.

    Returns the files that were changed. Raises KsegError if TMPDIR has too little space."""
    import tempfile  # most partitions don't need one

    held = {
        name: file
        for name, file in files.items()
        if not isinstance(file.pieces, Content) and any(isinstance(piece, bytes) for piece in file.pieces)
    }
    if not held:
        return {}
    try:
        with tempfile.TemporaryFile() as store:
            for file in held.values():
                store.writelines(piece for piece in file.pieces if isinstance(piece, bytes))
            store.flush()
            mapped = memoryview(mmap.mmap(store.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        directory = f"{tempfile.gettempdir()}: {error.strerror or error}"
        raise KsegError(f"{directory}: temporary directory for new indexes (TMPDIR)") from error
    found, at = {}, 0
    for name, file in held.items():
        pieces: list[Piece] = []
        for piece in file.pieces:
            if isinstance(piece, bytes):
                at += len(piece)
                pieces.append(mapped[at - len(piece) : at])
            else:
                pieces.append(piece)
        found[name] = replace(file, pieces=tuple(pieces))
    return found
