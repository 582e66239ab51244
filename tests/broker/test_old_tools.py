"""Kafka's DumpLogSegments of old releases, as the judges of logs that kseg has converted down to their formats."""

import re
import subprocess
from base64 import b64decode
from pathlib import Path

import pytest

from broker import jars
from broker.scenes import TESTDATA, dumped, kseg

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SOURCES = (TESTDATA / "log-directories/4.3.1/logs/dplain-0", TESTDATA / "kafka-4.3.1/codecs/codec-mix-0",
           TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0")  # fmt: skip
RELEASES = {"0.8.2.2": "v0", "0.10.2.2": "v1", "0.11.0.3": "v1"}
CODECS = ("none", "gzip", "snappy", "lz4")
RECORD = re.compile(rb"^offset: (\d+) position: \d+ (?:CreateTime: (-?\d+) )?(.*)$", re.MULTILINE)
SIZE = re.compile(rb"(?:payload|value)size: (-?\d+) ")


def converted(source: Path, form: str, codec: str, folder: Path) -> Path:
    output = folder / f"{source.name}-{form}-{codec}"
    kseg("convert", "--quiet", "--to", form, "--codec", codec, "--lossy", "--output", output, source)
    return output / source.name


def told(class_path: str, paths: list[Path]) -> bytes:
    """What the tool prints of all these segments, records and all."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", class_path, "kafka.tools.DumpLogSegments"]
    command += ["--deep-iteration", "--print-data-log", "--files", ",".join(map(str, paths))]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert b"Exception" not in done.stderr, done.stderr.decode()[-2000:]
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("release", RELEASES)
def test_an_old_tool_reads_every_record(release: str, codec: str, tmp_path: Path) -> None:
    class_path = jars.class_path("kafka_2.11", release)
    made = [converted(source, RELEASES[release], codec, tmp_path) for source in SOURCES]
    text = told(class_path, [path for folder in made for path in sorted(folder.glob("*.log"))])
    lines = RECORD.findall(text)
    want = [row for source in SOURCES for row in dumped(source)]
    assert [int(offset) for offset, _, _ in lines] == [row["offset"] for row in want]
    assert text.count(b"isvalid: false") == 0
    for (_, time, rest), row in zip(lines, want, strict=True):
        assert bool(time) == (release != "0.8.2.2")
        assert int(time or row["timestamp"]) == row["timestamp"]
        value = None if row["value"] is None else b64decode(row["value"])
        size = SIZE.search(rest)
        assert size is not None
        assert int(size[1]) == (-1 if value is None else len(value))
        if value and value.isalnum():
            assert rest.endswith(b"payload: " + value)
