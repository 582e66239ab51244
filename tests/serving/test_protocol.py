"""The tables of requests and responses against those of kio, a library that is made from Kafka's definitions too."""

import io
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.schema import Field, MessageError
from kseg.serving.protocol import MAX_ITEMS, Request, apis, read_request, response_parts
from serving.peer import api_of, request, response_of

_UNKNOWN_TO_KIO = {("ApiVersions", 5), ("DeleteGroups", 3)}
VERSIONS = [(api, version) for api in apis().values() for version in range(api.lowest, api.highest + 1)]
_SAMPLES: dict[str, Any] = {
    "bool": True, "i8": 1, "i16": 3, "i32": 70_000, "i64": 5_000_000_000, "str": "name", "bytes": "AQID",
    "records": "AQID", "uuid": "AQIDBAUGBwgJCgsMDQ4PEA",
}  # fmt: skip


def sample(fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    """A value for each field of a version, two elements in each array."""
    found = {}
    for each in fields:
        if each.is_in(version):
            one = sample(each.fields, version) if each.kind == "struct" else _SAMPLES[each.kind]
            found[each.name] = [one, one] if each.is_array else one
    return found


@pytest.mark.sampled(25)
@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
def test_a_message_is_that_of_kio(api: Any, version: int, side: str) -> None:
    index, serial, constants = (pytest.importorskip(f"kio.{name}") for name in ("index", "serial", "static.constants"))
    if (api.name, version) in _UNKNOWN_TO_KIO:
        pytest.skip("kio has not this version")
    schema = response_of(api.name) if side == "response" else api.request
    if side == "request" and api.name == "Produce":
        pytest.skip("its records are not read")
    values = sample(schema.fields, version)
    written = schema.write(values, version)
    kind = constants.EntityType[side]
    entity = getattr(index.load_payload_module(api.key, version, kind), f"{api.name}{side.title()}")
    read, end = serial.entity_reader(entity)(written, 0)
    assert end == len(written)
    out = io.BytesIO()
    serial.entity_writer(entity)(out, read)
    assert out.getvalue() == written
    assert schema.read(written, version) == (values, len(written))


def test_a_request_is_read_with_its_header() -> None:
    found = read_request(request("Heartbeat", 4, groupId="g", generationId=1, memberId="m", groupInstanceId=None)[4:])
    assert (found.api.name, found.version, found.correlation_id, found.client_id) == ("Heartbeat", 4, 7, "test")
    assert found.values == {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None}


def test_the_size_of_a_response_counts_records_from_elsewhere() -> None:
    part = {"partitionIndex": 0, "errorCode": 0, "highWatermark": 9, "records": b"batches"}
    fetch = Request(api_of("Fetch"), 12, 7, "", {})
    parts = response_parts(fetch, {"responses": [{"topic": "t", "partitions": [part]}]})
    assert parts[1] == b"batches"
    whole = b"".join(parts)
    assert struct.unpack(">i", whole[:4]) == (len(whole) - 4,)


def _with_count(count: int) -> bytes:
    return struct.pack(">hhihi", 3, 1, 7, -1, count)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"abc", _with_count(0x7FFFFFFF), _with_count(5), struct.pack(">hhih", 18, 3, 7, 500),
        struct.pack(">hhih", 3, 12, 7, -1) + b"\xff" * 8, struct.pack(">hhih", 3, 12, 7, -1) + b"\x01\x05\xff\xff\xff",
        _with_count(MAX_ITEMS) + b"\0\1t" * MAX_ITEMS,
    ],
    ids=["empty", "short", "2^31 topics", "5 topics", "client id", "varint", "tag", "items"],
)  # fmt: skip
def test_a_length_that_lies_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        read_request(data)


_LIES = st.sampled_from([b"", b"\xff" * 5, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xfe", b"\x7f\xff"])


@given(
    st.sampled_from(VERSIONS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8), _LIES | st.binary(max_size=8)))
)
def test_a_changed_request_is_read_or_refused(kind: tuple[Any, int], changes: list[tuple[float, int, bytes]]) -> None:
    api, version = kind
    values = sample(api.request.fields, version) | ({"topicData": []} if api.name == "Produce" else {})
    data = request(api.name, version, **values)[4:]
    for share, gone, more in changes:
        at = int(share * len(data))
        data = data[:at] + more + data[at + gone :]
    with suppress(MessageError):
        assert read_request(data).api.key == struct.unpack(">h", data[:2])[0]


@pytest.mark.parametrize(("key", "version"), [(18, 99), (18, -1), (1, 3), (999, 0)])
def test_an_unknown_version_is_told(key: int, version: int) -> None:
    data = struct.pack(">hhih", key, version, 7, -1)
    if key == 18:
        assert read_request(data) == (api_of("ApiVersions"), 0, 7, "", {"errorCode": 35})
    else:
        with pytest.raises(MessageError, match=f"{key} in version {version}"):
            read_request(data)
