"""Every internal record in testdata/, compared with the output of Kafka's own tool."""

import gzip
import re
from pathlib import Path

import pytest

from kseg.decoders import FOR_TOPIC, decoder
from kseg.decoders.decoded import Decoded
from kseg.formats.control import control_text, parse_control

TESTDATA = Path(__file__).parents[2] / "testdata"
DECODED = re.compile(r"\.dump-4\.\d\.\d\.decoded\.txt\.gz$")
DUMPS = [
    dump
    for dump in sorted(TESTDATA.glob("*/*/truth/__*/*.decoded.txt.gz"))
    # The tests' parser reads only v2.
    if (dump.parents[2] / dump.parent.name / DECODED.sub("", dump.name)).read_bytes()[16] == 2
]
# A record's line up to its control info, key or payload.
METADATA = re.compile(r"\| offset: .*? headerKeys: \[[^]]*\]")


def printed(decoded: Decoded) -> str:
    key = "" if decoded.key_text is None else f" key: {decoded.key_text}"
    return key + ("" if decoded.payload_text is None else f" payload: {decoded.payload_text}")


def test_every_topic_has_a_dump():
    assert {dump.parent.name[:-2] for dump in DUMPS} == set(FOR_TOPIC)


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: "/".join(dump.relative_to(TESTDATA).parts))
def test_texts_are_those_of_kafka(dump, records):
    partition = dump.parents[2] / dump.parent.name
    lines = gzip.decompress(dump.read_bytes()).decode().split("\n")
    expected = [METADATA.sub("", line, count=1) for line in lines if line.startswith("| offset")]
    decode = decoder(FOR_TOPIC[partition.name[:-2]]).decode
    actual = [
        control_text(parse_control(record.key, record.value))
        if record.is_control
        else printed(decode(record.key, record.value, record.offset))
        for record in records(partition / DECODED.sub("", dump.name))
    ]
    assert expected
    assert actual == expected
