"""Options and paths of the data source; pyspark is not needed."""

import os
from pathlib import Path

import pytest

from kseg.errors import KsegError, PathError
from kseg.export.pushdown import Bounds
from kseg.export.scanning import grouped
from kseg.spark import options
from kseg.spark.stores import expanded_paths, places

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "man/kseg-spark.7").read_text("utf-8")


def test_names_are_case_insensitive_and_values_are_parsed() -> None:
    given = {
        "path": "/a", "STARTOFFSET": "5", "endoffset": "9",
        "startTimestamp": "2026-01-31", "endTimestamp": "2026-01-31", "isolation": "READ_COMMITTED",
        "onDamage": "fail", "splitBytes": "64m", "maxBatchBytes": "1g",
        "pushFilters": "true", "mode": "Batches", "level": "deep", "now": "7", "serialization.format": "1",
    }  # fmt: skip
    assert options.parse_options(given) == options.Options(
        ("/a",), Bounds(5, 9, 1769817600000, 1769903999999), is_committed=True, max_batch_bytes=1 << 30, mode="batches",
        level="deep", now_ms=7, split_bytes=64 << 20, fails_on_damage=True, pushes_filters=True,
    )  # fmt: skip


def test_writing_has_other_options() -> None:
    given = {"path": "/a", "CODEC": "zstd:3", "batchbytes": "1m", "segmentBytes": "100k", "indexIntervalBytes": "512"}
    assert options.parse_write_options(given) == options.WriteOptions(("/a",), "zstd:3", 1 << 20, 100 << 10, 512)
    for given, said in [
        ({"startOffset": "1"}, "it has codec"),
        ({"codec": "brotli"}, "none or a codec"),
        ({"codc": ""}, "codec?"),
    ]:
        with pytest.raises(KsegError, match=said):
            options.parse_write_options(given)


def test_a_list_of_paths_arrives_as_json() -> None:
    assert options.parse_options({"paths": '["/a", "/b c"]'}).paths == ("/a", "/b c")


def test_relative_paths_are_those_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = options.parse_options({"paths": '["orders-0", "../*-0", "s3://archive/orders-0", "file:///a"]'}).paths
    assert found == (f"{tmp_path}/orders-0", f"{tmp_path.parent}/*-0", "s3://archive/orders-0", "file:///a")


def test_names_of_a_catalog_are_no_options() -> None:
    given = {"owner": "root", "location": "file:/warehouse/archive", "provider": "kseg", "comment": "old orders"}
    assert options.parse_options(given) == options.Options(("file:/warehouse/archive",))
    assert options.parse_options(given | {"path": "/archive"}) == options.Options(("/archive",))


def test_options_of_the_kafka_source() -> None:
    given = {
        "startingOffsets": '{"orders": {"0": 23, "1": -2}}', "endingOffsets": '{"orders": {"0": 50, "1": -1}}',
        "startingOffsetsByTimestamp": '{"orders": {"1": 1769850000000}}', "endingTimestamp": "1769850000001",
        "startingOffsetsByTimestampStrategy": "latest", "subscribe": "orders, payments", "subscribePattern": "or.*",
        "assign": '{"orders": [0, 1]}', "includeHeaders": "false", "failOnDataLoss": "false",
        "maxFilesPerTrigger": "2", "maxBytesPerTrigger": "1g", "maxOffsetsPerTrigger": "9",
        "groupIdPrefix": "x", "includeLast": "true", "ignoreLogStart": "true",
    }  # fmt: skip
    found = options.parse_options(given)
    assert found.start == options.Positions(
        offsets={("orders", 0): 23, ("orders", 1): -2}, timestamps={("orders", 1): 1769850000000}
    )
    assert found.end == options.Positions(timestamp=1769850000001, offsets={("orders", 0): 50, ("orders", 1): -1})
    assert (found.fails_without_timestamp, found.includes_headers, found.ignores_log_start) == (False, False, True)
    assert (found.max_files, found.max_bytes, found.max_offsets) == (2, 1 << 30, 9)
    assert (found.includes_last, found.fails_on_data_loss) == (True, False)
    has = found.has
    assert [has("orders", 0), has("orders", 2), has("payments", 0), has(None, None)] == [True, False, False, False]
    assert options.parse_options({"startingOffsets": "earliest", "endingOffsets": "LATEST"}) == options.Options()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("startOfset", "1", "is it startOffset"),
        ("whatever", "1", "it has mode,"),
        ("mode", "rows", "one of records, counts, batches, findings, entries"),
        ("splitBytes", "0", "number of bytes"),
        ("splitBytes", "64mb", "number of bytes"),
        ("startOffset", "-1", "a number from 0 on"),
        ("startTimestamp", "yesterday", "a time such as"),
        ("startingOffsets", "newest", "earliest, latest or JSON"),
        ("startingOffsets", '{"orders": {"0": -3}}', "earliest, latest or JSON"),
        ("startingOffsets", '{"orders": {"0": true}}', "earliest, latest or JSON"),
        ("startingOffsets", '{"orders": [0]}', "earliest, latest or JSON"),
        ("minPartitions", "0", "a number from 1 on"),
        ("endingOffsets", '{"orders": {"0": -2}}', "latest or JSON such as .* from -1 on"),
        ("endingOffsetsByTimestamp", '{"orders": 5}', "JSON such as"),
        ("subscribePattern", "(", "a regular expression"),
        ("subscribe", " ,", "a list of topics"),
        ("assign", '{"orders": "0"}', "JSON such as"),
        ("maxFilesPerTrigger", "0", "a number from 1 on"),
        ("failOnDataLoss", "no", "one of false, true"),
    ],
)
def test_an_invalid_option_is_reported(name: str, value: str, said: str) -> None:
    with pytest.raises(KsegError, match=said):
        options.parse_options({"path": "a", name: value})


def test_every_option_is_in_the_page() -> None:
    names = [name for name, *_ in (options.READ_OPTIONS | options.WRITE_OPTIONS).values()]
    names += [text.split()[0] for text in options.WITHOUT_EFFECT.values()]
    assert [name for name in names if f".It Cm {name}" not in PAGE] == []


def test_paths_are_files_directories_and_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("logs/b-0/0.log", "logs/a-0/0.log", "odd[1]/0.log"):
        os.makedirs(os.path.dirname(name))
        Path(name).touch()
    assert expanded_paths(["logs/*/*.log"]) == ["logs/a-0/0.log", "logs/b-0/0.log"]
    assert expanded_paths(["**/*.log"]) == ["logs/a-0/0.log", "logs/b-0/0.log", "odd[1]/0.log"]
    assert expanded_paths(["odd[1]/0.log", f"file://{tmp_path}/logs"]) == ["odd[1]/0.log", f"{tmp_path}/logs"]
    assert list(places(["logs"])) == ["logs/a-0", "logs/b-0"]
    with pytest.raises(PathError, match="matches nothing"):
        expanded_paths(["logs/*.kafka"])
    with pytest.raises(PathError, match="no such file"):
        list(places(["nowhere"]))
    with pytest.raises(KsegError, match="needs a path"):
        expanded_paths([])


def test_small_parts_share_a_task() -> None:
    assert grouped([(10, "a"), (10, "b")], 1 << 20) == [["a", "b"]]
    assert grouped([(1 << 20, "a"), (1 << 20, "b"), (1, "c")], 1 << 20) == [["a"], ["b"], ["c"]]
    assert sum(map(len, grouped([(0, "x")] * 1000, 64 << 20))) == 1000
    assert len(grouped([(0, "x")] * 1000, 64 << 20)) == 4
    assert grouped([], 100) == []
