"""The protocol of decoders of internal records, and their result."""

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

Headers = Iterable[tuple[bytes, bytes | None]]
"""A record's headers in order, as (key, value); passed to decoders as KIP-82 passes them to deserializers."""


class Decoded(NamedTuple):
    """One decoded record: the texts printed by kafka-dump-log.sh, and the same data as dict, list, int and str.

    key_text, payload_text   the text after ``key: `` and ``payload: ``; None: nothing is printed
    key, value               for JSON; undecodable data is an ``undecodable_json`` object
    marks                    further fields for JSON, if the key or value does not show all of its bytes
    """

    key_text: str | None
    payload_text: str | None
    key: Any
    value: Any
    marks: dict[str, Any] | None = None


class Decoder(Protocol):
    """Decodes the records of one internal topic. Never raises for malformed bytes: the texts report the error.

    May have a ``program`` (`kseg.formats.program`), with which the kernel renders well-formed records identically, and
    ``implies_contents`` False: records are printed with contents only on request.
    """

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; `offset` is its Kafka offset, used in error texts. Not called for control records.

        Decoders of internal topics ignore `headers`; decoders of user keys and values use them.
        """
        ...


def undecodable_json(data: bytes | None, error: str) -> Any:
    """The JSON form of bytes that match no schema: the error and the bytes."""
    if data is None:
        return None
    return {"error": error, "base64": base64.b64encode(data).decode("ascii")}
