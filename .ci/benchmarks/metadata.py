"""The image of a metadata log of many partitions: ``python -m benchmarks.metadata``.

The log is made field by field: topics of 1,000 partitions each, and a change of the leader of every tenth. Prints the
seconds and the peak memory of ``kseg cluster --format json``.
"""

import argparse
import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import KSEG, timed
from kseg.decoders.framed import FramedRecord, framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.formats.record_batch import build_batch

TOPIC, PARTITION, CHANGE, FEATURE = 2, 3, 5, 12
PARTITIONS_OF_TOPIC, RECORDS_OF_BATCH = 1000, 500
METADATA_VERSION = 30  # 4.3


def records(partitions: int) -> Iterator[FramedRecord]:
    yield FramedRecord(FEATURE, 0, {"name": "metadata.version", "featureLevel": METADATA_VERSION})
    for number in range(partitions // PARTITIONS_OF_TOPIC):
        topic_id = base64.urlsafe_b64encode((number + 1).to_bytes(16, "big")).decode("ascii").rstrip("=")
        yield FramedRecord(TOPIC, 0, {"name": f"topic-{number}", "topicId": topic_id})
        for partition in range(PARTITIONS_OF_TOPIC):
            replicas = [partition % 7, partition % 7 + 1, partition % 7 + 2]
            yield FramedRecord(PARTITION, 2, {
                "partitionId": partition, "topicId": topic_id, "replicas": replicas, "isr": replicas,
                "removingReplicas": [], "addingReplicas": [], "leader": replicas[0], "leaderEpoch": 0,
                "partitionEpoch": 0, "directories": [topic_id] * 3,
            })  # fmt: skip
            if partition % 10 == 0:
                change = {"partitionId": partition, "topicId": topic_id, "leader": replicas[1]}
                yield FramedRecord(CHANGE, 2, change)


def write_log(folder: Path, partitions: int) -> None:
    folder.mkdir()
    pending: list[tuple[bytes | None, bytes]] = []
    offset = 0
    with open(folder / f"{0:020}.log", "wb") as log:
        for record in records(partitions):
            pending.append((None, framed(record, CLUSTER_METADATA)))
            if len(pending) == RECORDS_OF_BATCH:
                log.write(build_batch(offset, 1, 1, pending))
                offset, pending = offset + len(pending), []
        if pending:
            log.write(build_batch(offset, 1, 1, pending))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata", description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000, help="default: 1,000,000")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "__cluster_metadata-0")
        write_log(folder, options.partitions)
        seconds, peak = timed([*KSEG, "cluster", "--format", "json", str(folder)])
        print(f"{options.partitions:,} partitions: {seconds:.1f} s, {peak >> 20:,} MiB at most")


if __name__ == "__main__":
    main()
