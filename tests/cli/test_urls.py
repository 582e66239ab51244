"""``file:`` URLs and globs of URLs on the command line; no command prints the credentials of a URL."""

from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import fsspec

from cli.command import LOGS, PLAIN, Kseg, Outcome
from http_server import HALF, http_server

FLAGS = ("--format", "json")


@pytest.mark.parametrize(
    "command", ["dump", "verify", "recover -n --output new", "recover -n --mode salvage --output new"]
)
def test_globs(command: str, tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory = fsspec.filesystem("memory")
    for path in (LOGS / "dplain-0").iterdir():
        memory.pipe_file(f"/bucket/logs/dplain-0/{path.name}", path.read_bytes())
    words = [*command.split(), *FLAGS]
    plain, found = kseg(*words, "memory://bucket/logs/dplain-0"), kseg(*words, "memory://bucket/*/dplain-*")
    assert (found.status, found.out) == (plain.status, plain.out)
    assert plain.out
    kseg(*words, "memory://bucket/*/nothing").expect(3, "matches nothing")
    memory.rm("/bucket", recursive=True)


def test_a_dump_of_a_busy_http_server_has_the_rows_of_the_file(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.stores.http_requests.FIRST_PAUSE_SECONDS", 0)
    segment, flags = max((LOGS / "dplain-0").glob("*.log")), ("dump", "--deep-iteration", "--print-data-log")
    with http_server({f"/{segment.name}": segment.read_bytes()}) as http:
        http.failures = [503, 503, 429, HALF, 503]
        found = kseg(*flags, f"{http.root}/{segment.name}").expect(0)
        assert http.failures == []
        http.failures = [503] * 1000
        kseg("verify", f"{http.root}/{segment.name}").expect(3, f"{segment.name}: the server answered 503 Service Unav")
    assert found.lines[1:] == kseg(*flags, segment).lines[1:]


READING = (["dump"], ["stats"], ["verify"], ["verify", "--format", "json"])
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
def test_paths_hide_credentials(command: list[str], kseg: Kseg) -> None:
    for url in URLS:
        check(kseg(*command, url))


@pytest.mark.parametrize(
    "command",
    [
        ["restore", "--from-remote"],
        ["recover", "--mode", "salvage", "--from-replica"],
        ["verify", "--against"],
        ["convert", "--codec", "none", "--output"],
        ["recover", "--output"],
    ],
    ids=" ".join,
)
def test_options_hide_secrets(command: list[str], tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in URLS:
        rest = ["--output", tmp_path / "new"] if "remote" in command[-1] else [PLAIN]
        if "replica" in command[-1]:
            rest.insert(0, "--dry-run")
        check(kseg(*command, url, *rest))
