"""Shell completion of finding codes, topics of a log directory, and codecs."""

import os

import click


def complete_codes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Codes of findings."""
    from kseg.findings.table import KINDS

    return [code for code in KINDS if code.startswith(incomplete)]


def complete_codecs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from kseg.formats.compression import CODEC_NAMES

    return [codec for codec in CODEC_NAMES if codec.startswith(incomplete)]


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Topics with partitions in the log directories that the command line names, or in the current directory.

    While an option is incomplete, click has the paths among ``args``.
    """
    from kseg.segment.files import own_name, parse_partition_name

    found: set[str] = set()
    for path in (*(ctx.params.get("paths") or ()), *ctx.args) or (os.curdir,):
        try:
            names = os.listdir(path)
        except OSError:
            continue
        places = (parse_partition_name(own_name(name)) for name in names)
        found.update(place[0] for place in places if place is not None)
    return sorted(topic for topic in found if topic.startswith(incomplete))
