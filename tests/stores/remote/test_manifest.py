"""Manifests: real ones, and hostile ones, whose claims are bounded before anything is read by them."""

import base64
import json
import struct
from typing import Any

import pytest
import zstandard

from kseg.stores.remote.segment import Manifest, ManifestError, parse_manifest, variable_sizes

FIXED = {
    "type": "fixed", "originalChunkSize": 10, "originalFileSize": 25, "transformedChunkSize": 10,
    "finalTransformedChunkSize": 5,
}  # fmt: skip
PARTS: dict[str, Any] = {
    name: {"position": 0, "size": 0} for name in ("offset", "timestamp", "producerSnapshot", "leaderEpoch")
}


def manifest(**changes: Any) -> Manifest:
    fields = {"version": "1", "chunkIndex": FIXED, "segmentIndexes": PARTS, "compression": False}
    return parse_manifest(json.dumps(fields | changes).encode())


def variable(data: bytes, **changes: Any) -> dict[str, Any]:
    packed = base64.b64encode(zstandard.compress(data)).decode()
    return {"type": "variable", "originalChunkSize": 10, "originalFileSize": 25, "transformedChunks": packed} | changes


def test_a_fixed_index() -> None:
    chunks = manifest().chunks
    assert (len(chunks), list(chunks.positions)) == (3, [0, 10, 20, 25])
    assert [chunks.original_range(number) for number in range(3)] == [(0, 10), (10, 20), (20, 25)]


@pytest.mark.parametrize(
    ("data", "sizes"),
    [
        (struct.pack(">i", 0), []),
        (struct.pack(">ii", 1, 9), [9]),
        (struct.pack(">iiB", 3, 100, 2) + b"\x00\x00\x01\x02" + struct.pack(">i", 4), [100, 358, 4]),
    ],
)
def test_variable_sizes(data: bytes, sizes: list[int]) -> None:
    assert list(variable_sizes(data)) == sizes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "2"}, "version '2'"),
        ({"compression": None}, "compression"),
        ({"chunkIndex": None}, "chunkIndex is missing"),
        ({"chunkIndex": FIXED | {"type": "other"}}, "unknown type 'other'"),
        ({"chunkIndex": FIXED | {"originalFileSize": 1 << 31}}, "originalFileSize is 2147483648"),
        ({"chunkIndex": FIXED | {"originalFileSize": True}}, "originalFileSize is True"),
        ({"chunkIndex": FIXED | {"originalChunkSize": 1 << 30, "originalFileSize": 1 << 30}}, "above the limit"),
        ({"chunkIndex": FIXED | {"originalChunkSize": 1, "originalFileSize": (1 << 31) - 1}}, "chunks are above"),
        ({"chunkIndex": FIXED | {"transformedChunkSize": 11}}, "is stored in 11 bytes"),
        ({"chunkIndex": FIXED | {"finalTransformedChunkSize": 6}}, "is stored in 6 bytes"),
        ({"chunkIndex": variable(struct.pack(">ii", 1, 9))}, "has 1 chunks, the sizes"),
        ({"chunkIndex": variable(struct.pack(">i", 1 << 30))}, "too early"),
        ({"chunkIndex": variable(struct.pack(">iiB", 3, 1, 9))}, "of width 9"),
        ({"chunkIndex": variable(struct.pack(">i", -1))}, "-1 chunks"),
        ({"chunkIndex": variable(struct.pack(">iiB", 3, 0, 1) + b"\0\0" + struct.pack(">i", 4))}, "without bytes"),
        ({"chunkIndex": variable(bytes(64 << 20))}, "cannot be decoded"),
        ({"chunkIndex": variable(b"", transformedChunks="x")}, "cannot be decoded"),
        ({"chunkIndex": variable(struct.pack(">iiB", 3, 1 << 30, 1) + b"\0\0" + struct.pack(">i", 4))}, "stored chunk"),
        ({"segmentIndexes": {}}, "segmentIndexes has no offset"),
        ({"segmentIndexes": PARTS | {"offset": {"position": -1, "size": 0}}}, "position is -1"),
        ({"segmentIndexes": PARTS | {"offset": {"position": 0, "size": 1 << 40}}}, "size is 1099511627776"),
        ({"encryption": {"dataKey": "k1:AA=="}}, "stored in 10 bytes"),
        ({"compression": True, "encryption": {"dataKey": "AA==", "aad": ""}}, "names no key pair"),
        ({"compression": True, "encryption": {"dataKey": "k1:AA==", "aad": "?"}}, "cannot be decoded"),
    ],
)  # fmt: skip
def test_hostile_manifests(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        manifest(**changes)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"version": NaN}'])
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(data)


@pytest.mark.parametrize("metadata", [None, {}, {"startOffset": "0"}, [], {"remoteLogSegmentId": 1}])
def test_metadata_that_cannot_be_used_is_left_out(metadata: object) -> None:
    assert manifest(remoteLogSegmentMetadata=metadata).metadata is None
