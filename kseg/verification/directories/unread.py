"""Reports files that cannot be checked: compressed, unreadable, or not regular."""

import stat

from kseg.errors import text_of
from kseg.segment.file_types import packing_of, read_head
from kseg.stores import trees
from kseg.stores.regular_files import LINK
from kseg.stores.source import Source
from kseg.stores.trees import Tree
from kseg.verification.report import Report


def packed(source: Source) -> str | None:
    """Returns how a file that is not checked is compressed; None if it is not compressed. Raises PathError."""
    packing = packing_of(read_head(source))
    if packing is None:
        return None
    return f"packed with {packing}, and not judged: give its own path, of a copy outside of any other archive"


def add_unread(path: str, reason: str, report: Report) -> None:
    """Reports a file that could not be opened."""
    report.add("unreadable-file", path, reason, details={"reason": reason})
    report.totals.not_judged += 1


def add_unread_for(path: str, error: BaseException, report: Report) -> None:
    """Reports a file that could not be opened because of an error, whose message may begin with the path."""
    add_unread(path, text_of(error).removeprefix(f"{path}: "), report)


def why_no_file(path: str) -> str:
    """Returns why a path cannot be read as a file."""
    try:
        mode = trees.status(path).st_mode
        if trees.islink(path):
            return LINK
    except FileNotFoundError:
        return "a link that leads nowhere"
    except OSError as error:
        return error.strerror or str(error)
    for is_kind, name in (
        (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    ):  # fmt: skip
        if is_kind(mode):
            return f"{name}, not a file"
    return "not a regular file"


def add_archive(path: str, tree: Tree, report: Report) -> None:
    """Reports damage to an archive or compressed file itself."""
    for problem in tree.problems:
        report.add(problem.code, path, problem.message, problem.position)
        report.totals.not_judged += problem.is_unread
