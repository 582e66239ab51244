"""How the kernel is built: what an older build has left is not installed beside what this one makes."""

import ast
import os
from pathlib import Path

import pytest

setuptools = pytest.importorskip("setuptools")

OLD = ("_compiled.cpython-311-x86_64-linux-gnu.so", "_compiled.abi3.so")


@pytest.mark.parametrize("is_inplace", [False, True])
@pytest.mark.parametrize(("is_other_only", "left"), [(True, ["_compiled.abi3.so"]), (False, [])])
def test_what_is_left_of_other_builds_goes(
    is_inplace: bool, is_other_only: bool, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kseg._build import BuildKernel

    monkeypatch.chdir(tmp_path)
    extension = setuptools.Extension("package._compiled", ["package/walk.py"], py_limited_api=True)
    build = BuildKernel(setuptools.Distribution({"ext_modules": [extension], "packages": ["package"]}))
    build.build_lib, build.inplace = "out", is_inplace
    build.finalize_options()
    folder = tmp_path / ("package" if is_inplace else "out/package")
    folder.mkdir(parents=True)
    for name in (*OLD, "walk.py"):
        (folder / name).write_bytes(b"")
    build._remove_compiled(is_other_only)
    assert sorted(path.name for path in folder.iterdir()) == [*left, "walk.py"]


def test_only_another_kernel_is_translated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kseg._build import _digest

    monkeypatch.chdir(tmp_path)
    module, header = tmp_path / "kseg/kernel/scan/walk.py", tmp_path / "kseg/kernel/scan/walk.pxd"
    module.parent.mkdir(parents=True)
    builder = tmp_path / "kseg/_build.py"
    builder.write_text("")
    module.write_text("a = 1\n")
    before = _digest("-O3")
    os.utime(module, (2**31, 2**31))
    assert _digest("-O3") == before
    assert _digest("-O1") != before
    header.write_text("")
    with_header = _digest("-O3")
    module.write_text("a = 2\n")
    with_module = _digest("-O3")
    builder.write_text("# other declarations\n")
    assert len({before, with_header, with_module, _digest("-O3")}) == 4


MODULE = """
import cython
if not cython.compiled:
    FIRST = 1
    LEAST = -2
    ONE, TWO = 1, 2
    A, B, C = range(4, 7)
    Area = cython.struct()
def size_of(p: Bytes, i: Py_ssize_t, area: pointer[Area], wide: cython.uint) -> longlong: pass
def not_of_c(p): pass
"""


def test_what_c_must_know_of_a_module_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kseg import _build

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_build, "_TWINS", {})
    Path("walk.py").write_text(MODULE)
    _build._declare(tmp_path / "made", ["walk.py"])
    assert (tmp_path / "made/walk.pxi").read_text().splitlines() == [
        "cpdef enum:", "    FIRST = 1", "    LEAST = -2", "    ONE = 1", "    TWO = 2",
        "    A = 4", "    B = 5", "    C = 6",
        "cdef long long size_of(Bytes p, Py_ssize_t i, Area* area, unsigned int wide) noexcept nogil",
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["SHIFTED = 1 << 3", "TEXT = 'x'", "TYPED: int = 4", "FLOAT = 1.5"])
def test_a_constant_that_is_no_literal_number_stops_the_build(line: str) -> None:
    from kseg._build import _constants

    with pytest.raises(ValueError, match="is no literal number"):
        _constants(ast.parse(f"if not cython.compiled:\n    {line}\n"))
