"""No command prints the credentials of a URL."""

from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from cli.command import TESTDATA, Kseg, Outcome

PARTITION = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
READING = (["dump"], ["dump", "--summary"], ["verify"], ["verify", "--format", "json"])
CHANGING = (["recover"], ["reindex"], ["compact"], ["retain"], ["undo"])


# Nothing listens on port 1.
URLS = (
    "s3://user:secret@bucket/t-0",
    "s3://user:sl/secret@bucket/t-0",
    "http://user:secret@127.0.0.1:1/t-0",
    "http://127.0.0.1:1/t-0?key=secret",
)


def check(done: Outcome) -> None:
    assert (done.status, b"secret" in done.out) == (3, False)
    assert done.err
    assert "secret" not in done.err


@pytest.mark.parametrize("command", [*READING, *CHANGING], ids=" ".join)
def test_paths(command: list[str], kseg: Kseg) -> None:
    for url in URLS:
        done = kseg(*command, url)
        check(done)


@pytest.mark.parametrize(
    "command",
    [
        ["recover", "--from-remote"],
        ["recover", "--mode", "salvage", "--from-replica"],
        ["verify", "--against"],
        ["convert", "--codec", "none", "--output"],
        ["recover", "--output"],
    ],
    ids=" ".join,
)
def test_options(command: list[str], tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in URLS:
        rest = ["--output", tmp_path / "new"] if "remote" in command[-1] else [PARTITION]
        if "replica" in command[-1]:
            rest.insert(0, "--dry-run")
        done = kseg(*command, url, *rest)
        check(done)
