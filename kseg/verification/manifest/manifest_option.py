"""``kseg verify --manifest FILE``: FILE is checked if it exists, and written if not."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kseg.errors import RequestError
from kseg.quantities import shown_bytes
from kseg.stores.source import STANDARD_INPUT
from kseg.verification.manifest.manifest import ReadOptions, check_manifest, write_manifest
from kseg.verification.report import Report
from kseg.verification.settings import Advance, CheckSettings

_STANDARD_OUTPUT = "-"


class ManifestOutput(Protocol):
    """A sequential output."""

    def write(self, data: bytes) -> None: ...


OpenOutput = Callable[[str], AbstractContextManager[ManifestOutput]]
"""Opens a new file that appears, complete, when the block ends without an error."""


def check_manifest_path(manifest: str, paths: Sequence[str]) -> None:
    """Raises RequestError if the manifest cannot be written to its path, or the paths cannot have one."""
    if manifest == _STANDARD_OUTPUT:
        raise RequestError("--manifest needs the name of a file")
    if STANDARD_INPUT in paths:
        raise RequestError("--manifest is of files, not of standard input")
    if os.path.lexists(manifest):
        return
    folder = os.path.realpath(os.path.dirname(manifest) or ".")
    for path in filter(os.path.isdir, paths):
        if os.path.commonpath([folder, os.path.realpath(path)]) == os.path.realpath(path):
            raise RequestError(f"nothing is written into {path}: keep the manifest elsewhere")


def _differences(report: Report) -> int:
    """Returns the number of findings so far about differences from a manifest."""
    return sum(count for code, count in report.totals.codes.items() if code.startswith("manifest-"))


def keep_manifest(
    manifest: str,
    paths: Sequence[str],
    settings: CheckSettings,
    report: Report,
    advance: Advance,
    open_output: OpenOutput,
) -> str:
    """Checks the segments below the paths against the manifest, or writes it. Returns a sentence. Raises PathError."""
    options = ReadOptions(settings.jobs, settings.max_batch_bytes, settings.is_live, settings.is_07, advance)
    if os.path.lexists(manifest):
        before = _differences(report)
        compared = check_manifest(manifest, paths, options, report)
        differing = _differences(report) - before
        result = "they match" if not differing else f"differences: {differing}"
        return f"{manifest}: compared, {compared} files; {result}"
    with open_output(manifest) as output:
        lines = write_manifest(paths, options, output.write)
    return f"{manifest}: written, {lines.files} files ({shown_bytes(lines.bytes)}), {lines.batches} batches"
