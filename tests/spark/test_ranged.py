"""Parts of segments in a store: only their bytes are read, and the rows equal those of whole segments."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("fsspec", reason="fsspec is not installed")

import fsspec

from cleaner.building import BatchFields, build_record_batch
from cleaner.partitions import new_records, write_log
from kseg.spark import ranged
from spark.reading import read, reader_of, rows_of

pytestmark = pytest.mark.spark
LOG = f"{0:020d}.log"
INNER = build_record_batch(new_records([(b"inner", b"i")]), BatchFields())


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments, with complete batches inside values."""
    batches = [
        build_record_batch(new_records([(b"%d" % i, INNER * 3), (None, b"v" * 90)], 2 * i), BatchFields(codec))
        for i, codec in enumerate([0, 3, 0, 0] * 60)
    ]
    write_log(tmp_path / "orders-0", batches, 50_000)
    assert (tmp_path / "orders-0" / LOG).stat().st_size > 40_000
    return tmp_path / "orders-0"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The requested ranges; requests for whole segments are not included."""
    found: list[tuple[int, int]] = []
    real = ranged.spool_range

    def spool(stored: Any, target: Any, position: int, end: int) -> None:
        found.append((position, end))
        real(stored, target, position, end)

    monkeypatch.setattr(ranged, "spool_range", spool)
    return found


def stored(partition: Path, name: str, without: str = "none") -> str:
    memory = fsspec.filesystem("memory")
    for file in partition.iterdir():
        if file.is_file() and file.suffix != without:
            memory.pipe_file(f"/{name}/orders-0/{file.name}", file.read_bytes())
    return f"memory://{name}/orders-0"


def same(url: str, partition: Path, **options: str) -> None:
    for mode in ("records", "batches"):
        here, there = rows_of(partition, mode=mode), rows_of(url, mode=mode, **options)
        for row in (*here, *there):
            row.pop("file", None)
        assert there == here


@pytest.mark.parametrize("split_bytes", ["1k", "7k", "20k", "45k", "1m"])
def test_any_split_gives_the_same_rows(partition: Path, split_bytes: str, asked: list[tuple[int, int]]) -> None:
    url = stored(partition, f"split-{split_bytes}")
    same(url, partition, splitBytes=split_bytes)
    assert bool(asked) == (split_bytes not in ("45k", "1m"))


def test_only_the_part_is_read(partition: Path, asked: list[tuple[int, int]]) -> None:
    url, size = stored(partition, "part"), (partition / LOG).stat().st_size
    reader = reader_of([f"{url}/{LOG}"], splitBytes="8k")
    tasks = reader.partitions()
    assert len(tasks) > 4
    assert len(list(reader.read(tasks[2]))) == 1
    [(first, end)] = asked
    assert size // 6 < end - first < size // 2
    assert len(read(reader)) == len(rows_of(partition / LOG))


def test_without_an_index_a_segment_is_one_part(partition: Path, asked: list[tuple[int, int]]) -> None:
    same(stored(partition, "bare", ".index"), partition, splitBytes="4k")
    assert asked == []


@pytest.mark.parametrize("shift", [-7, 1, 0])
def test_a_wrong_index_is_not_used(partition: Path, shift: int, asked: list[tuple[int, int]]) -> None:
    """Shift 0: the second half of the index points to batches inside values."""
    index, log = partition / f"{0:020d}.index", (partition / LOG).read_bytes()
    data = bytearray(index.read_bytes())
    for at in range(len(data) // 16 * 8, len(data), 8):
        position = int.from_bytes(data[at + 4 : at + 8], "big")
        position = position + shift if shift else log.find(INNER, position)
        data[at + 4 : at + 8] = position.to_bytes(4, "big")
    index.write_bytes(data)
    same(stored(partition, f"wrong{shift}"), partition, splitBytes="4k")
    assert asked


@pytest.mark.parametrize("place", [0.1, 0.5, 0.98])
def test_damage_is_the_same_as_in_the_whole_segment(partition: Path, place: float, tmp_path: Path) -> None:
    for name, damage in (("flip", b"\xff"), ("zeros", bytes(3000)), ("cut", None)):
        copy = Path(shutil.copytree(partition, tmp_path / name / "orders-0"))
        data = bytearray((copy / LOG).read_bytes())
        at = int(len(data) * place)
        if damage is None:
            del data[at:]
        else:
            data[at : at + len(damage)] = damage[: len(data) - at]
        (copy / LOG).write_bytes(data)
        same(stored(copy, f"{name}-{place}"), copy, splitBytes="4k")
