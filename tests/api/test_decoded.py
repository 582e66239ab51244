"""``kseg.scan`` with decoded keys and values, and what takes its tables."""

import json
import pickle
import sys
import tarfile
from pathlib import Path

import pytest

import kseg
from dump.test_schemas import ORDER, behind, register

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pytest.importorskip("fastavro", reason="fastavro is not installed")

ORDERS = [{"id": 1, "who": "Ann"}, None, {"id": 2, "who": "Bob"}]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    with kseg.writer(str(tmp_path / "_schemas-0")) as writer:
        register(writer, 7, json.dumps(ORDER))
        register(writer, 8, '"string"')
    with kseg.writer(str(tmp_path / "orders-0"), batch_bytes=1, segment_bytes=200) as writer:
        for key, value in ((b"\6Ann", b"\2\6Ann"), (b"\6Bob", None), (b"\6Bob", b"\4\6Bob")):
            writer.append(key=behind(8, key), value=value and behind(7, value))
    with kseg.writer(str(tmp_path / "mixed-0")) as writer:
        for value in (behind(7, b"\2\6Ann"), b"plain", None):
            writer.append(value=value)
    return tmp_path


def test_a_column_of_one_schema_has_its_type(logs: Path) -> None:
    scan = kseg.scan(str(logs), topics="orders", keys="decoded", values="decoded", columns=["key", "value", "offset"])
    table = scan.to_arrow()
    assert table.schema == scan.schema
    assert str(table.schema.field("value").type) == "struct<id: int64, who: string>"
    assert table["value"].to_pylist() == ORDERS
    assert table["key"].to_pylist() == ["Ann", "Bob", "Bob"]
    parts = pickle.loads(pickle.dumps(scan.splits(1)))
    assert len(parts) > 1
    assert pa.concat_tables([part.to_arrow() for part in parts]).equals(table)
    filtered = scan.to_table(["offset"], filter=pa.compute.field("value", "who") == "Bob")
    assert filtered["offset"].to_pylist() == [2]
    assert scan.count_rows() == 3


def test_a_column_of_several_is_json(logs: Path) -> None:
    scan = kseg.scan(str(logs), topics="mixed", values="decoded", columns=["value", "key"])
    assert scan.to_arrow()["value"].to_pylist() == ['{"id":1,"who":"Ann"}', '"plain"', None]
    both = kseg.scan([str(logs / "mixed-0"), str(logs / "orders-0")], values="decoded", columns=["value"])
    assert both.schema.types == [pa.string()]


def test_schemas_elsewhere(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (logs / "_schemas-0").rename(logs / "elsewhere")
    with pytest.raises(kseg.PathError, match="there is no _schemas-0 in its log directory"):
        kseg.scan(str(logs), topics="orders", values="decoded").to_arrow()
    asked = {"topics": "orders", "values": "decoded"}
    found = kseg.scan(str(logs), schemas=logs / "elsewhere", **asked)
    assert found.to_arrow()["value"].to_pylist() == ORDERS
    for wrong in ({"values": "avro"}, {"values": "decoded", "mode": "batches"}, {"schemas": 5}):
        with pytest.raises(kseg.RequestError):
            kseg.scan(str(logs), **wrong)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(kseg.UnsupportedError, match=r"pip install 'kseg\[avro\]'"):
        kseg.scan(str(logs), values="decoded")


@pytest.mark.parametrize("topic", ["orders", "mixed"])
def test_decoded_rows_are_not_written_as_bytes(topic: str, logs: Path) -> None:
    scan = kseg.scan(str(logs), topics=topic, values="decoded")
    with pytest.raises(kseg.KsegError, match="column value was decoded with schemas"):
        with kseg.writer(str(logs / "new-0")) as writer:
            writer.extend(scan)
    assert not (logs / "new-0").exists()


def test_polars_and_duckdb_read_it(logs: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    scan = kseg.scan(str(logs), topics="orders", values="decoded", columns=["value"])
    assert polars.DataFrame(scan)["value"].to_list() == ORDERS
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    assert duckdb.sql("select value.who from scan where value.id = 2").fetchall() == [("Bob",)]


def test_a_field_that_is_called_like_a_column_is_not_taken_for_it(tmp_path: Path) -> None:
    with kseg.writer(str(tmp_path / "_schemas-0")) as writer:
        register(writer, 7, json.dumps({**ORDER, "fields": [{"name": "offset", "type": "long"}]}))
        register(writer, 8, '"bytes"')
    with kseg.writer(str(tmp_path / "orders-0")) as writer:
        for number in range(5):
            writer.append(key=behind(8, b"\2%d" % number), value=behind(7, bytes([2 * number + 20])))
    scan = kseg.scan(str(tmp_path / "orders-0"), keys="decoded", values="decoded")
    inner, key = pa.compute.field("value", "offset"), pa.compute.field("key")
    for condition in (inner == 13, key == pa.scalar(b"3", pa.binary())):
        assert scan.to_table(["offset"], filter=condition)["offset"].to_pylist() == [3]


def test_an_archive_and_a_table_of_convert(logs: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        archive.add(logs, "logs", filter=lambda member: None if member.name.endswith(".tar") else member)
    scan = kseg.scan(str(tmp_path / "logs.tar"), topics="orders", values="decoded")
    assert scan.to_arrow()["value"].to_pylist() == ORDERS
    given = {"to": "parquet", "output": tmp_path / "orders.parquet", "value_format": "avro"}
    kseg.convert(str(logs / "orders-0"), **given).apply()
    assert pa.parquet.read_table(tmp_path / "orders.parquet")["value"].to_pylist() == ORDERS
