"""Partitions that the tests of dumps share, and what a dump shows of them."""

from typing import Any

from cli.command import TESTDATA, Kseg

MIX = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0"
MIX_LOG = MIX / "00000000000000000000.log"
TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
V07 = TESTDATA / "kafka-0.7.2/direct/codecs-0"


def records(kseg: Kseg, *arguments: object) -> list[dict[str, Any]]:
    """The records shown, with keys and values."""
    return kseg("dump", "--format", "json", "--print-data-log", *arguments).of_type("record")


def offsets(kseg: Kseg, *arguments: object) -> list[int]:
    """The offsets of the records shown."""
    done = kseg("dump", "--format", "json", "--deep-iteration", *arguments)
    return [record["offset"] for record in done.of_type("record")]
