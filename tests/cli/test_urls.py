"""``file:`` URLs and globs of URLs on the command line."""

from pathlib import Path

import fsspec
import pytest

from cli.command import TESTDATA, Kseg

LOGS = TESTDATA / "log-directories/4.3.1/logs"
FLAGS = ("--format", "json")


@pytest.mark.parametrize("command", ["dump", "verify", "recover -n", "reindex -n"])
def test_file_urls(command: str, kseg: Kseg) -> None:
    words = [*command.split(), *FLAGS]
    plain, found = kseg(*words, LOGS / "dplain-0"), kseg(*words, f"file://{LOGS}/dplain-0")
    assert (found.status, found.objects) == (plain.status, plain.objects)


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


def test_against_takes_one_match(kseg: Kseg) -> None:
    memory = fsspec.filesystem("memory")
    for name in ("a-0", "b-0"):
        memory.pipe_file(f"/bucket/{name}/{0:020}.log", b"")
    done = kseg("verify", "--against", "memory://bucket/*", LOGS / "dplain-0")
    memory.rm("/bucket", recursive=True)
    assert (done.status, "matches 2 paths" in done.err) == (2, True)
