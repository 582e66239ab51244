"""The options --engine and --master: run a command in this process or on Apache Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from kseg.cli.options import CommandFunction, with_options


@dataclass(frozen=True, slots=True)
class Engine:
    """``master``: URL of the Spark cluster, None for the default."""

    is_spark: bool = False
    master: str | None = None


_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="spark: run on Apache Spark, with the same results.",
    ),
    click.option("--master", metavar="URL", help="With --engine spark: the cluster, such as spark://host:7077."),
)


def engine_options(command: CommandFunction) -> CommandFunction:
    """As ``engine``: --engine, --master. Raises UsageError for a --master without --engine spark."""

    @wraps(command)
    def with_engine(engine: str, master: str | None, **given: Any) -> Any:
        if engine != "spark" and master is not None:
            raise click.UsageError("--master goes with --engine spark")
        return command(engine=Engine(engine == "spark", master), **given)

    return with_options(with_engine, _OPTIONS)


@contextmanager
def spark_session(engine: Engine, jobs: int | None) -> Iterator[Any]:
    """Opens the session of ``--engine spark``; None for the local engine."""
    if not engine.is_spark:
        yield None
        return
    from kseg.spark.session import session

    with session(engine.master, jobs) as spark:
        yield spark
