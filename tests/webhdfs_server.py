"""Servers on loopback that answer as name nodes and a data node of HDFS do over http (WebHDFS), for tests.

The real ones are in tests/spark/test_hdfs.py; here they are busy, on standby, cut off, or demand a token.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from http_server import DROPPED, HALF, HALF_UNANNOUNCED, FailingServer, Puts, QuietHandler, serving

STANDBY = "standby"


class Failed(Exception):
    """The name and the message of an exception of Java."""

    def __init__(self, status: int, name: str, text: str) -> None:
        super().__init__(status, {"RemoteException": {"exception": name, "javaClassName": name, "message": text}})


class Server(FailingServer):
    """A name node or a data node. ``requests``: the queries of all."""

    def __init__(self, cluster: "Cluster", is_data_node: bool) -> None:
        super().__init__(Handler)
        self.cluster, self.is_data_node = cluster, is_data_node
        self.is_standby = False
        self.requests: list[dict[str, str]] = []


class Cluster(Puts):
    """Two name nodes and a data node with ``files``. ``token``: the delegation token that they demand."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders = {"/"}
        self.token = ""
        self.name_nodes = [Server(self, False), Server(self, False)]
        self.name_nodes[1].is_standby = True
        self.data_node = Server(self, True)

    @property
    def address(self) -> str:
        return self.name_nodes[0].address

    def put(self, path: str, data: bytes) -> None:
        self.make_folder(path.rpartition("/")[0])
        self.files[path] = data

    def make_folder(self, path: str) -> None:
        while path:
            self.folders.add(path)
            path = path.rpartition("/")[0]

    def status(self, path: str, suffix: str = "") -> dict[str, Any]:
        if path in self.files:
            return {"pathSuffix": suffix, "type": "FILE", "length": len(self.files[path]), "modificationTime": 0}
        if path in self.folders:
            return {"pathSuffix": suffix, "type": "DIRECTORY", "length": 0, "modificationTime": 0}
        raise Failed(404, "FileNotFoundException", f"File does not exist: {path}")

    def inside(self, path: str) -> Iterator[str]:
        for each in sorted({*self.files, *self.folders} - {"/"}):
            if each.rpartition("/")[0] == path.rstrip("/"):
                yield each.rpartition("/")[2]


class Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
        content = self._content()
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        self.server.requests.append(query)
        failure = self.server.failures.pop(0) if self.server.failures else 200
        if failure == DROPPED:
            self.close_connection = True
            return
        try:
            if failure > 200:
                self._send(failure, b"")
                return
            self._check(query)
            path = unquote(parts.path.removeprefix("/webhdfs/v1")).rstrip("/") or "/"
            work = self._data if self.server.is_data_node else self._names
            self._send(*work(path, query, content), cut=failure)
        except Failed as error:
            self._send(error.args[0], json.dumps(error.args[1]).encode())

    do_PUT = do_DELETE = do_GET

    def _content(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _check(self, query: dict[str, str]) -> None:
        if query.get("delegation", "") != self.server.cluster.token:
            raise Failed(403, "SecurityException", "Failed to obtain user group information: token is expired")
        # A real one on standby refers writers to a data node, which asks it, and reports what it answers.
        of_standby = self.server.is_standby and query["op"] != "CREATE"
        if of_standby or query.get("namenoderpcaddress") == STANDBY:
            text = "Operation category READ is not supported in state standby. Visit https://s.apache.org/sbnn-error"
            raise Failed(403, "StandbyException", text)

    def _names(self, path: str, query: dict[str, str], _: bytes) -> tuple[int, bytes, str]:
        cluster, operation = self.server.cluster, query["op"]
        if operation in ("OPEN", "CREATE"):
            if operation == "OPEN":
                size = cluster.status(path)["length"]
                if 0 < size <= int(query.get("offset", 0)):
                    raise Failed(403, "IOException", f"Offset={query['offset']} out of the range [0, {size}); OPEN")
            elif self.server.is_standby:
                query["namenoderpcaddress"] = STANDBY
            return 307, b"", f"http://{cluster.data_node.address}{urlsplit(self.path).path}?{urlencode(query)}"
        found: dict[str, Any] = {"boolean": True}
        if operation == "GETFILESTATUS":
            found = {"FileStatus": cluster.status(path)}
        elif operation == "LISTSTATUS":
            cluster.status(path)
            names = cluster.inside(path)
            inside = [cluster.status(f"{path.rstrip('/')}/{name}", name) for name in names]
            found = {"FileStatuses": {"FileStatus": inside}}
        elif operation == "MKDIRS":
            cluster.make_folder(path)
        elif operation == "RENAME":
            found["boolean"] = query["destination"] not in cluster.files and path in cluster.files
            if found["boolean"]:
                cluster.files[query["destination"]] = cluster.files.pop(path)
        elif operation == "DELETE":
            gone = [each for each in {*cluster.files, *cluster.folders} if f"{each}/".startswith(f"{path}/")]
            found["boolean"] = bool(gone)
            for each in gone:
                cluster.files.pop(each, None)
                cluster.folders.discard(each)
        else:
            raise Failed(400, "UnsupportedOperationException", operation)
        return 200, json.dumps(found).encode(), ""

    def _data(self, path: str, query: dict[str, str], content: bytes) -> tuple[int, bytes, str]:
        cluster = self.server.cluster
        if query["op"] == "CREATE":
            cluster.put(path, content)
            return 201, b"", ""
        start = int(query.get("offset", 0))
        return 200, cluster.files[path][start:][: int(query.get("length", 1 << 40))], ""

    def _send(self, status: int, content: bytes, location: str = "", cut: int = 0) -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if cut == HALF_UNANNOUNCED:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if cut in (HALF, HALF_UNANNOUNCED):
            content, self.close_connection = content[: len(content) // 2], True
        self.wfile.write(content)


def closed_address() -> str:
    """Where no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def hdfs() -> Iterator[Cluster]:
    """A cluster, of which the first name node is active."""
    found = Cluster()
    with serving(*found.name_nodes, found.data_node):
        yield found
