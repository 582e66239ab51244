"""How far partitions are copied to remote storage, by the __remote_log_metadata of a real broker."""

from pathlib import Path

from cli.command import TESTDATA
from kseg import open as open_log
from kseg.decoders import decoder
from kseg.node.remote_copies import copied_offsets

TIERED = TESTDATA / "kafka-4.3.1" / "tiered"


def test_the_last_finished_copy_counts(tmp_path: Path) -> None:
    ends: dict[str, tuple[tuple[str, int], int]] = {}
    states: dict[str, int] = {}
    read = decoder("remote-log-metadata")
    for path in sorted(TIERED.glob("__remote_log_metadata-*")):
        for record in open_log(path).records():
            data = read.decode(record.key, record.value, record.offset).value["data"]
            segment = data["remoteLogSegmentId"]
            place = segment["topicIdPartition"]
            states[segment["id"]] = data["remoteLogSegmentState"]
            if "endOffset" in data:
                ends[segment["id"]] = ((place["name"], place["partition"]), data["endOffset"])
    wanted: dict[tuple[str, int], int] = {}
    for segment, (place, end) in ends.items():
        if states[segment] == 1:
            wanted[place] = max(end, wanted.get(place, -1))
    assert wanted
    assert copied_offsets([str(TIERED)]) == wanted
    assert copied_offsets([str(tmp_path)]) is None
