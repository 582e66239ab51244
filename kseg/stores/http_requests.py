"""Repeats requests to an http server that is busy, slow or drops connections, with growing pauses.

fsspec leaves this to its callers; libraries of object stores repeat requests themselves.
"""

from collections.abc import Callable
from typing import Any

SCHEMES = ("http", "https")
ATTEMPTS = 6
"""Requests before an error is reported: the pause between two grows to seconds, which a busy store asks for."""
REQUEST_SECONDS = 30.0
"""Pause in an answer after which a request is repeated."""
FIRST_PAUSE_SECONDS = 0.5
"""Pause after the first request; each further one takes twice as long."""
BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses of servers that may answer later."""


def _is_temporary(error: Exception) -> bool:
    """Whether the same request may succeed later, by an error of fsspec's http file system."""
    import aiohttp

    if isinstance(error, aiohttp.ClientResponseError):
        return error.status in BUSY
    if isinstance(error, aiohttp.ClientConnectorError):  # no server there, or another one than expected
        return False
    return isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | TimeoutError)


class HttpRequests:
    """Makes requests with a library that fsspec uses. ``pause`` waits for a number of seconds.

    ``is_temporary``: whether a request may succeed later, by the library's error.
    """

    def __init__(
        self, attempts: int, pause: Callable[[float], object], is_temporary: Callable[[Exception], bool] = _is_temporary
    ) -> None:
        self._attempts, self._pause, self._is_temporary = attempts, pause, is_temporary

    def call(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Returns the result of ``work``. Raises its last error: a busy server is no missing object."""
        seconds, left = FIRST_PAUSE_SECONDS, self._attempts
        while True:
            try:
                return work(*arguments, **options)
            except Exception as error:
                left -= 1
                # fsspec raises FileNotFoundError if it cannot find out a size: behind it is the failed request.
                cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
                if isinstance(cause, Exception) and self._is_temporary(cause):
                    if left <= 0:
                        raise cause from None
                elif left <= 0 or not self._is_temporary(error):
                    raise
            self._pause(seconds)
            seconds *= 2


def take_attempts_and_seconds(settings: dict[str, Any]) -> tuple[int, float]:
    """Removes ``max_attempts`` and ``request_timeout`` from settings, and returns them or their defaults.

    Raises ValueError.
    """
    return int(settings.pop("max_attempts", ATTEMPTS)), float(settings.pop("request_timeout", REQUEST_SECONDS))
