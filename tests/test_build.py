"""How the kernel is built: what an older build has left is not installed beside what this one makes."""

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
    module.write_text("a = 1\n")
    before = _digest("-O3")
    os.utime(module, (2**31, 2**31))
    assert _digest("-O3") == before
    assert _digest("-O1") != before
    header.write_text("")
    with_header = _digest("-O3")
    module.write_text("a = 2\n")
    assert len({before, with_header, _digest("-O3")}) == 3
