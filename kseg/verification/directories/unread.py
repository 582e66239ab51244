"""Reports files that cannot be checked: compressed ones, unreadable ones, and other than regular files."""

import os
import shlex
import stat

from kseg.segment.file_types import is_packed_segment, packing_of, read_head
from kseg.stores.regular_files import LINK
from kseg.stores.source import Source
from kseg.verification.report import Report


def tell_packed(source: Source, name: str, report: Report) -> bool:
    """Reports a file if it is a compressed segment. Returns whether it is one. Raises PathError."""
    text = packed(source)
    if text is not None and not is_packed_segment(name, read_head(source)):
        return False
    if text is not None:
        report.add("packed-segment", source.path, text)
        report.totals.not_judged += 1
    return text is not None


def packed(source: Source) -> str | None:
    """Returns how a file is compressed and the command to check it; None if it is not compressed. Raises PathError."""
    packing = packing_of(read_head(source))
    if packing is None:
        return None
    path = "" if source.path == "-" else " " + shlex.quote(source.path)
    return f"packed with {packing.name}; {packing.unpack}{path} | kseg verify - judges what is in it"


def tell_unread(path: str, reason: str, report: Report) -> None:
    """Reports a file that could not be opened."""
    report.add("unreadable-file", path, reason, details={"reason": reason})
    report.totals.not_judged += 1


def why_no_file(path: str) -> str:
    """Returns why a path cannot be read as a file."""
    try:
        mode = os.stat(path).st_mode
        if os.path.islink(path):
            return LINK
    except FileNotFoundError:
        return "a link that leads nowhere"
    except OSError as error:
        return error.strerror or str(error)
    for is_kind, what in (
        (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    ):  # fmt: skip
        if is_kind(mode):
            return f"{what}, not a file"
    return "not a regular file"
