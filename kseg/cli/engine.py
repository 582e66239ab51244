"""``--engine spark``: where a command's work is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--engine, --master."""
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
        command = option(command)
    return command


def check_master(options: dict[str, Any]) -> None:
    """Raises UsageError for a --master without --engine spark."""
    if options["engine"] != "spark" and options["master"] is not None:
        raise click.UsageError("--master goes with --engine spark")


@contextmanager
def spark_session(options: dict[str, Any]) -> Iterator[Any]:
    """The session of ``--engine spark``; None with the local engine. Raises UsageError for a --master without it."""
    check_master(options)
    if options["engine"] != "spark":
        yield None
        return
    from kseg.spark.session import session

    with session(options["master"], options.get("jobs")) as spark:
        yield spark
