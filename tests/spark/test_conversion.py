"""Conversion in tasks gives the same result as the local engine, for independent and dependent segments."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cleaner.building import build_record_batch
from cleaner.partitions import new_records, transactional_log, write_log
from cli.command import flip
from conversion.conversions import options
from kseg.conversion.planner import Conversion, rewrite, segments_of
from kseg.errors import KsegError
from kseg.spark import jobs
from kseg.spark.jobs import convert_on_spark
from spark.cluster import Cluster

pytestmark = pytest.mark.spark
TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
WITH_SEGMENTS = sorted(
    {
        path.parent
        for path in TESTDATA.glob("**/*.log")
        if len(list(path.parent.glob("*.log"))) > 2 and "findings" not in path.parts
    }
)
REQUESTS: list[dict[str, Any]] = [
    {"codec": "zstd"},
    {"codec": "none", "batch_bytes": 400},
    {"magic": 1, "codec": "gzip"},
    {"magic": 0, "is_lossy": True, "skips_damage": True},
    {"magic": 2, "read_committed": True, "skips_damage": True},
    {"codec": "lz4", "segment_bytes": 2000},
]
ABORTED = [("d", 0, 0), ("d", 1, 1), ("a", 0, 0), ("c", 1, 0), ("p", 0, 2), ("d", 2, 1), ("a", 2, 0), ("p", 0, 3)]


def outcome(source: Path, folder: Path, cluster: Cluster | None, **asked: Any) -> Any:
    """Returns all files and results of a conversion."""
    folder.mkdir(parents=True)
    convert: dict[str, Conversion] = {} if cluster is None else {"convert": partial(convert_on_spark, cluster)}
    try:
        found = rewrite(str(source), segments_of(str(source)), str(source), options(**asked), str(folder), **convert)
    except KsegError as error:
        return str(error), error.exit_status
    written = {
        path.name: (path.read_bytes(), path.suffix == ".log" and path.stat().st_mtime_ns) for path in folder.iterdir()
    }
    if asked.get("segment_bytes") or source.name.startswith("0.7"):
        written = {name: (data, False) for name, (data, _) in written.items()}
    return (
        written, found.files, found.carried, found.losses, found.skipped, found.left_out, found.gaps,
        found.batches, found.old_bytes, found.is_same_log, found.has_same_segments, [s.sizes for s in found.segments],
    )  # fmt: skip


def both(source: Path, folder: Path, cluster: Cluster | None = None, **asked: Any) -> Any:
    here = outcome(source, folder / "here", None, **asked)
    assert outcome(source, folder / "there", cluster or Cluster(), **asked) == here
    return here


@pytest.mark.parametrize("asked", REQUESTS, ids=str)
def test_real_partitions_are_converted_the_same(tmp_path: Path, asked: dict[str, Any]) -> None:
    assert len(WITH_SEGMENTS) > 8
    for number, source in enumerate(WITH_SEGMENTS):
        if source.name.startswith("__cluster_metadata"):
            continue
        both(source, tmp_path / str(number), **asked)


@pytest.mark.parametrize("magic", [None, 0, 2])
@pytest.mark.parametrize("segment_bytes", [100, 150, 400])
def test_gaps_across_segments_are_joined(tmp_path: Path, segment_bytes: int, magic: int | None) -> None:
    partition = transactional_log(tmp_path / "t-0", ABORTED, segment_bytes)
    found = both(partition, tmp_path, magic=magic, read_committed=True, is_lossy=True)
    assert found[6]


def segments(folder: Path) -> Path:
    rows = [(b"%d" % i, b"%d" % i) for i in range(400)]
    write_log(folder, [build_record_batch(new_records(rows[i : i + 5], i)) for i in range(0, 400, 5)], 2000)
    return folder


@pytest.mark.parametrize("at", ["first", "last"])
@pytest.mark.parametrize("skips_damage", [False, True])
def test_damage_at_an_edge_belongs_to_both_segments(tmp_path: Path, at: str, skips_damage: bool) -> None:
    partition = segments(tmp_path / "t-0")
    path = sorted(partition.glob("*.log"))[2]
    flip(path, 20 if at == "first" else -3)
    found = both(partition, tmp_path, codec="gzip", skips_damage=skips_damage)
    assert "crc" in str(found[4] if skips_damage else found)


def test_segments_whose_offsets_overlap_are_one_task(tmp_path: Path) -> None:
    partition = segments(tmp_path / "t-0")
    logs = sorted(partition.glob("*.log"))
    logs[2].write_bytes(logs[2].read_bytes() + logs[3].read_bytes())
    for skips_damage in (False, True):
        both(partition, tmp_path / str(skips_damage), codec="gzip", skips_damage=skips_damage)


def test_a_repeated_task_changes_nothing(tmp_path: Path) -> None:
    both(segments(tmp_path / "t-0"), tmp_path, Cluster(lambda stage, task: True), codec="zstd")


def test_a_failed_task_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def no_room(*arguments: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(jobs, "convert_some", no_room)
    both(segments(tmp_path / "t-0"), tmp_path / "pieces", codec="zstd")
    monkeypatch.setattr(jobs, "convert_segments", no_room)
    with pytest.raises(OSError, match="No space left"):
        both(segments(tmp_path / "u-0"), tmp_path / "whole", codec="zstd")
    assert list((tmp_path / "whole/there").iterdir()) == []
    shutil.rmtree(tmp_path / "whole")
