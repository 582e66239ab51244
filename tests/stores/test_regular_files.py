"""Files in directories of others: no link is followed and no pipe is waited for, unless the user has named it."""

import errno
import os
from pathlib import Path

import pytest

from kseg.stores import trees
from kseg.stores.trees import expect_named, is_expected_pipe, open_extent, open_regular, read_regular


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_links", "_pipes", "_others"):
        monkeypatch.setattr(trees, name, set[str]())


@pytest.mark.parametrize("flag", [trees._NOFOLLOW, 0])
def test_a_link_is_followed_only_if_it_was_named(flag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no flag for it."""
    monkeypatch.setattr(trees, "_NOFOLLOW", flag)
    (tmp_path / "file").write_bytes(b"bytes")
    link = tmp_path / "link"
    link.symlink_to("file")
    for opened in (open_regular, open_extent):
        with pytest.raises(OSError, match="a symbolic link, which is not followed") as found:
            opened(str(link))
        assert found.value.errno == errno.ELOOP
    expect_named(str(link))
    assert read_regular(str(link), 5) == b"bytes"
    extent = open_extent(str(link))
    assert extent.pread(9, 0) == b"bytes"
    extent.close()


def test_a_pipe_is_refused_and_expected_only_if_it_was_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(str(pipe))
    assert not is_expected_pipe(str(pipe))
    expect_named(str(pipe))
    assert is_expected_pipe(str(pipe))
    expect_named(str(tmp_path / "missing"))


@pytest.mark.parametrize("is_named", [False, True])
def test_a_device_is_refused(is_named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was named is not even opened."""
    if is_named:
        expect_named(os.devnull)
        monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened"))
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(os.devnull)


@pytest.mark.parametrize("most", [5, 4])
def test_a_file_is_read_up_to_its_limit(most: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    if most == 5:
        assert read_regular(str(path), most) == b"bytes"
        return
    with pytest.raises(OSError, match="has more than 4 bytes") as found:
        read_regular(str(path), most)
    assert found.value.errno == errno.EFBIG
