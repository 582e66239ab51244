"""A client of one connection that asks by names and fields, and consumes as KIP-98 tells consumers to."""

import socket
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Self

import kseg
from kseg.formats.schema import MessageSchema
from kseg.serving.protocol import Api, apis


@cache
def api_of(name: str) -> Api:
    return next(api for api in apis().values() if api.name == name)


@cache
def response_of(name: str) -> MessageSchema:
    """The response, with records as bytes in base64."""
    found = api_of(name).response
    return MessageSchema(name, found.table.replace(":records", ":bytes"), found.highest, found.flexible)


class Peer:
    """Ends with the block it is used in."""

    def __init__(self, server: "kseg.LogServer", seconds: float = 20) -> None:
        self.socket = socket.create_connection((server.host, server.port), seconds)
        self.received_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, name: str, version: int, **values: Any) -> dict[str, Any]:
        """Returns the fields of the response. Raises EOFError where the connection ends instead."""
        self.send(name, version, **values)
        return self.answer(name, version)

    def send(self, name: str, version: int, **values: Any) -> None:
        self.socket.sendall(request(name, version, **values))

    def answer(self, name: str, version: int) -> dict[str, Any]:
        (size,) = struct.unpack(">i", self.received(4))
        data = self.received(size)
        assert data[:4] == struct.pack(">i", 7)
        is_tagged = api_of(name).is_flexible(version) and name != "ApiVersions"
        found, end = response_of(name).read(data, version, 5 if is_tagged else 4)
        assert end == size
        return found

    def received(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise EOFError
            found += piece
        self.received_bytes += size
        return found

    def is_closed(self) -> bool:
        """Whether the server ends the connection."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True


def request(name: str, version: int, **values: Any) -> bytes:
    api = api_of(name)
    head = struct.pack(">hhih", api.key, version, 7, 4) + b"test" + b"\0" * api.is_flexible(version)
    body = head + api.request.write(values, version)
    return struct.pack(">i", len(body)) + body


def fetch_of(topic: str, number: int, offset: int, **more: Any) -> dict[str, Any]:
    """The fields of a fetch of one partition, in a version before 13."""
    part = {"partition": number, "fetchOffset": offset, "partitionMaxBytes": more.pop("limit", 1 << 20)}
    asked = {"maxWaitMs": 0, "minBytes": 1, "replicaId": -1, "topics": [{"topic": topic, "partitions": [part]}]}
    return asked | {"isolationLevel": 0} | more


def consumed(batches: bytes, aborted: list[tuple[int, int]], offset: int, folder: Path) -> Iterator[kseg.Record]:
    """The records from an offset on that a consumer gets of batches; ``aborted``: producer ids and first offsets, where
    it reads only what is committed."""
    path = folder / "fetched.log"
    path.write_bytes(batches)
    left, dropped = sorted(aborted, key=lambda each: each[1]), set()
    for batch in kseg.open(path):
        assert isinstance(batch, kseg.Batch)
        while left and left[0][1] <= batch.last_offset:
            dropped.add(left.pop(0)[0])
        if batch.is_control:
            if next(iter(batch)).key == b"\0\0\0\0":
                dropped.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in dropped):
            yield from (record for record in batch if record.offset >= offset)
