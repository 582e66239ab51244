"""Http servers on loopback that are busy, slow or drop connections, for tests."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

DROPPED, HALF, SLOW, HALF_UNANNOUNCED = -1, -2, -3, -4
"""Ways to fail besides a status: no answer, half of the content, no answer for long, half of it without its length."""


class FailingServer(ThreadingHTTPServer):
    """``failures``: how its next requests fail, by a status or one of the ways above."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.failures: list[int] = []
        self.address = f"127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that have given up are expected."""


class QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Standard error is a command's."""


@contextmanager
def serving(*servers: FailingServer) -> Iterator[None]:
    """Runs servers for the length of a block."""
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        yield


class Puts(Protocol):
    """A store of files."""

    def put(self, name: str, data: bytes, /) -> None: ...

    def put_tree(self, name: str, folder: Path) -> None:
        """Writes the files below a folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())


class Server(FailingServer):
    """Answers requests for paths with their ``contents``, after those that fail. ``ended``: no slow answer is held back
    any more. Without ``ranges`` it sends whole objects.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        super().__init__(Handler)
        self.contents = contents
        self.requests = 0
        self.ended = threading.Event()
        self.ranges = True
        self.root = f"http://{self.address}"


class Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
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

    do_HEAD = do_GET


@contextmanager
def http_server(contents: Mapping[str, bytes]) -> Iterator[Server]:
    found = Server(contents)
    with serving(found):
        try:
            yield found
        finally:
            found.ended.set()
