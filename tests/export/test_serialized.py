"""Keys and values of Kafka's serializers as typed columns."""

import pickle
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import kseg

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ID = UUID("123e4567-e89b-12d3-a456-426614174000")
WRITTEN: dict[str, tuple[Any, list[tuple[bytes, Any]]]] = {
    "short": (pa.int16(), [(struct.pack(">h", -2), -2)]),
    "int": (pa.int32(), [(struct.pack(">i", 1 << 30), 1 << 30), (struct.pack(">i", -1), -1)]),
    "long": (pa.int64(), [(struct.pack(">q", -(1 << 63)), -(1 << 63)), (bytes(8), 0)]),
    "float": (pa.float32(), [(struct.pack(">f", 0.5), 0.5)]),
    "double": (pa.float64(), [(struct.pack(">d", 0.1), 0.1)]),
    "boolean": (pa.bool_(), [(b"\0", False), (b"\1", True)]),
    "uuid": (
        pa.string(),
        [
            (str(ID).encode(), str(ID)),
            (ID.bytes, str(ID)),
            (b"1-2-3-4-5", "00000001-0002-0003-0004-000000000005"),
            (b"1234-1234-12-1-1", "00001234-1234-0012-0001-000000000001"),
        ],
    ),
    "string": (pa.string(), [("zoë".encode(), "zoë"), (b"", "")]),
}


def written(path: Path, contents: list[bytes | None]) -> Path:
    with kseg.writer(path / "t-0") as writer:
        for data in contents:
            writer.append(key=data, value=data)
    return path / "t-0"


@pytest.mark.parametrize("form", WRITTEN)
def test_a_serialized_column_has_its_type(tmp_path: Path, form: Any) -> None:
    kind, known = WRITTEN[form]
    path = written(tmp_path, [None, *(data for data, _ in known)])
    scan = kseg.scan(path, keys=form, values=form)
    assert [scan.schema.field(name).type for name in ("key", "value")] == [kind, kind]
    for each in (scan, pickle.loads(pickle.dumps(scan))):
        table = each.to_arrow()
        assert table.column("key").to_pylist() == table.column("value").to_pylist() == [None, *(to for _, to in known)]
    assert kseg.scan(path, keys=form, columns=["offset", "value"]).to_arrow().column("value").type == pa.binary()


@pytest.mark.parametrize("form", ["short", "int", "long", "float", "double", "boolean", "uuid"])
def test_other_bytes_are_refused_or_null(tmp_path: Path, form: Any, caplog: pytest.LogCaptureFixture) -> None:
    good, value = WRITTEN[form][1][0]
    path = written(tmp_path, [good, b"other", good, b"other"])
    with pytest.raises(kseg.DamageError, match=f"a key of 5 bytes is no {form}"):
        kseg.scan(path, keys=form).to_arrow()
    found = kseg.scan(path, keys=form, on_damage="skip").to_arrow()
    assert found.column("key").to_pylist() == [value, None, value, None]
    assert sum("null in the column" in each.getMessage() for each in caplog.records) == 1


@pytest.mark.parametrize("text", [f"{{{ID}}}", f"urn:uuid:{ID}", ID.hex])
def test_only_the_text_that_java_reads_is_a_uuid(tmp_path: Path, text: str) -> None:
    with pytest.raises(kseg.DamageError, match="is no uuid"):
        kseg.scan(written(tmp_path, [text.encode()]), keys="uuid").to_arrow()


def test_filters_and_keys_of_typed_columns(tmp_path: Path) -> None:
    import pyarrow.compute as pc

    path = written(tmp_path, [struct.pack(">q", i) for i in range(50)])
    scan = kseg.scan(path, keys="long", columns=["key", "offset"])
    assert scan.to_table(filter=pc.field("key") == 7).to_pylist() == [{"key": 7, "offset": 7}]
    assert kseg.scan(path, keys="long", key=struct.pack(">q", 9)).to_arrow().column("key").to_pylist() == [9]
    with pytest.raises(kseg.RequestError, match="none of bytes, decoded"):
        kseg.scan(path, keys="int64")  # type: ignore[arg-type]
