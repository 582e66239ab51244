"""``kseg serve``: a read-only Kafka broker over files."""

import asyncio
import json
import signal
from contextlib import closing, suppress
from dataclasses import replace

import click

from kseg.api.archives import readable
from kseg.cli import options as cli
from kseg.options.declaration import JSON, OUTPUT, Option
from kseg.output.notices import Color, Notices
from kseg.quantities import plural, shown_bytes
from kseg.serving.connections import shown_address
from kseg.serving.service import Event, ServeOptions, Service
from kseg.stores.archives.spool import Spool
from kseg.stores.remote.keys import private_keys as read_private_keys

_OPTIONS = {
    "form": cli.form("Form of the events on standard output: one line of text, or an object per line.", "text", "json"),
    "color": cli.color("Colour on standard error"),
    "quiet": Option("-q --quiet", OUTPUT, "Only errors on standard error: no damage, no warnings.", bool),
    "verbose": Option("-v --verbose", OUTPUT, "At the end, print how much was served.", bool),
}


@click.command("serve", cls=cli.Command)
@cli.paths_argument()
@cli.filled(ServeOptions)
@cli.spool_options
@cli.with_options(_OPTIONS)
def command(options: ServeOptions, spool: Spool, form: str, color: Color, quiet: bool, verbose: bool) -> int:
    """Let Kafka's clients read logs without a cluster: a read-only broker over dead files.

    PATH is a log directory, a partition, an archive, a store or remote storage. Nothing is ever written. Runs until
    SIGTERM (exit status 0) or Ctrl-C (130).
    """
    with cli.usage_errors():
        keys = read_private_keys(options.private_keys)
    notices = Notices(color, quiet, verbose)

    def report(event: Event) -> None:
        if form == JSON:
            click.echo(json.dumps(event))
        else:
            _show(event, notices)

    with readable(options.paths, keys, spool=spool) as places:
        cli.report_problems(places, notices)
        service = Service(replace(options, paths=places), report)
        with closing(service):
            asyncio.run(_until_signal(service))
    return 0


async def _until_signal(service: Service) -> None:
    """Serves until SIGTERM; Ctrl-C cancels it."""
    with suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.server.stop)
    await service.server.serve(service.started)


def _show(event: Event, notices: Notices) -> None:
    kind = event["type"]
    if kind == "listening":
        click.echo(f"listening on {shown_address(event['host'], event['port'])}")
        notices.warning(
            f"serving {plural(event['topics'], 'topic', 'topics')}, "
            f"{plural(event['partitions'], 'partition', 'partitions')}"
        )
    elif kind == "damage":
        notices.warning(
            f"{event['file']}: position {event['position']}: {event['code']}: {event['message']}; the damage of "
            f"{event['partition']} is a gap in its offsets"
        )
    elif kind == "notice":
        about = "" if event["partition"] is None else f"{event['partition']}: "
        notices.warning(f"{about}{event['message']}")
    else:
        notices.detail(
            f"connections: {event['connections']}, requests: {event['requests']}, sent: {shown_bytes(event['bytes'])}"
        )
