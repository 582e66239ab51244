"""HDFS over http (WebHDFS) for `kseg.stores.object_urls`: no JVM, and no library of Hadoop.

Differs from fsspec's client: an answer is checked before its bytes are taken for those of a file, the name nodes of a
name service are tried in turn, requests have time limits and are repeated, a file is written by one request, and the
texts of errors have no delegation tokens. Source: WebHDFS REST API, and WebHdfsFileSystem of Hadoop.
"""

import getpass
import io
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

import requests
from fsspec.implementations.webhdfs import WebHDFS

from kseg.errors import KsegError
from kseg.stores.http_requests import BUSY, HttpRequests, take_attempts_and_seconds
from kseg.stores.stored_object import shown

HTTP_PORT, HTTPS_PORT = 9870, 9871
"""Default ports of a name node (dfs.namenode.http-address and https-address)."""

_PARAMETERS = frozenset(signature(WebHDFS.__init__).parameters) - {"self", "kwargs"}
_STANDBY = "StandbyException"
_LATER = ("RetriableException", "SafeModeException")
_ERRORS: Mapping[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError, "FileAlreadyExistsException": FileExistsError,
    "AccessControlException": PermissionError, "SecurityException": PermissionError,
}  # fmt: skip


class TemporaryError(OSError):
    """The same request may succeed later."""


class UnreachableError(OSError):
    """No server listens at an address."""


class StandbyError(TemporaryError):
    """A name node is not the active one."""


def open_webhdfs(url: str, settings: Mapping[str, Any], pause: Callable[[float], object]) -> tuple["WebHdfs", str]:
    """Returns the file system of a URL, and the path in it. Raises KsegError.

    ``settings``: parameters of fsspec's WebHDFS (``host`` and ``port`` of a name node: other than the URL's),
    ``name_nodes`` (several HOST:PORT), ``max_attempts`` and ``request_timeout``.
    """
    given, place = dict(settings), urlsplit(url)
    is_https = bool(given.pop("use_https", place.scheme == "swebhdfs"))
    if given.get("kerberos"):
        if find_spec("requests_kerberos") is None:
            text = "Kerberos needs the package requests-kerberos: pip install requests-kerberos"
            raise KsegError(f"{shown(url)}: {text}")
    elif "token" not in given:
        given.setdefault("user", place.username or os.environ.get("HADOOP_USER_NAME") or getpass.getuser())
    try:
        addresses = _addresses(url, given, HTTPS_PORT if is_https else HTTP_PORT)
        attempts, seconds = take_attempts_and_seconds(given)
        unknown = next((name for name in given if name not in _PARAMETERS), None)
        if unknown is not None:
            raise KsegError(f"{shown(url)}: WebHDFS has no parameter {unknown!r}")
        system = WebHdfs(addresses, attempts, seconds, pause, use_https=is_https, **given)
    except ValueError as error:
        raise KsegError(f"{shown(url)}: {' '.join(str(error).split())}") from None
    return system, place.path.rstrip("/")


def _addresses(url: str, given: dict[str, Any], usual_port: int) -> tuple[str, ...]:
    """Takes the name nodes from the settings, and returns HOST:PORT of each. Raises KsegError."""
    place = urlsplit(url)
    port = place.port if place.scheme != "hdfs" else None  # that of hdfs:// is the port of Hadoop's own protocol
    host, port = given.pop("host", place.hostname), given.pop("port", port) or usual_port
    nodes = given.pop("name_nodes", ()) or (f"{host or ''}:{int(port)}",)
    nodes = nodes.split(",") if isinstance(nodes, str) else nodes
    found = tuple(node if ":" in node else f"{node}:{usual_port}" for node in nodes)
    if not all(node.partition(":")[0] for node in found):
        raise KsegError(f"{shown(url)}: has no name node: give hdfs://HOST/PATH")
    return found


class WebHdfs(WebHDFS):
    """The file system of one or several name nodes. ``addresses``: HOST:PORT of their http servers."""

    cachable = False

    def __init__(
        self,
        addresses: tuple[str, ...],
        attempts: int,
        seconds: float,
        pause: Callable[[float], object],
        **options: Any,
    ) -> None:
        host, _, port = addresses[0].rpartition(":")
        super().__init__(host, int(port), **options)
        self._addresses, self._active = addresses, 0
        self._scheme = urlsplit(self.url).scheme
        self._seconds = seconds
        self._repeated = HttpRequests(attempts, pause, lambda error: isinstance(error, TemporaryError))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Returns a range of a file, which ends with the file."""
        return self._repeated.call(self._range, path, start or 0, end)

    def _range(self, path: str, start: int, end: int | None) -> bytes:
        wanted = {} if end is None else {"length": end - start}
        try:
            answer = self._ask_name_nodes("OPEN", "get", path, {"offset": start, **wanted})
        except FileNotFoundError:
            raise
        except OSError:
            if start and start >= self._length(path):
                return b""
            raise
        found = bytes(self._redirected(answer, "get").content)
        if end is None or len(found) < end - start:
            whole = min(self._length(path), end or 1 << 63)
            if start + len(found) < whole:
                raise TemporaryError(f"{len(found)} of {whole - start} bytes were sent")
        return found

    def _length(self, path: str) -> int:
        return int(self._ask_name_nodes("GETFILESTATUS", "get", path, {}).json()["FileStatus"]["length"])

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Renames a file or directory. Raises OSError if the name node refuses it, which it reports as false."""
        if not self._call("RENAME", "put", path1, destination=path2).json()["boolean"]:
            raise OSError(f"{path1} cannot be renamed to {path2}")

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        """Writes a file; one that exists is replaced."""
        self._repeated.call(self._create, path, io.BytesIO(value))

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        """Writes a file with the bytes of a local one."""
        with open(lpath, "rb") as content:
            self._repeated.call(self._create, rpath, content)

    def _create(self, path: str, content: BinaryIO) -> None:
        # A name node on standby refers a writer to a data node, too, and that refuses: this finds the active one.
        self._ask_name_nodes("MKDIRS", "put", path.rpartition("/")[0] or "/", {})
        answer = self._ask_name_nodes("CREATE", "put", path, {"overwrite": "true"})
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        if "Location" not in answer.headers:
            raise OSError("the name node names no data node")
        self._redirected(answer, "put", data=content if size else b"")

    def _call(self, op: str, method: str = "get", path: str | None = None, **given: Any) -> Any:
        """Answers the requests of fsspec's client for all but the bytes of files."""
        ask = partial(self._ask_name_nodes, op, method, path or "/", given)
        return self._repeated.call(lambda: self._redirected(ask(), method))

    def _ask_name_nodes(self, op: str, method: str, path: str, given: Mapping[str, Any]) -> Any:
        """Returns the answer of the active name node: the one of the last answer is asked first."""
        query, failed = {**given, **self.pars, "op": op.upper()}, list[OSError]()
        first = self._active
        for at in range(first, first + len(self._addresses)):
            at %= len(self._addresses)
            url = f"{self._scheme}://{self._addresses[at]}/webhdfs/v1{quote(path or '/', safe='/=')}"
            try:
                answer = self._ask(method, self._apply_proxy(url), params=query)
            except (StandbyError, UnreachableError) as error:
                failed.append(error)
                continue
            self._active = at
            return answer
        if len(failed) == 1:
            raise failed[0]
        is_later = any(isinstance(error, StandbyError) for error in failed)
        raise (TemporaryError if is_later else OSError)(f"no active name node: {'; '.join(map(str, failed))}")

    def _redirected(self, answer: Any, method: str, data: Any = None) -> Any:
        """Returns the answer of the data node to which an answer leads; the answer itself if to none."""
        location = answer.headers.get("Location")
        if location is None:
            return answer
        url = self._apply_proxy(location)
        # The location names the user, or has a token. Kerberos and passwords are for the name node.
        is_other = urlsplit(url).netloc != urlsplit(answer.request.url).netloc
        try:
            return self._ask(method, url, data=data, **({"auth": lambda request: request} if is_other else {}))
        except UnreachableError as error:
            raise TemporaryError(str(error)) from None  # the name node may choose another one

    def _ask(self, method: str, url: str, **options: Any) -> Any:
        """Returns the checked answer to a request."""
        server = urlsplit(url).netloc.rpartition("@")[2]
        try:
            answer = self.session.request(
                method.upper(), url, allow_redirects=False, timeout=self._seconds, **options
            )  # the content is read here
        except requests.exceptions.SSLError:
            raise OSError(f"{server}: its certificate or TLS is refused") from None
        except requests.ConnectionError as error:
            from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

            cause = getattr(error.args[0] if error.args else None, "reason", None)
            if isinstance(cause, NewConnectionError | ConnectTimeoutError):
                raise UnreachableError(f"{server}: no connection") from None
            raise TemporaryError(f"{server}: {type(error).__name__}") from None
        except requests.Timeout:
            raise TemporaryError(f"{server}: no answer within {self._seconds:g} seconds") from None
        except requests.exceptions.ChunkedEncodingError:
            raise TemporaryError(f"{server}: the answer is cut off") from None
        except requests.RequestException as error:
            raise OSError(f"{server}: {type(error).__name__}") from None  # the text has the URL with its token
        if answer.status_code < 400:
            return answer
        raise _error_of(answer, server)


def _error_of(answer: Any, server: str) -> OSError:
    status = answer.status_code
    try:
        found = answer.json()["RemoteException"]
        name, text = str(found["exception"]), str(found["message"])
    except (ValueError, KeyError, TypeError):
        error = TemporaryError if status in BUSY else OSError
        return error(f"{server}: the server answered {status} {answer.reason}")
    text = next(iter(text.splitlines()), "") or name
    if name == _STANDBY:
        return StandbyError(f"{server}: {text}")
    if name in _LATER:
        return TemporaryError(text)
    return _ERRORS.get(name, OSError)(text)
