"""The option --era: the release of Kafka whose rules a command follows."""

from typing import Any

import click

from kseg.cli.options import Option
from kseg.releases.recovery import Era, era_of
from kseg.releases.release import NEWEST


class _Release(click.ParamType):  # type: ignore[type-arg]
    name = "VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Era:
        if isinstance(value, Era):
            return value
        try:
            return era_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def era_option(oldest: str = "0.7") -> Option:
    """--era; ``oldest``: the release before which the command knows no rules."""
    newest = ".".join(map(str, NEWEST))
    return click.option(
        "--era",
        type=_Release(),
        default=newest,
        show_default=True,
        help=f"Follow the rules of this release of Kafka, {oldest} to {newest}.",
    )
