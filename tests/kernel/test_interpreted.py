"""The interpreted kernel reads the constants and structs of .pxd files, which the compiled one is built with."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import kseg
from kseg.kernel.interpreted import definitions
from kseg.kernel.layout import headers as layout
from kseg.kernel.layout import rows


def test_constants_and_structs_are_read_from_where_they_are_defined():
    assert definitions(layout.__file__.removesuffix(".py") + ".pxd")["V2_HEADER_BYTES"] == layout.V2_HEADER_BYTES == 61
    assert (rows.FRAME_STATE, rows.ROW_WIDTH, rows.BATCH_COORDINATOR_EPOCH) == (3, 10, 15)
    make = definitions(str(Path(rows.__file__).parents[1] / "render/lines.pxd"))["Line"]
    line = make()
    assert (line.limit, line.context.place_size, line.out) == (0, 0, 0)
    assert line.context is not make().context


def test_structs_hold_structs_that_their_pxd_cimports(tmp_path, monkeypatch):
    lines = definitions(str(Path(rows.__file__).parents[1] / "render/lines.pxd"))
    monkeypatch.setitem(sys.modules, "kernel.elsewhere", SimpleNamespace(Line=lines["Line"]))
    path = tmp_path / "made.pxd"
    path.write_text(
        "from kernel.elsewhere cimport Other, Line\n\n"
        "cdef enum:\n    MOST = -0x10\n\n"
        "cdef struct Inner:\n    long long* first\n\n"
        "cdef struct Outer:\n    Inner inner\n    Line line\n    const unsigned char* p\n"
    )
    found = definitions(str(path))
    assert (found["MOST"], sorted(found)) == (-16, ["Inner", "MOST", "Outer"])
    outer = found["Outer"]()
    assert (outer.inner.first, outer.line.context.place, outer.p) == (0, 0, 0)
    with pytest.raises(AttributeError):
        outer.other = 1


def test_a_module_without_declarations_defines_nothing(tmp_path):
    assert definitions(str(tmp_path / "none.pxd")) == {}


def test_a_zip_file_has_the_interpreted_kernel(tmp_path):
    package, segments = Path(kseg.__file__).parent, Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients"
    with zipfile.ZipFile(tmp_path / "kseg.zip", "w") as made:
        for path in package.rglob("*"):
            if path.suffix in (".py", ".pxd", ".h", ".so"):
                made.write(path, path.relative_to(package.parent))
    program = (
        "import kseg, kseg.kernel\n"
        "with kseg.open(%r) as log: print(kseg.kernel.COMPILED, kseg.__file__, sum(1 for _ in log.records()))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "KSEG_KERNEL"}
    others = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    done = subprocess.run(
        [sys.executable, "-P", "-c", program % str(segments / "librdkafka-gzip-0")],
        env=environment | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "kseg.zip"), *others])},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["False", str(tmp_path / "kseg.zip/kseg/__init__.py"), "240"]
