"""A plain http server on loopback that is busy, slow or drops connections, for tests."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DROPPED, HALF, SLOW = -1, -2, -3


class Server(ThreadingHTTPServer):
    """Answers requests for paths with their ``contents``, after those that fail: ``failures`` are statuses, or one of
    the ways above. ``ended``: no slow answer is held back any more. Without ``ranges`` it sends whole objects.
    """

    daemon_threads = True

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = contents
        self.failures: list[int] = []
        self.requests = 0
        self.ended = threading.Event()
        self.ranges = True
        self.root = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that have given up are expected."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.requests += 1
        whole = self.server.contents.get(self.path)
        failure = self.server.failures.pop(0) if self.server.failures else 404 if whole is None else 200
        if failure == SLOW:
            self.server.ended.wait()
        if failure in (SLOW, DROPPED):
            self.close_connection = True
            return
        content = whole if whole and failure in (200, HALF) else b""
        part, status = content, 200 if failure == HALF else failure
        if content and "Range" in self.headers and self.server.ranges:
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            part, status = content[first : last + 1], 206
        self.send_response(status)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if failure == HALF:
            part, self.close_connection = part[: len(part) // 2], True
        if self.command == "GET":
            self.wfile.write(part)

    def log_message(self, *arguments: object) -> None:
        """Standard error is a command's."""


@contextmanager
def http_server(contents: Mapping[str, bytes]) -> Iterator[Server]:
    with Server(contents) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            found.ended.set()
            found.shutdown()
            thread.join()
