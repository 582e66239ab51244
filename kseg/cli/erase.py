"""``kseg erase``: takes records out of logs for good, and certifies it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import click

from kseg.changes.apply import Keeping
from kseg.changes.driver.command import ChangeOptions
from kseg.cli.changing import dry_and_lock_options, open_plans, presentation_options, run_change
from kseg.cli.options import Command, filled, paths_argument, usage_errors, with_options
from kseg.erasure.certificate import certificate_file, check, read_certificate, sentence_of
from kseg.erasure.planner import EraseOptions, ErasurePlanner
from kseg.node.paths import expanded
from kseg.options.declaration import CONTENTS, OUTPUT, Option, PathKind, given_in, refuse
from kseg.output.notices import Presentation
from kseg.output.sink import open_sink
from kseg.runtime.threads import usable_cores

_PROOF = {
    "certificate": Option(
        "--certificate", OUTPUT, "Write a certificate to FILE, JSON; it names no key.", PathKind(), metavar="FILE"
    ),
    "checked": Option(
        "--check", CONTENTS, "Erase nothing: exit status 1 if PATH has what this certificate names.",
        PathKind(), metavar="FILE",
    ),
}  # fmt: skip


@click.command("erase", cls=Command)
@paths_argument()
@filled(EraseOptions)
@with_options(_PROOF)
@dry_and_lock_options
@presentation_options()
def command(
    paths: tuple[str, ...],
    options: EraseOptions,
    change: ChangeOptions,
    presentation: Presentation,
    certificate: str | None,
    checked: str | None,
) -> int:
    """Take records out of a partition directory, or the partitions of a log directory, for good.

    A record that matches any of --key, --key-pattern, --grep and --offsets goes, in the last segment too. All others
    keep their offsets, and the log its end. Nothing is kept: there is no undo. Internal topics are left alone.
    """
    if checked is not None:
        if certificate is not None or change.is_dry:
            raise click.UsageError("--check erases nothing: no --certificate, no --dry-run")
        if presentation.as_page:
            raise click.UsageError("--format html is for a dry run of an erasure")
        names = ("--key", "--key-pattern", "--grep", "--offsets", "--skip-damage", "--topic")
        with usage_errors():
            refuse(names, given_in(options), "is not for --check: the certificate selects the records")
        return _check(paths, checked, options.jobs or usable_cores(), presentation)
    if certificate is not None and change.is_dry:
        raise click.UsageError("--certificate is not for a dry run, which erases nothing")
    # The words of the command line are not recorded: they name the keys.
    change = replace(change, keeping=Keeping(keeps=False), arguments=None)
    with certificate_file(open_sink, certificate) as file:
        make_planner = partial(ErasurePlanner, options, certificate=file)
        return run_change(paths, make_planner, change, presentation).exit_status


def _check(paths: Sequence[str], certificate: str, jobs: int, presentation: Presentation) -> int:
    notices, status = presentation.notices(), 0
    with open_plans(presentation, True, notices.error) as sink:
        for row in check(read_certificate(certificate), expanded(paths), jobs):
            status = max(status, 3 if row["notSearched"] else 0, int(row["records"] > 0))
            if presentation.form == "json":
                sink.put_row(row)
            else:
                sink.put(sentence_of(row))
    return status
