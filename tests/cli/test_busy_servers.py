"""Segments on a plain http server that is busy at times: commands repeat requests, and name it if it stays busy."""

from collections.abc import Iterator

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from cli.command import TESTDATA, Kseg
from http_server import HALF, Server, http_server
from kseg.stores.http_requests import ATTEMPTS

(SEGMENT,) = (TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0").glob("*.log")
FLAGS = ("dump", "--deep-iteration", "--print-data-log")


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("kseg.stores.http_requests.FIRST_PAUSE_SECONDS", 0)
    with http_server({f"/{SEGMENT.name}": SEGMENT.read_bytes()}) as found:
        yield found


def test_a_dump_has_the_rows_of_the_file(http: Server, kseg: Kseg) -> None:
    url = f"{http.root}/{SEGMENT.name}"
    http.failures = [503, 503, 429, HALF, 503]
    found = kseg(*FLAGS, url)
    assert (found.status, http.failures) == (0, [])
    assert found.lines[1:] == kseg(*FLAGS, SEGMENT).lines[1:]


def test_a_server_without_ranges_changes_no_row(http: Server, kseg: Kseg) -> None:
    url = f"{http.root}/{SEGMENT.name}"
    http.ranges = False
    found = kseg(*FLAGS, "--offsets", "200..210", url)
    assert (found.status, len(found.lines) > 10) == (0, True)
    assert found.lines[1:] == kseg(*FLAGS, "--offsets", "200..210", SEGMENT).lines[1:]


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_a_server_that_stays_busy_is_named(http: Server, command: str, kseg: Kseg) -> None:
    http.failures = [503] * 1000
    done = kseg(command, f"{http.root}/{SEGMENT.name}").expect(3)
    assert done.err.splitlines()[0] == f"kseg: {http.root}/{SEGMENT.name}: the server answered 503 Service Unavailable"
    assert ATTEMPTS <= http.requests
