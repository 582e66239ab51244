"""File names in text output: written as Kafka's tools write them, and safe to print on a terminal."""

import os
import re

from kseg.output.notices import on_one_line


def as_java_writes(path: str) -> str:
    """Returns a path as java.io.File prints it: without doubled or trailing slashes."""
    return re.sub("/+", "/", path).rstrip("/") or "/"


def name_bytes(path: str, escape: bool) -> bytes:
    """Returns the bytes of a name; with ``escape``, control characters become backslash escapes."""
    return on_one_line(path).encode() if escape else os.fsencode(path)
