"""What every decoder of internal records gives back, and the protocol that it keeps."""

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

Headers = Iterable[tuple[bytes, bytes | None]]
"""A record's headers in their order, keys and values; KIP-82 gives them to deserializers."""


class Decoded(NamedTuple):
    """One record, twice: the texts that kafka-dump-log.sh prints, and the same data as plain dict, list, int and str.

    key_text, payload_text   what follows ``key: `` and ``payload: ``; None: nothing is printed
    key, value               for JSON; what could not be decoded is an ``undecodable`` object
    """

    key_text: str | None
    payload_text: str | None
    key: Any
    value: Any


class Decoder(Protocol):
    """Decodes the records of one internal topic. Never raises for bad bytes: the texts say what is wrong with them.

    It may have a ``program`` (`kseg.formats.program`), by which the kernel shows the same of records that are plain.
    """

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """One record; `offset` is its Kafka offset, which error texts name. Control records are not for decoders.

        Internal topics have no `headers` that say anything; the formats of a user's keys and values look at them.
        """
        ...


def undecodable(data: bytes | None, error: str) -> Any:
    """Bytes that no schema fits, for JSON: why, and the bytes themselves."""
    if data is None:
        return None
    return {"error": error, "base64": base64.b64encode(data).decode("ascii")}
