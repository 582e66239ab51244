"""Indexes that are larger than any broker makes one: told, and not read."""

import os
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

STEM = f"{46:020}"


@pytest.mark.parametrize(("suffix", "width"), [(".index", 8), (".timeindex", 12), (".txnindex", 34)])
def test_a_hole_in_the_middle_of_an_index(suffix: str, width: int, tmp_path: Path, kseg: Kseg) -> None:
    partition = Path(shutil.copytree(TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path / "dplain-0"))
    path, size = partition / f"{STEM}{suffix}", (20 << 30) // width * width
    with open(path, "ab") as file:
        os.truncate(file.fileno(), size - width)
    with open(path, "ab") as file:
        file.write(b"\1" * width)
    found = kseg("verify", "--format", "json", path).objects[:-1]
    code = {".index": "index-corrupt", ".timeindex": "time-index-corrupt", ".txnindex": "transaction-index-damaged"}
    assert found[0]["code"] == code[suffix]
    assert found[0]["repair"][:2] == ["kseg", "reindex"]
    done = kseg("dump", path)
    assert (done.status, f"has {size} bytes, more than any index" in done.err) == (1, True)
    if suffix != ".txnindex":
        (action,) = [row for row in kseg("reindex", "-n", "--format", "json", partition).objects if "action" in row]
        assert (action["action"], action["file"].rpartition("/")[2]) == ("replace", path.name)
