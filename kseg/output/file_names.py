"""Names of files in text: as Kafka's tools write them, and harmless where a terminal reads them."""

import os
import re

from kseg.output.notices import on_one_line


def as_java_writes(path: str) -> str:
    """A path as java.io.File shows it: no doubled and no last slash."""
    return re.sub("/+", "/", path).rstrip("/") or "/"


def name_bytes(path: str, escape: bool) -> bytes:
    """The bytes of a name; with ``escape``, control characters as backslash escapes."""
    return on_one_line(path).encode() if escape else os.fsencode(path)
