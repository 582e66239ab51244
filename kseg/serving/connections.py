"""The connections of clients: requests in, responses out, within bounds that hold whatever a client does.

Requests of one connection are answered one after the other. Sockets are read and written without buffers of their own:
what a client sends or leaves unread stays in the system's.
"""

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from functools import partial
from itertools import islice
from queue import SimpleQueue
from time import monotonic
from typing import Any

from kseg.errors import KsegError, PathError, text_of
from kseg.formats.schema import MessageError
from kseg.serving.answers import WAIT, Answers, Peer
from kseg.serving.catalog import Catalog
from kseg.serving.groups import Answer
from kseg.serving.logs import FileRange, Records, Steps, step
from kseg.serving.protocol import Request, read_request, response_parts
from kseg.stores.extent import Extent
from kseg.stores.place import Place

MAX_CONNECTIONS = 1000
MAX_REQUEST_BYTES = 4 << 20
SMALL_BYTES = 64 << 10
"""Requests and responses up to this size are always taken."""
LARGE_BYTES = 32 << 20
"""Bytes of all large requests that are being answered, and again of all large responses."""
STALLED_SECONDS, IDLE_SECONDS = 60, 600
_THREADS = 8
_TURN_SECONDS = 0.02
_PIECE_BYTES = 1 << 20
_COPIED_BYTES = 16 << 10
"""What is in memory of a range while its client is slow: little, as all clients may be."""
_WINDOW_BYTES = 128 << 10
_PART_BYTES = 600
"""What the records of a partition take in a response that waits to be sent, besides their bytes, which stay on disk."""
_PIECES = 4
"""Parts of a response that are opened together; most have no more."""
_SPARE_DESCRIPTORS = 128
_BACKLOG = 256
_SIZE = struct.Struct(">i")
_MORE = getattr(socket, "MSG_MORE", 0)
"""Bytes before a range of a file come with it, not as a packet of their own."""


class StepThreads:
    """Threads that run steps, each for a short turn, so that none waits for a long one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: SimpleQueue[tuple[Steps[Any], asyncio.Future[Any]] | None] = SimpleQueue()
        for _ in range(_THREADS):  # daemons: a step that waits for a disk does not hold up the end
            threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        for _ in range(_THREADS):
            self._waiting.put(None)

    async def work(self, steps: Steps[Any]) -> Any:
        """Runs steps to their end, and returns their result."""
        future = self._loop.create_future()
        self._waiting.put((steps, future))
        return await future

    def _run(self) -> None:
        while (turn := self._waiting.get()) is not None:
            steps, future = turn
            until = monotonic() + _TURN_SECONDS
            try:
                while not future.cancelled() and monotonic() < until:
                    next(steps)
            except StopIteration as end:
                self._tell(future, end.value, None)
            except BaseException as error:  # noqa: BLE001 - raised again by who waits for the result
                self._tell(future, None, error)
            else:
                if not future.cancelled():
                    self._waiting.put(turn)

    def _tell(self, future: "asyncio.Future[Any]", found: Any, error: BaseException | None) -> None:
        def tell() -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(found)
            else:
                future.set_exception(error)

        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(tell)


class Budget:
    """Bytes that large requests, or responses, share."""

    def __init__(self) -> None:
        self._left = LARGE_BYTES
        self._condition = asyncio.Condition()

    @asynccontextmanager
    async def of(self, size: int) -> Any:
        """Waits until this number of bytes is free, and takes them for the length of a block. Small sizes take none."""
        size = min(size, LARGE_BYTES) if size > SMALL_BYTES else 0
        if size:
            async with self._condition:
                await self._condition.wait_for(lambda: self._left >= size)
                self._left -= size
        try:
            yield
        finally:
            if size:
                self._left += size
                async with self._condition:
                    self._condition.notify_all()


class Server:
    """Serves a catalog on a socket until `stop`. ``advertised``: the host and port given to clients, None for those
    that each connected to. ``tell`` gets sentences about errors. ``connections``, ``requests`` and ``sent_bytes`` are
    the counts so far."""

    def __init__(
        self,
        catalog: Catalog,
        listening: socket.socket,
        cluster_id: str,
        advertised: tuple[str, int] | None,
        tell: Callable[[str], None],
    ) -> None:
        self.connections = self.requests = self.sent_bytes = 0
        self._catalog, self._listening, self._cluster_id, self._advertised = catalog, listening, cluster_id, advertised
        self._tell = tell
        self._loop: asyncio.AbstractEventLoop
        self._stopped: asyncio.Event
        self._tasks = set[asyncio.Task[None]]()

    def stop(self) -> None:
        """Ends `serve`; may be called from any thread, and more than once."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def serve(self, started: Callable[[], None]) -> None:
        """Accepts connections until `stop`; calls ``started`` when it does."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._of_requests, self._of_responses, self._threads = Budget(), Budget(), StepThreads(self._loop)
        self._answers = Answers(self._catalog, self._cluster_id, self._threads.work, self._tell)
        accepting = asyncio.create_task(self._accept())
        self._loop.call_soon(started)
        try:
            await self._stopped.wait()
        finally:
            tasks = [accepting, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._threads.close()

    async def _accept(self) -> None:
        most = most_connections()
        while True:
            try:
                client, _ = await self._loop.sock_accept(self._listening)
            except OSError as error:  # a client that is gone already, or too many open files
                self._tell(f"a connection was not accepted: {text_of(error)}")
                await asyncio.sleep(0.1)
                continue
            if len(self._tasks) >= most:
                client.close()
                continue
            self.connections += 1
            task = self._loop.create_task(self._client(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _client(self, client: socket.socket) -> None:
        """Answers the requests of a connection until it ends or sends something else."""
        with closing(client):
            client.setblocking(False)
            try:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer = self._peer(client)
                seconds = STALLED_SECONDS  # one that never asks holds its place as short as one that stops
                while await self._exchange(client, peer, seconds):
                    self.requests += 1
                    seconds = IDLE_SECONDS
            except (OSError, MessageError, EOFError):  # what it sends, or that it goes, is its own affair
                return
            except Exception as error:  # noqa: BLE001 - it ends this connection, and no other
                self._tell(f"a request was not answered: {type(error).__name__}: {error}")

    def _peer(self, client: socket.socket) -> Peer:
        host, port = self._advertised or client.getsockname()[:2]
        return Peer(client.getpeername()[0], host.removeprefix("::ffff:"), port)

    async def _exchange(self, client: socket.socket, peer: Peer, seconds: float) -> bool:
        """Reads a request, which may begin after so many seconds, and answers it. Returns whether another may follow.
        Raises OSError, TimeoutError, MessageError, EOFError."""
        (size,) = _SIZE.unpack(await self._received(client, _SIZE.size, seconds))
        if not 0 < size <= MAX_REQUEST_BYTES:
            return False
        waiting: Answer | None = None
        async with self._of_requests.of(size):
            request = await self._read(await self._received(client, size, STALLED_SECONDS))
            found = await self._answers.of(request, peer)
            if found is None:
                return False
            if isinstance(found, asyncio.Future):
                waiting, request = found, request._replace(values={})
            else:
                seconds, parts = found.pop(WAIT, 0), response_parts(request, found)
                del request, found  # they are larger than the response, which may wait long
        if waiting is not None:  # for other clients, and holding nothing that further ones need
            seconds, parts = 0, response_parts(request, await waiting)
        await asyncio.sleep(seconds)
        async with self._of_responses.of(sum(len(part) + _PART_BYTES for part in parts if isinstance(part, bytes))):
            await self._send(client, parts)
        return True

    async def _read(self, data: bytes) -> Request:
        if len(data) <= SMALL_BYTES:
            return read_request(data)
        found: Request = await self._threads.work(step(lambda: read_request(data)))
        return found

    async def _received(self, client: socket.socket, size: int, seconds: float) -> bytes:
        """Returns so many bytes; memory is taken as they come. The first may take ``seconds``, more STALLED_SECONDS."""
        found = bytearray()
        while len(found) < size:
            async with asyncio.timeout(seconds):
                piece = await self._loop.sock_recv(client, min(size - len(found), SMALL_BYTES))
            if not piece:
                raise EOFError
            found += piece
            seconds = STALLED_SECONDS
        return bytes(found)

    async def _send(self, client: socket.socket, parts: Sequence[Any]) -> None:
        """Sends bytes, and ranges of files as they lie there. Raises OSError, TimeoutError, EOFError."""
        pieces = self._pieces(parts)
        ranges = (each for part in parts if isinstance(part, Records) for each in part.ranges)
        is_local = all(Place(each.path).tree is None for each in ranges)
        try:
            is_last = False
            while not is_last:
                # Opening a local file takes less time than handing it to a thread; others may have to be fetched.
                take: Callable[[], list[Any]] = partial(list, islice(pieces, _PIECES))
                several = take() if is_local else await self._threads.work(step(take))
                is_last = len(several) < _PIECES
                with ExitStack() as opened:
                    for extent in (piece[0] for piece in several if isinstance(piece, tuple)):
                        opened.callback(extent.close)
                    for piece in several:
                        if isinstance(piece, bytes):
                            await self._send_bytes(client, piece, 0 if piece is several[-1] else _MORE)
                        else:
                            await self._send_range(client, *piece)
        except KsegError as error:  # of the file, not of the client
            self._tell(text_of(error))
            raise EOFError from error

    def _pieces(self, parts: Sequence[Any]) -> "Iterator[bytes | tuple[Extent, FileRange]]":
        """Yields a response in pieces: small parts together, large ranges as open files, which the caller closes."""
        held = bytearray()
        for part in parts:
            if not isinstance(part, Records):
                held += part
                continue
            for each in part.ranges:
                extent = self._catalog.segments.open(each.path)
                if each.size > SMALL_BYTES:
                    if held:
                        yield bytes(held)
                        held.clear()
                    yield extent, each
                    continue
                with closing(extent):
                    data = extent.pread(each.size, each.position)
                if len(data) < each.size:
                    raise PathError(f"{each.path}: became shorter while it is served")
                held += data
            if len(held) >= _WINDOW_BYTES:
                yield bytes(held)
                held.clear()
        if held:
            yield bytes(held)

    async def _send_bytes(self, client: socket.socket, data: bytes, flags: int = 0) -> None:
        sent = 0
        with suppress(BlockingIOError):
            sent = client.send(data[:_WINDOW_BYTES], flags)
        for start in range(sent, len(data), _WINDOW_BYTES):
            async with asyncio.timeout(STALLED_SECONDS):
                await self._loop.sock_sendall(client, data[start : start + _WINDOW_BYTES])
        self.sent_bytes += len(data)

    async def _send_range(self, client: socket.socket, extent: Extent, each: FileRange) -> None:
        position, end = each.position, each.position + each.size
        while position < end:
            sent, size = 0, min(_PIECE_BYTES, end - position)
            # Whatever prevents it, also that the client is slow, the following read or write waits for or raises.
            with suppress(OSError, AttributeError):  # Windows has no sendfile
                sent = os.sendfile(client.fileno(), extent.descriptor, extent.start + position, size)
            if not sent:
                data = extent.pread(min(size, _COPIED_BYTES), position)
                if not data:
                    raise PathError(f"{each.path}: became shorter while it is served")
                async with asyncio.timeout(STALLED_SECONDS):
                    await self._loop.sock_sendall(client, data)
                sent = len(data)
            position += sent
            self.sent_bytes += sent
            if position < end:
                await asyncio.sleep(0)  # others' turn


def most_connections() -> int:
    """Returns how many connections are served: fewer where the system allows few open files."""
    try:
        import resource  # not on Windows
    except ImportError:
        return MAX_CONNECTIONS
    limit, largest = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS + _SPARE_DESCRIPTORS
    if limit < wanted and (largest == resource.RLIM_INFINITY or largest > limit):
        limit = wanted if largest == resource.RLIM_INFINITY else min(wanted, largest)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, largest))
    return max(min(MAX_CONNECTIONS, (limit - _SPARE_DESCRIPTORS) // 2), 1)


def address_of(text: str) -> tuple[str, int]:
    """Reads HOST:PORT; the host of an IPv6 address in brackets. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r} is no HOST:PORT, such as 127.0.0.1:9092")
    if (":" in host) != (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"{text!r}: the host of an IPv6 address stands in brackets, as [::1]:9092")
    return host.strip("[]"), int(port)


def shown_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Opens a socket that listens. Raises PathError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(_BACKLOG)
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise PathError(f"{shown_address(host, port)}: cannot be listened on: {text_of(error)}") from error
    return made
