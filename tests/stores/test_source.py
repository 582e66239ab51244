"""Byte sources of segments."""

from pathlib import Path

from kseg.stores.source import open_source


def test_a_source_may_be_closed_while_its_bytes_are_looked_at(tmp_path: Path) -> None:
    """As the frames of a raised exception hold them."""
    path = tmp_path / "0.log"
    path.write_bytes(b"k" * 100)
    with open_source(str(path)) as source:
        view = source.buffer[10:20]
    assert bytes(view) == b"k" * 10
    del view
    with open_source(str(path)) as source:
        assert len(source.buffer) == 100
