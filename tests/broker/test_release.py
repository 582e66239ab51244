"""The comparison of two releases: its facts of 4.4.0 and 4.3.1, and the messages in class files."""

from pathlib import Path

import pytest

differences = pytest.importorskip("release_differences", reason="a source distribution has no dot-files")


@pytest.mark.broker
def test_records_schemas_and_settings_that_4_4_added(tmp_path: Path) -> None:
    releases = differences.Releases("4.4.0", "4.3.1", tmp_path)
    found = {kind: list(releases.differences(both)) for kind, both in differences.facts(releases).items()}
    assert any(line.startswith("+MetadataRecordType UNREGISTER_CONTROLLER_RECORD") for line in found["record"])
    (without, with_tags) = (line for line in found["schema"] if "StreamsGroupMetadataValue v0" in line)
    assert (without[0], with_tags[0]) == ("-", "+")
    assert "tag2 stored_description_topology_epoch:INT32" in with_tags
    assert "+topic max.decompressed.message.bytes: INT 2147483639" in found["setting"]


def test_texts_of_a_class_file() -> None:
    text = b"Invalid record size: \1 is negative."
    pool = b"\1" + len(text).to_bytes(2, "big") + text + b"\5" + bytes(8) + b"\1\0\3()V"
    data = b"\xca\xfe\xba\xbe" + bytes(4) + (5).to_bytes(2, "big") + pool
    assert list(differences._constants(data)) == [text.decode(), "()V"]
    assert [differences._is_message(each) for each in differences._constants(data)] == [True, False]
