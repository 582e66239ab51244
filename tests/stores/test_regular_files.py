"""Files in directories of others: no link is followed and no pipe is waited for, unless the user has named it."""

import errno
import os
from pathlib import Path

import pytest

from kseg.stores import place
from kseg.stores.place import Place


@pytest.mark.parametrize("flag", [place._NOFOLLOW, 0])
def test_a_link_is_followed_only_if_it_was_named(flag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no flag for it."""
    monkeypatch.setattr(place, "_NOFOLLOW", flag)
    (tmp_path / "file").write_bytes(b"bytes")
    link = tmp_path / "link"
    link.symlink_to("file")
    for opened in (Place.open, Place.open_extent):
        with pytest.raises(OSError, match="a symbolic link, which is not followed") as found:
            opened(Place(str(link)))
        assert found.value.errno == errno.ELOOP
    named = Place(str(link), is_named=True)
    assert named.read(5) == b"bytes"
    extent = named.open_extent()
    assert extent.pread(9, 0) == b"bytes"
    extent.close()


def test_a_pipe_is_refused_and_expected_only_if_it_was_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        Place(str(pipe)).open()
    assert not Place(str(pipe)).is_expected_pipe()
    assert Place(str(pipe), is_named=True).is_expected_pipe()
    assert not Place(str(tmp_path / "missing"), is_named=True).is_expected_pipe()


@pytest.mark.parametrize("is_named", [False, True])
def test_a_device_is_refused(is_named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was named is not even opened."""
    if is_named:
        monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened"))
    with pytest.raises(OSError, match="not a regular file"):
        Place(os.devnull, is_named=is_named).open()


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    assert Place(str(path)).read(5) == b"bytes"
    with pytest.raises(OSError, match="has more than 4 bytes") as found:
        Place(str(path)).read(4)
    assert found.value.errno == errno.EFBIG
