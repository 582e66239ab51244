"""``kseg verify --manifest FILE``: FILE is checked if it is there, and written if not."""

import os
from collections.abc import Callable

import click

from kseg.output.notices import Notices
from kseg.output.sink import STANDARD_OUTPUT, open_sink
from kseg.quantities import shown_bytes
from kseg.stores.source import STANDARD_INPUT
from kseg.verification.report import Report
from kseg.verification.settings import Settings


def check_place(manifest: str, paths: tuple[str, ...]) -> None:
    """Raises UsageError where no manifest can be."""
    if manifest == STANDARD_OUTPUT:
        raise click.UsageError("--manifest needs the name of a file")
    if STANDARD_INPUT in paths:
        raise click.UsageError("--manifest is of files, not of standard input")
    if os.path.lexists(manifest):
        return
    folder = os.path.realpath(os.path.dirname(manifest) or ".")
    for path in filter(os.path.isdir, paths):
        if os.path.commonpath([folder, os.path.realpath(path)]) == os.path.realpath(path):
            raise click.UsageError(f"nothing is written into {path}: keep the manifest elsewhere")


def _differences(report: Report) -> int:
    """Findings so far about what a manifest does not say, or says otherwise."""
    return sum(count for code, count in report.totals.codes.items() if code.startswith("manifest-"))


def keep_manifest(
    manifest: str,
    paths: tuple[str, ...],
    settings: Settings,
    report: Report,
    advance: Callable[[int], None],
    notices: Notices,
) -> None:
    """Checks the segments below the paths against the manifest, or writes it. Raises PathError."""
    from kseg.verification.manifest.manifest import Manner, check_manifest, write_manifest

    manner = Manner(settings.jobs, settings.max_batch_bytes, settings.is_live, settings.era_07, advance)
    if os.path.lexists(manifest):
        before = _differences(report)
        compared = check_manifest(manifest, paths, manner, report)
        differing = _differences(report) - before
        result = "they match" if not differing else f"differences: {differing}"
        notices.warning(f"{manifest}: compared, {compared} files; {result}")
        return
    with open_sink(manifest) as sink:
        lines = write_manifest(paths, manner, sink.write)
    notices.warning(f"{manifest}: written, {lines.files} files ({shown_bytes(lines.bytes)}), {lines.batches} batches")
