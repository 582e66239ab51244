"""The options --engine and --master: where the work of a command is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Engine:
    """``master``: URL of the Spark cluster, None for the default."""

    is_spark: bool = False
    master: str | None = None


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As ``engine``: --engine, --master. Raises UsageError for a --master without --engine spark."""

    @wraps(command)
    def with_engine(engine: str, master: str | None, **given: Any) -> Any:
        if engine != "spark" and master is not None:
            raise click.UsageError("--master goes with --engine spark")
        return command(engine=Engine(engine == "spark", master), **given)

    for option in (
        click.option("--master", metavar="URL", help="With --engine spark: the cluster, such as spark://host:7077."),
        click.option(
            "--engine",
            type=click.Choice(["local", "spark"]),
            default="local",
            show_default=True,
            help="Where the work is done; spark: on Apache Spark, with the same results.",
        ),
    ):
        with_engine = option(with_engine)
    return with_engine


@contextmanager
def spark_session(engine: Engine, jobs: int | None) -> Iterator[Any]:
    """Opens the session of ``--engine spark``; None for the local engine."""
    if not engine.is_spark:
        yield None
        return
    from kseg.spark.session import session

    with session(engine.master, jobs) as spark:
        yield spark
