"""``kseg convert --from parquet|arrow``: the records that kseg wrote come back, other tables are read or refused."""

import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kseg as package
from cli.command import FLIPPED, LOGS, TESTDATA, Kseg, flip, spawned, unchanged
from kernel.rendering import batch, record
from kseg.conversion import record_files, record_import
from kseg.errors import KsegError
from kseg.export import scanning
from kseg.segment.files import LAST_OFFSET

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

SOURCES = [
    "log-directories/4.3.1/logs/dplain-0", "kafka-4.3.1/clients/librdkafka-txn-0", "kafka-0.8.2.2/codecs/one-none-0",
    "kafka-0.10.2.2/codecs/rec-uncompressed-0", "kafka-4.3.1/compacted/e-txn-0", "kafka-1.1.1/format-switch/sw-lz4-0",
]  # fmt: skip
FORMS = ["parquet", "arrow"]


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Records as a consumer sees them. A record of v2 has no type of its missing timestamp, one of v0 has none."""
    found = package.open(path).records()
    return [(r.topic, r.partition, r.offset, r.timestamp or -1, r.key, r.value, list(r.headers)) for r in found]


def write(path: Path, table: Any, form: str = "parquet", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = table if isinstance(table, pa.Table) else pa.table(table)
    if form == "parquet":
        pq.write_table(table, path, **options)
    else:
        with (pa.ipc.new_stream if form == "stream" else pa.ipc.new_file)(path, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("jobs", ["1", "3"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: Path(source).name)
def test_out_and_in_again_are_the_same_records(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, form: str, jobs: str
) -> None:
    monkeypatch.setattr(scanning, "is_worth_parts", lambda _size, threads: threads > 1)
    kseg("convert", "--to", form, "--jobs", jobs, "-o", tmp_path / "table", TESTDATA / source).expect(0)
    kseg("convert", "--from", form, "-o", tmp_path / "new", tmp_path / "table").expect(0)
    made = tmp_path / "new" / Path(source).name
    assert rows(made) == rows(TESTDATA / source)
    kseg("verify", "--level", "deep", made).expect(0)


@pytest.mark.parametrize("form", FORMS)
def test_everything_of_a_record_comes_back(kseg: Kseg, tmp_path: Path, form: str) -> None:
    (tmp_path / "t-3").mkdir()
    headers = [(b"\xff\xfe", b"1"), (b"ok", None), (b"ok", b""), (b'{"base64":"YQ=="}', b"\xff")]
    written = [record(0, 0, b"", None, headers), record(1, 7, None, b""), record(5, -1, b"\xff", b"v")]
    (tmp_path / "t-3/00000000000000000007.log").write_bytes(
        batch(written, base_offset=7) + batch([record(0, 0, b"k", b"v")], base_offset=20, attributes=8)
    )
    kseg("convert", "--to", form, "-o", tmp_path / "table", tmp_path / "t-3").expect(0)
    kseg("convert", "--from", form, "-o", tmp_path / "new", tmp_path / "table").expect(0)
    assert rows(tmp_path / "new/t-3") == rows(tmp_path / "t-3")
    types = [
        package.scan(path / "t-3").to_arrow().column("timestampType").to_pylist()
        for path in (tmp_path, tmp_path / "new")
    ]
    assert types == [[0, 0, 0, 1]] * 2
    kseg("verify", tmp_path / "new").expect(0)


def test_a_stream_on_standard_input(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("convert", "--from", "arrow", "-o")
    source = write(tmp_path / "stream", {"value": ["a", "b"]}, "stream").read_bytes()
    spawned(*asked, tmp_path / "new-stream", "-", input=source, check=True)
    path = write(tmp_path / "file", {"value": ["a", "b"]}, "file")
    with path.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        kseg(*asked, tmp_path / "new-file", "-").expect(0)
    for form in ("stream", "file"):
        assert [row[5] for row in rows(tmp_path / f"new-{form}/records-0")] == [b"a", b"b"]
    path.write_bytes(path.read_bytes()[:-1])
    with path.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        kseg(*asked, tmp_path / "cut", "-").expect(3, "is cut off; nothing was written")


@pytest.mark.parametrize("options", [(), ("--to", "v1", "--codec", "gzip"), ("--base-offset", "100")], ids=str)
def test_a_table_of_another_program(kseg: Kseg, tmp_path: Path, options: tuple[str, ...]) -> None:
    table = {
        "timestamp": pa.array([1_700_000_000_000_500, None], pa.timestamp("us")),
        "value": pa.array(["é", None]).dictionary_encode(), "partition": pa.array([2, 2], pa.int64()),
        "topic": pa.array(["orders"] * 2, pa.large_string()), "__index_level_0__": [5, 6],
    }  # fmt: skip
    write(tmp_path / "table", table)
    kseg("convert", "--from", "parquet", *options, "-o", tmp_path / "new", tmp_path / "table").expect(0)
    first = 100 * ("--base-offset" in options)
    assert rows(tmp_path / "new/orders-2") == [
        ("orders", 2, first, 1_700_000_000_000, None, "é".encode(), []),
        ("orders", 2, first + 1, -1, None, None, []),
    ]
    kseg("verify", "--level", "deep", tmp_path / "new").expect(0)


@pytest.mark.parametrize("form", FORMS)
def test_tables_without_rows(kseg: Kseg, tmp_path: Path, form: str) -> None:
    for name, columns in (("a", {"value": pa.array([], pa.binary())}), ("b", {"offset": pa.array([], pa.int64())})):
        write(tmp_path / "tables" / name, columns, form if form == "parquet" else "file")
    kseg("convert", "--from", form, "-o", tmp_path / "new", tmp_path / "tables").expect(0)
    assert {path.name for path in (tmp_path / "new").iterdir()} <= {".lock"}


def test_a_file_of_polars(kseg: Kseg, tmp_path: Path) -> None:
    """It begins with no stream, and has texts as views."""
    polars = pytest.importorskip("polars", reason="polars is not installed")
    polars.DataFrame({"key": ["a", None], "value": ["text longer than a view", ""]}).write_ipc(tmp_path / "table")
    kseg("convert", "--from", "arrow", "-o", tmp_path / "new", tmp_path / "table").expect(0)
    assert [row[4:6] for row in rows(tmp_path / "new/records-0")] == [(b"a", b"text longer than a view"), (None, b"")]


def test_headers_of_a_table_need_v2(kseg: Kseg, tmp_path: Path) -> None:
    write(tmp_path / "table", {"value": ["a"], "headers": pa.array([[("h", "1")]], pa.map_(pa.string(), pa.string()))})
    asked = ("convert", "--from", "parquet", "--to", "v1", "-o", tmp_path / "new", tmp_path / "table")
    kseg(*asked).expect(3, "v1 has no headers")
    kseg(*asked, "--lossy").expect(0)
    assert rows(tmp_path / "new/records-0")[0][-1] == []


def piece(offsets: list[int], **columns: Any) -> Any:
    return pa.table({"offset": offsets, "value": [str(offset) for offset in offsets], **columns})


def test_files_of_a_directory_are_merged_by_offset(kseg: Kseg, tmp_path: Path) -> None:
    """Their names have another order, as those of a table by date; directories stand for columns."""
    hive = tmp_path / "hive/topic=or%2Dders"
    write(hive / "partition=0/date=2026-01-02/b.parquet", piece([0, 3, 4, 9]))
    write(hive / "partition=0/date=2026-01-03/a.parquet", piece([1, 2, 7]))
    write(hive / "partition=10/0.parquet", piece([5]))
    write(hive / "partition=10/1.parquet", piece([2], partition=[10]))  # a column stands before its directory
    write(hive / "_temporary/x.parquet", piece([1]))
    (hive / ".hidden.crc").write_text("x")
    kseg("convert", "--from", "parquet", "-o", tmp_path / "new", tmp_path / "hive").expect(0)
    assert [row[:3] for row in rows(tmp_path / "new/or-ders-0")] == [("or-ders", 0, o) for o in (0, 1, 2, 3, 4, 7, 9)]
    assert [row[5] for row in rows(tmp_path / "new/or-ders-10")] == [b"2", b"5"]
    kseg("verify", tmp_path / "new").expect(0)


def test_rows_of_several_partitions_in_one_file(kseg: Kseg, tmp_path: Path) -> None:
    places = list(itertools.product("ab", range(3))) * 20
    table = {
        "topic": [topic for topic, _ in places],
        "partition": [n for _, n in places],
        "value": list(map(str, range(120))),
    }
    write(tmp_path / "table", table, row_group_size=7)
    kseg("convert", "--from", "parquet", "-o", tmp_path / "new", tmp_path / "table").expect(0)
    for at, (topic, number) in enumerate(places[:6]):
        found = rows(tmp_path / f"new/{topic}-{number}")
        assert [(row[2], row[5]) for row in found] == [(n, b"%d" % (at + 6 * n)) for n in range(20)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("files", [1, 3])
def test_rows_are_sorted(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, files: int) -> None:
    """In runs that fit into memory; programs that write tables on several cores mix their rows."""
    monkeypatch.setattr(record_import, "_SORT_BYTES", 2000)
    monkeypatch.setattr(record_import, "_RUN_BYTES", 100)
    monkeypatch.setattr(record_import, "CHUNK_ROWS", 16)
    everything = [(topic, number, offset) for topic in "ab" for number in (2, 10) for offset in range(50)]
    mixed = random.Random(4).sample(everything, len(everything))
    for n in range(files):
        topics, numbers, offsets = zip(*mixed[n::files], strict=True)
        write(
            tmp_path / f"tables/{n}",
            piece(list(offsets), topic=topics, partition=numbers),
            form if form == "parquet" else "file",
        )
    kseg("convert", "--from", form, "-o", tmp_path / "new", tmp_path / "tables").expect(0)
    found = [row for topic in "ab" for number in (2, 10) for row in rows(tmp_path / f"new/{topic}-{number}")]
    assert [(*row[:3], row[5]) for row in found] == [(*row, b"%d" % row[2]) for row in everything]


@pytest.mark.parametrize("table, told", [
    ({"topic": ["a"]}, "no column partition"),
    ({"topic": [None], "partition": [0]}, "column topic"),
    ({"topic": ["a/../b"], "partition": [0]}, "column topic"),
    ({"topic": ["a"], "partition": [-1]}, "column partition"),
    ({"offset": [-1]}, "offset -1 is invalid"),
    ({"offset": [1, None]}, "column offset"),
    ({"offset": [2, 2]}, "offset 2 comes behind offset 2"),
    ({"topic": ["taken"], "partition": [0]}, "taken-0: already exists; nothing was written\n"),
    ({"payload": [b"x"]}, "no column 'payload'"),
    ({"key": [5]}, "column key is int64"),
    ({"headers": [[{"value": b""}]]}, "a header has no key"),
], ids=str)  # fmt: skip
def test_rows_of_no_records_are_refused(kseg: Kseg, tmp_path: Path, table: dict[str, list[Any]], told: str) -> None:
    write(tmp_path / "table", table)
    (tmp_path / "new/taken-0").mkdir(parents=True)
    done = kseg("convert", "--from", "parquet", "-o", tmp_path / "new", tmp_path / "table")
    done.expect(3, str(tmp_path / "table"), told, "nothing was written")
    assert [path.name for path in (tmp_path / "new").iterdir() if path.name != ".lock"] == ["taken-0"]


def test_after_the_last_offset_there_is_none(kseg: Kseg, tmp_path: Path) -> None:
    paths = [write(tmp_path / "tables" / name, {"value": ["v"]}) for name in "ab"]
    options = ("--from", "parquet", "--base-offset", str(LAST_OFFSET), "-o", tmp_path / "new")
    kseg("convert", *options, *paths).expect(3, f"{paths[1]}: there is no offset after {LAST_OFFSET}")


@pytest.mark.parametrize("place", ["tables", "tables/new", "link/new"])
def test_no_output_goes_into_the_directory_that_is_read(kseg: Kseg, tmp_path: Path, place: str) -> None:
    write(tmp_path / "tables/a", {"value": ["v"]})
    (tmp_path / "link").symlink_to("tables")
    done = kseg("convert", "--from", "parquet", "-o", tmp_path / place, tmp_path / "tables")
    inside = "" if place == "tables" else "inside "
    done.expect(3, f"{tmp_path / place}: is {inside}the input")
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["a"]
    kseg("convert", "--from", "parquet", "-o", tmp_path / "tables-2", tmp_path / "tables").expect(0)


def test_the_same_rows_twice_are_refused(kseg: Kseg, tmp_path: Path) -> None:
    paths = [write(tmp_path / name, piece([1, 2])) for name in "ab"]
    kseg("convert", "--from", "parquet", "-o", tmp_path / "new", *paths).expect(3, "offset 1 comes behind offset 1")


@pytest.mark.parametrize("made, told", [
    (lambda path: path.mkdir(), "holds no files"),
    (lambda path: write(path / "_delta_log/0.parquet", {"a": [1]}), "is a Delta table"),
    (lambda path: write(path / "metadata/v1.metadata.json", {"a": [1]}), "is an Iceberg table"),
    (lambda path: path.write_bytes(b""), ""),
    (lambda path: path.write_bytes(b"PAR1 nonsense PAR1"), ""),
    (lambda path: write(path, {"value": ["a"]}, "file"), ""),
    (lambda path: None, "No such file"),
    (os.mkfifo, "is no file"),
    (lambda path: (path.mkdir(), os.mkfifo(path / "fifo")), "is no file"),
    (lambda path: (path.mkdir(), (path / "topic=b").symlink_to(path)), "is a symbolic link to a directory"),
    (lambda path: (path.mkdir(), (path / "gone").symlink_to("nowhere")), "No such file"),
], ids=[
    "empty", "delta", "iceberg", "void", "nonsense", "arrow", "missing", "fifo", "with-fifo", "link", "dangling",
])  # fmt: skip
def test_paths_that_hold_no_table(kseg: Kseg, tmp_path: Path, made: Callable[[Path], Any], told: str) -> None:
    made(tmp_path / "table")
    done = kseg("convert", "--from", "parquet", "-o", tmp_path / "new", tmp_path / "table")
    done.expect(3, str(tmp_path / "table"), told)
    assert (len(done.err.splitlines()), (tmp_path / "new").exists()) == (1, False)


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files_give_an_error_or_rows(tmp_path: Path, form: str) -> None:
    from kseg.changes.driver.command import ChangeOptions, Recording
    from kseg.conversion.options import ConvertOptions

    table = package.scan(TESTDATA / SOURCES[0]).to_arrow()
    intact, chance = write(tmp_path / "table", table, form).read_bytes(), random.Random(41)
    texts = set()
    for _ in range(100):
        data = bytearray(intact)
        for _ in range(chance.choice([1, 3, 20])):
            at = chance.randrange(len(data))
            data[at : at + chance.choice([1, 1, 9])] = chance.randbytes(1)
        (tmp_path / "table").write_bytes(data)
        try:
            asked = (ConvertOptions(source=form), ChangeOptions(True, True), Recording())
            record_import.import_records([str(tmp_path / "table")], str(tmp_path / "new"), *asked)
        except KsegError as error:
            texts.add(str(error))
    assert len(texts) > 4
    assert all(text.startswith(str(tmp_path)) and text.endswith("nothing was written") for text in texts)


def test_a_flipped_bit_in_a_page_is_found(kseg: Kseg, tmp_path: Path) -> None:
    """By the checksums that kseg writes. Without a codec pyarrow would read other bytes."""
    path = tmp_path / "table"
    kseg("convert", "--to", "parquet", "--codec", "none", "-o", path, TESTDATA / SOURCES[0]).expect(0)
    intact = path.read_bytes()
    value = rows(TESTDATA / SOURCES[0])[70][5]
    flip(path, intact.index(value) + len(value) // 2)
    kseg("convert", "--from", "parquet", "-o", tmp_path / "new", path).expect(3, "verification failed")


def test_lengths_of_an_arrow_file_are_not_taken_on_trust(kseg: Kseg, tmp_path: Path) -> None:
    """pyarrow would read past the end of a buffer."""
    ends = [(10).to_bytes(4, "little") + size.to_bytes(4, "little") for size in (20, 1 << 30)]
    path = write(tmp_path / "table", {"value": ["a" * 10, "b" * 10]}, "file")
    path.write_bytes(path.read_bytes().replace(*ends))
    asked = ("convert", "--from", "arrow", "-o", tmp_path / "new", path)
    kseg(*asked).expect(3, f"{path}: column value: ", "nothing was written")


def test_repeated_values_are_written_out_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file can hold gigabytes of them, in headers too."""
    monkeypatch.setattr(record_import, "_STEP_BYTES", 1 << 16)
    large, count = b"x" * (1 << 14), 1000
    pairs = pa.array([[{"key": "h", "value": large}]] * count)
    path = write(tmp_path / "table", {"value": [large] * count, "headers": pairs})
    assert path.stat().st_size < 1 << 16
    with path.open("rb") as opened:
        steps = [list(record_import._in_steps(each)) for each in record_import._parquet(str(path), opened)]
    assert [step.num_rows for step in itertools.chain.from_iterable(steps)].count(1) > count // 2
    assert sum(step.num_rows for step in itertools.chain.from_iterable(steps)) == count
    monkeypatch.setattr(record_import, "MAX_BATCH_BYTES", 1 << 14)
    with pytest.raises(ValueError, match="a row has"):
        list(record_import._in_steps(steps[0][0].slice(0, 1)))


# --partition-by: directories of tables


def jumping(directory: Path, days: list[int]) -> Path:
    """A partition whose records are of these days, one batch each."""
    directory.mkdir(parents=True)
    start = 1_790_000_000_000
    data = [
        batch([record(0, 0, b"k%d" % i, b"v")], base_offset=i, base_timestamp=start + day * 86_400_000)
        for i, day in enumerate(days)
    ]
    (directory / "00000000000000000000.log").write_bytes(b"".join(data))
    return directory


def hive(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.*") if path.name != ".lock")


@pytest.mark.parametrize("more", [(), ("--partition-by", "date")])
def test_times_that_no_column_holds_are_counted(kseg: Kseg, tmp_path: Path, more: tuple[str, ...]) -> None:
    jumping(tmp_path / "a-0", [0, 1 << 36, 1 << 35])
    told = kseg("convert", "--to", "parquet", *more, "-o", tmp_path / "out", tmp_path / "a-0").expect(0).err
    assert "kseg: 2 timestamps are null here: outside of the years" in told


@pytest.mark.parametrize("open_files", [128, 2])
def test_files_by_date_come_back(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_files: int) -> None:
    monkeypatch.setattr(record_files, "_MAX_OPEN", open_files)
    monkeypatch.setattr(record_files, "_MAX_HELD_BYTES", 1000 if open_files == 2 else 1 << 20)
    far = 365 * 30_000
    jumping(tmp_path / "logs/a-0", [0, 1, 2, 0, -1, 1, 3, 0, far, 2])
    jumping(tmp_path / "logs/a-1", [0])
    monkeypatch.setattr(record_files, "_CHUNK_BYTES", dict.fromkeys(FORMS, 1))
    asked = ("convert", "--to", "parquet", "--partition-by", "topic,partition,date", "-o", tmp_path / "hive")
    assert "are null" not in kseg(*asked, tmp_path / "logs").expect(0).err
    found = hive(tmp_path / "hive")
    days = [*(f"2026-09-{day}" for day in range(20, 25)), "__HIVE_DEFAULT_PARTITION__"]
    assert list(dict.fromkeys(Path(path).parent.name for path in found)) == [f"date={day}" for day in days]
    assert found[1] == "topic=a/partition=0/date=2026-09-21/00000000000000000000.parquet"
    assert len(found) == 7 if open_files == 128 else len(found) > 8
    kseg("convert", "--from", "parquet", "-o", tmp_path / "new", tmp_path / "hive").expect(0)
    assert [rows(tmp_path / "new" / name) for name in ("a-0", "a-1")] == [
        rows(tmp_path / "logs" / name) for name in ("a-0", "a-1")
    ]


def test_other_programs_read_the_directories(kseg: Kseg, tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    logs = LOGS
    asked = ("--partition-by", "topic,partition", "-o", tmp_path / "hive", logs, TESTDATA / SOURCES[1])
    kseg("convert", "--to", "parquet", *asked).expect(0)
    whole = package.scan([str(logs), str(TESTDATA / SOURCES[1])])
    found = ds.dataset(tmp_path / "hive", partitioning="hive")
    assert found.count_rows() == whole.count_rows()
    assert found.count_rows(filter=(ds.field("topic") == "dplain") & (ds.field("offset") < 10)) == 10
    assert {"topic", "partition"}.isdisjoint(pq.read_schema(next(iter(found.files))).names)
    for path in found.files:
        metadata = pq.read_metadata(path)
        for column in map(metadata.row_group(0).column, range(metadata.num_columns)):
            if column.path_in_schema in ("offset", "timestamp"):
                assert column.statistics.has_min_max
    with unchanged(tmp_path / "hive"):
        kseg("convert", "--to", "parquet", *asked).expect(3, "already exists; nothing was written")


def test_directories_on_a_disk_without_locks(kseg: Kseg, tmp_path: Path) -> None:
    options = ("--to", "parquet", "-o", tmp_path / "new", "--no-lock")
    kseg("convert", *options, "--partition-by", "topic", TESTDATA / SOURCES[0]).expect(0)
    assert len(hive(tmp_path / "new")) == 1


def test_damage_leaves_no_directories(kseg: Kseg, tmp_path: Path) -> None:
    damaged = FLIPPED
    for asked, status in ((), 3), (("--skip-damage",), 0):
        options = ("--to", "arrow", "--partition-by", "date", "-o", tmp_path / "new", *asked)
        kseg("convert", *options, damaged).expect(status)
        assert [path.name for path in tmp_path.iterdir()] == (["new"] if status == 0 else [])
    assert hive(tmp_path / "new")[0].endswith(".arrow")
