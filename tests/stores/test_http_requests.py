"""Plain http: a busy, slow or dropped answer is repeated a bounded number of times, with growing pauses."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from http_server import DROPPED, HALF, SLOW, Server, http_server
from kseg.errors import KsegError, PathError
from kseg.stores.http_requests import ATTEMPTS
from kseg.stores.object_urls import UrlObjects
from kseg.stores.stored_object import StoredObject

CONTENT = bytes(range(256)) * 40
GROWING = [0.5, 1, 2, 4, 8]


@pytest.fixture
def http() -> Iterator[Server]:
    with http_server({"/a": CONTENT}) as found:
        yield found


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.mark.parametrize("failure", [503, 429, 500, HALF])
def test_a_range_is_requested_again(http: Server, pauses: list[float], failure: int) -> None:
    objects = UrlObjects(http.root, pause=pauses.append)
    http.failures = [failure] * 3
    assert objects.read("a", 300, 1000) == CONTENT[300:1300]
    assert (pauses, http.requests) == (GROWING[:3], 4)


@pytest.mark.parametrize(("start", "length"), [(0, 10), (1, 10), (300, 1000), (len(CONTENT) - 1, 1)])
def test_a_server_without_ranges_is_read_at_the_right_place(http: Server, start: int, length: int) -> None:
    http.ranges = False
    assert UrlObjects(http.root).read("a", start, length) == CONTENT[start : start + length]


def test_a_server_without_ranges_is_refused_for_large_objects(http: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    http.ranges = False
    monkeypatch.setattr("kseg.stores.object_urls.REQUEST_BYTES", len(CONTENT) - 1)
    with pytest.raises(PathError, match=f"^{http.root}/a: the server sends no ranges of bytes: download"):
        UrlObjects(http.root).read("a", 300, 1000)
    monkeypatch.setattr("kseg.stores.object_urls.REQUEST_BYTES", len(CONTENT))
    assert UrlObjects(http.root).read("a", 0, len(CONTENT)) == CONTENT


@pytest.mark.parametrize(
    ("failures", "work", "expected"),
    [
        ([DROPPED] * 3, lambda objects: objects.read("a", 0, 10), CONTENT[:10]),
        ([SLOW], lambda objects: objects.read("a", 5, 5), CONTENT[5:10]),
        ([503] * 4, lambda objects: objects.info("a"), StoredObject("a", len(CONTENT))),
        ([DROPPED] * 4, lambda objects: objects.info("a"), StoredObject("a", len(CONTENT))),
    ],
    ids=["dropped", "slow", "busy, asked for a size", "dropped, asked for a size"],
)
def test_what_failed_is_asked_again(
    failures: list[int], work: Callable[[UrlObjects], Any], expected: Any, http: Server, pauses: list[float]
) -> None:
    """The library itself makes some dropped connections again."""
    http.failures = failures.copy()
    assert work(UrlObjects(http.root, {"request_timeout": "1"}, pauses.append)) == expected
    assert http.failures == []
    assert pauses == GROWING[: len(pauses)] != []


def test_a_server_that_never_answers_is_named(http: Server, pauses: list[float]) -> None:
    http.failures = [SLOW] * 100
    with pytest.raises(PathError, match=rf"^{http.root}/a: \S.*[Tt]ime") as raised:
        UrlObjects(http.root, {"request_timeout": "0.1"}, pauses.append).read("a", 5, 5)
    assert len(str(raised.value).splitlines()) == 1
    assert pauses == GROWING


@pytest.mark.parametrize("attempts", [None, 3])
def test_attempts_are_limited(http: Server, pauses: list[float], attempts: int | None) -> None:
    settings = {} if attempts is None else {"max_attempts": str(attempts)}
    objects = UrlObjects(f"{http.root}/?key=secret", settings, pauses.append)
    for call in (lambda: objects.read("", 0, 10), lambda: objects.info(""), lambda: objects.folder("")):
        http.failures = [503] * 100
        pauses.clear()
        with pytest.raises(PathError, match=rf"^{http.root}: the server answered 503 Service Unavailable$"):
            call()
        assert pauses == GROWING[: (attempts or ATTEMPTS) - 1]


@pytest.mark.parametrize("status", [403, 404])
def test_other_answers_are_final(http: Server, pauses: list[float], status: int) -> None:
    objects = UrlObjects(http.root, pause=pauses.append)
    http.failures = [status]
    with pytest.raises(PathError, match=rf"^{http.root}/a: "):
        objects.read("a", 0, 10)
    with pytest.raises(FileNotFoundError):
        objects.info("b")
    assert pauses == []


def test_a_server_that_is_not_there_is_not_waited_for(pauses: list[float]) -> None:
    with http_server({}) as found:
        root = found.root
    with pytest.raises(PathError, match=rf"^{root}/a: "):
        UrlObjects(root, pause=pauses.append).read("a", 0, 10)
    assert pauses == []


def test_invalid_numbers_are_reported() -> None:
    with pytest.raises(KsegError, match=r"^http://host: could not convert string to float: 'soon'$"):
        UrlObjects("http://host", {"request_timeout": "soon"})


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "the server did not answer in time"), (TimeoutError(110, "it took 9 s"), "it took 9 s"),
        (EOFError(), "EOFError"), (OSError(), "OSError"), (KeyError("x"), "KeyError: 'x'"),
    ],
)  # fmt: skip
def test_other_stores_are_asked_once(monkeypatch: pytest.MonkeyPatch, error: Exception, text: str) -> None:
    objects = UrlObjects("memory://bucket")
    fail = MagicMock(side_effect=error)
    monkeypatch.setattr(objects._system, "cat_file", fail)
    with pytest.raises(PathError, match=rf"^memory://bucket/a: {text}$"):
        objects.read("a", 0, 1)
    fail.assert_called_once()
