"""The settings of a broker's own file."""

from pathlib import Path

import pytest

from kseg.errors import PathError
from kseg.node.server_properties import read_server_properties


def settings(tmp_path: Path, text: str):
    path = tmp_path / "server.properties"
    path.write_text(text)
    return read_server_properties(str(path))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("log.retention.hours=2", "retention.ms", "7200000"),
        ("log.retention.hours=2\nlog.retention.minutes=3", "retention.ms", "180000"),
        ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", "retention.ms", "4"),
        ("log.retention.hours=-1", "retention.ms", "-1"),
        ("log.retention.hours=+2", "retention.ms", "7200000"),
        ("log.retention.hours=x", "retention.ms", "log.retention.hours=x"),
        ("log.retention.hours=1_0", "retention.ms", "log.retention.hours=1_0"),
        ("log.retention.minutes=2147483648", "retention.ms", "log.retention.minutes=2147483648"),
        ("log.retention.bytes = 1073741824 ", "retention.bytes", "1073741824"),
        ("log.cleanup.policy: compact,delete", "cleanup.policy", "compact,delete"),
        ("log.segment.bytes=5\n# log.segment.bytes=6", "segment.bytes", "5"),
        ("log.index.interval.bytes=512", "index.interval.bytes", "512"),
        ("message.max.bytes=7", "max.message.bytes", "7"),
        ("log.cleaner.min.cleanable.ratio=0.1", "min.cleanable.dirty.ratio", "0.1"),
        ("log.cleaner.delete.retention.ms=8", "delete.retention.ms", "8"),
        ("node.id=1", "retention.ms", None),
        ("retention.ms=9", "retention.ms", None),
        ("log.retention.ms=", "retention.ms", None),
    ],
)
def test_a_setting(tmp_path: Path, text: str, name: str, value: str | None) -> None:
    assert settings(tmp_path, text).setting(name) == value


def test_log_directories(tmp_path: Path) -> None:
    assert settings(tmp_path, "log.dirs=/a, /b,,\nlog.dir=/c").log_dirs == ["/a", "/b"]
    assert settings(tmp_path, "log.dir=/c").log_dirs == ["/c"]
    assert settings(tmp_path, "node.id=1").log_dirs == []
    assert settings(tmp_path, "log.dirs=/a,/b,/a\nmetadata.log.dir=/b/").directories == ["/a", "/b"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="none"):
        read_server_properties(str(tmp_path / "none"))
    (tmp_path / "large").write_bytes(b"#" * (80 << 20))
    with pytest.raises(PathError, match="too large"):
        read_server_properties(str(tmp_path / "large"))
