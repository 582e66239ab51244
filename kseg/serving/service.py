"""A broker over the logs at PATHs: its options, what it opens, and the events that it reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from socket import socket
from typing import Any

from kseg.formats.json_values import name_value
from kseg.node.node import Nodes
from kseg.options import declaration
from kseg.options.declaration import RESOURCES, RULES, Value, option
from kseg.serving.catalog import Catalog
from kseg.serving.connections import Server, address_of, listen, shown_address
from kseg.serving.logs import LeftOut, ServedLog

_ADDRESS = Value("HOST:PORT", address_of)
_CLUSTER_ID = "kseg-serve"
"""The id of a cluster whose meta.properties is not there."""

Event = dict[str, Any]
"""An object of the command's JSON: keys in camelCase, ``type`` first."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What is served, and where."""

    paths: Sequence[str]
    listen: tuple[str, int] = option(
        "--listen", RESOURCES, "Listen on this address; port 0: any free one.", _ADDRESS, ("127.0.0.1", 9092),
        shown="127.0.0.1:9092",
    )  # fmt: skip
    advertise: tuple[str, int] | None = option(
        "--advertise", RESOURCES, "Tell clients this address; default: the one by which they come.", _ADDRESS
    )
    topics: Sequence[str] = declaration.topics()
    is_deep: bool = option(
        "--level", RULES, "deep: leave out batches whose records cannot be read, at which clients stop.",
        ("full", "deep"), shown="full", is_switch=True,
    )  # fmt: skip
    private_keys: tuple[str, ...] = declaration.private_keys()


class Service:
    """A server that listens. ``report`` gets events, from any thread. Raises KsegError."""

    def __init__(self, options: ServeOptions, report: Callable[[Event], None]) -> None:
        self._report = report
        self._damaged = set[str]()
        notice = partial(self._notice, None)
        self.catalog = Catalog(options.paths, options.topics, notice, self._tell, options.is_deep)
        self._listening: socket = listen(*options.listen)
        self.host, self.port = self._listening.getsockname()[:2]
        ids = (node.cluster_id for node in Nodes(self.catalog.places).given)
        cluster_id = next(filter(None, ids), _CLUSTER_ID)
        self.server = Server(self.catalog, self._listening, cluster_id, options.advertise, notice)
        if not ip_address(self.host).is_loopback:
            notice(
                f"{self.bootstrap} can be reached from other machines: whoever reaches it can read every record, "
                "without a password"
            )

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return shown_address(self.host, self.port)

    def started(self) -> None:
        """Reports that connections are accepted."""
        self._report(
            {
                "type": "listening", "host": self.host, "port": self.port, "topics": len(self.catalog.topics),
                "partitions": self.catalog.partition_count,
            }
        )  # fmt: skip

    def close(self) -> None:
        """Reports the end, and frees the port and temporary files."""
        self._listening.close()
        self.catalog.segments.close()
        done = self.server
        self._report(
            {
                "type": "ended", "connections": done.connections, "requests": done.requests, "bytes": done.sent_bytes,
                "damagedPartitions": len(self._damaged),
            }
        )  # fmt: skip

    def _notice(self, partition: str | None, message: str) -> None:
        self._report({"type": "notice", "partition": name_value(partition), "message": message})

    def _tell(self, log: ServedLog, found: LeftOut | str) -> None:
        """Reports the first damage of a partition, and sentences about it."""
        if isinstance(found, str):
            self._notice(log.name, found)
        elif log.name not in self._damaged:
            self._damaged.add(log.name)
            self._report(
                {
                    "type": "damage", "partition": name_value(log.name), "file": name_value(found.path),
                    "position": found.position, "code": found.code, "message": found.message,
                }
            )  # fmt: skip
