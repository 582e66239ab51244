"""The result of ``kseg.serve``: a read-only broker in this process."""

import asyncio
import logging
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

from kseg.api.archives import readable
from kseg.api.arguments import Keys, Paths, checked, keys_of, paths_of, words_of
from kseg.options.declaration import filled
from kseg.serving.service import Event, ServeOptions, Service


class LogServer:
    """A read-only Kafka broker that runs in a thread until it is closed, as by the end of a ``with`` block.

    ``bootstrap`` is the address that clients connect to, ``host`` and ``port`` its parts.

    >>> with kseg.serve("orders-0") as server:
    ...     print(server.host)
    127.0.0.1
    """

    def __init__(self, options: ServeOptions, private_keys: Keys | None) -> None:
        self._log = logging.getLogger("kseg")
        with ExitStack() as stack:
            places = stack.enter_context(readable(options.paths, keys_of(private_keys)))
            self._service = Service(replace(options, paths=places), self._report)
            stack.callback(self._service.close)
            started = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
            self._thread.start()
            started.wait()
            self._opened = stack.pop_all()
        self.host: str = self._service.host
        self.port: int = self._service.port
        self.bootstrap: str = self._service.bootstrap

    def _run(self, started: threading.Event) -> None:
        asyncio.run(self._service.server.serve(started.set))

    def _report(self, event: Event) -> None:
        if "message" in event:
            self._log.warning("%s: %s", event.get("file") or event["partition"] or "kseg.serve", event["message"])

    def close(self) -> None:
        """Ends it and all its connections; may be called again."""
        self._service.server.stop()
        self._thread.join()
        self._opened.close()

    def __enter__(self) -> "LogServer":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LogServer {self.bootstrap}>"


@checked
def serve(
    path: Paths,
    *,
    listen: str = "127.0.0.1:0",
    advertise: str | None = None,
    topics: str | Iterable[str] | None = None,
    level: Literal["full", "deep"] = "full",
    private_keys: Keys | None = None,
) -> LogServer:
    """Lets Kafka's clients read logs, as ``kseg serve`` does: a read-only broker over log directories, partitions,
    archives, stores or remote storage, in a thread of this process.

    ``listen``: HOST:PORT; port 0 is any free one. ``advertise``: the address that clients are told, instead of the one
    by which they come. ``topics``: globs. ``level="deep"``: batches whose records cannot be read are left out, at which
    clients stop. ``private_keys`` as in `kseg.open`. Damage is logged as a warning. Raises
    PathError if a path cannot be read, holds no partition, or the port is taken; RequestError for an invalid address.

    >>> server = kseg.serve("kafka-logs")
    >>> server.bootstrap.partition(":")[0]
    '127.0.0.1'
    >>> server.close()
    """
    given: dict[str, Any] = {"listen": listen, "advertise": advertise, "topics": words_of(topics), "level": level}
    return LogServer(filled(ServeOptions, given, paths=paths_of(path), private_keys=()), private_keys)
