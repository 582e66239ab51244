"""``kseg restore --from-remote`` against the bare libraries: ``python -m benchmarks.remote``.

The store has segments that are compressed and encrypted as Aiven's plugin does it, with a data key of a real one. All
take turns in one run; the best processor time of each counts. Values are random text, which halves by compression. The
bare libraries also write the logs, if a directory is given, and compute their CRC.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path
from struct import pack

import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from benchmarks.process import KSEG, best_spent
from benchmarks.segments import texts
from kseg.stores.remote.keys import private_keys
from kseg.stores.remote.segment import open_storage

ROUNDS = 3
RECORDS, VALUE_BYTES, SEGMENT_BYTES, CHUNK_BYTES = 300_000, 2000, 128 << 20, 4 << 20
REMOTE = Path(__file__).resolve().parents[2] / "testdata" / "remote"
KEY = f"k2={REMOTE / 'keys' / 'k2-private.pem'}"
BARE = """
import json, sys, zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
facts, target = json.load(open(sys.argv[1])), sys.argv[2] if len(sys.argv) > 2 else None
if target:
    from crc32c import crc32c
cipher, aad = AESGCM(bytes.fromhex(facts["key"])), bytes.fromhex(facts["aad"])
unpack = zstandard.ZstdDecompressor().decompress
for number, (path, sizes) in enumerate(facts["logs"]):
    output = target and open(f"{target}/{number}.log", "wb", 0)
    with open(path, "rb") as file:
        for size in sizes:
            stored = file.read(size)
            data = unpack(cipher.decrypt(stored[:12], stored[12:], aad))
            if output:
                crc32c(data)
                output.write(data)
"""


class Writer:
    """Writes segments as the plugin does. ``model``: a manifest with a data key that `KEY` opens."""

    def __init__(self, store: Path, model: dict[str, object], data_key: bytes, aad: bytes) -> None:
        self.store, self.model = store, model
        self.cipher, self.aad = AESGCM(data_key), aad
        self.packer = zstandard.ZstdCompressor()
        self.logs: list[tuple[str, list[int]]] = []

    def sealed(self, data: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + self.cipher.encrypt(nonce, data, self.aad)

    def add(self, partition: Path, start: int, end: int) -> None:
        """Writes the objects of the segment with offsets ``start`` to ``end``."""
        log = (partition / f"{start:020}.log").read_bytes()
        chunks = [log[at : at + CHUNK_BYTES] for at in range(0, len(log), CHUNK_BYTES)]
        stored = [self.sealed(self.packer.compress(chunk)) for chunk in chunks]
        parts, position, places = [], 0, dict[str, object]()
        for name, content in (
            ("offset", (partition / f"{start:020}.index").read_bytes()),
            ("timestamp", (partition / f"{start:020}.timeindex").read_bytes()),
            ("producerSnapshot", (partition / f"{end + 1:020}.snapshot").read_bytes()),
            ("leaderEpoch", b"0\n1\n0 0\n"),
        ):
            parts.append(self.sealed(content))
            places[name] = {"position": position, "size": len(parts[-1])}
            position += len(parts[-1])
        sizes = [len(chunk) for chunk in stored]
        codec = pack(">i", len(sizes))
        if len(sizes) > 1:
            codec += pack(">iB", 0, 4) + b"".join(pack(">I", size) for size in sizes[:-1])
        codec += pack(">i", sizes[-1])
        segment_id = b64encode(os.urandom(15)).decode().replace("+", "-").replace("/", "_") + "AA"
        manifest = {
            **self.model,
            "chunkIndex": {
                "type": "variable", "originalChunkSize": CHUNK_BYTES, "originalFileSize": len(log),
                "transformedChunks": b64encode(self.packer.compress(codec)).decode(),
            },
            "segmentIndexes": {**places, "transaction": None},
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": "QHL92B7vREWX3QcGRiUhcA", "topicPartition": {"topic": "t", "partition": 0},
                    },
                    "id": segment_id,
                },
                "startOffset": start, "endOffset": end, "maxTimestampMs": end, "brokerId": 1, "eventTimestampMs": 1,
                "segmentLeaderEpochs": {"0": start}, "txnIdxEmpty": True,
            },
        }  # fmt: skip
        stem = self.store / "t-QHL92B7vREWX3QcGRiUhcA" / "0" / f"{start:020}-{segment_id}"
        stem.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{stem}.log").write_bytes(b"".join(stored))
        Path(f"{stem}.indexes").write_bytes(b"".join(parts))
        Path(f"{stem}.rsm-manifest").write_text(json.dumps(manifest))
        self.logs.append((f"{stem}.log", sizes))


def build(folder: Path) -> None:
    """A partition, its remote storage, and what the bare libraries have to know of it."""
    made = folder / "made"
    made.mkdir()
    texts(random.Random(1), RECORDS, VALUE_BYTES, made / "t-0", "--segment-bytes", str(SEGMENT_BYTES))
    subprocess.run(
        [*KSEG, "reindex", "--snapshots", "--quiet", str(made / "t-0")], check=True, stdout=subprocess.DEVNULL
    )
    real = open_storage(str(REMOTE / "both" / "remote"), private_keys([KEY])).partitions[0].segments
    segment = next(found for found in real if found.manifest.encryption and found.manifest.encryption.key_id == "k2")
    model = json.loads(next((REMOTE / "both").rglob(f"*{segment.segment_id}.rsm-manifest")).read_text())
    encryption = segment.manifest.encryption
    assert encryption is not None
    data_key = private_keys([KEY]).data_key(encryption, "")
    writer = Writer(folder / "store", model, data_key, b64decode(model["encryption"]["aad"]))
    starts = sorted(int(path.stem) for path in (made / "t-0").glob("*.log"))
    for start, following in zip(starts, [*starts[1:], RECORDS], strict=True):
        writer.add(made / "t-0", start, following - 1)
    facts = {"key": data_key.hex(), "aad": writer.aad.hex(), "logs": writer.logs}
    (folder / "facts.json").write_text(json.dumps(facts))


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed kseg is not compiled in each run
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        output = folder / "rebuilt"
        kseg = [*KSEG, "restore", "--from-remote", str(folder / "store"), "--private-key", KEY]
        commands = {
            "bare libraries": [sys.executable, "-c", BARE, str(folder / "facts.json")],
            "and written": [sys.executable, "-c", BARE, str(folder / "facts.json"), str(output)],
            "from-remote": [*kseg, "--quiet", "--output", str(output)],
        }

        def prepare(what: str) -> None:
            shutil.rmtree(output, ignore_errors=True)
            if what == "and written":
                output.mkdir()

        best = best_spent(commands, ROUNDS, prepare)
        for what, (wall, processor) in best.items():
            print(f"{what:15} {wall:6.2f} s, {processor:6.2f} s of a processor")
        for what in ("bare libraries", "and written"):
            ratio = best["from-remote"][1] / best[what][1]
            print(f"from-remote takes {ratio:.2f} times the processor of: {what}")


if __name__ == "__main__":
    main()
