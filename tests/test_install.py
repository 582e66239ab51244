"""What an installation holds: built as pip builds it, with and without a compiled kernel."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SEGMENT = "testdata/kafka-4.3.1/clients/librdkafka-txn-0/00000000000000000000.log"

pytestmark = pytest.mark.slow


def has_compiler() -> bool:
    """Whether a C extension can be built for this interpreter."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def copied_source(folder: Path) -> Path:
    """The files that a build needs, away from the tree, so that no build leaves anything in it."""
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("kseg", "man"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"))
    return folder


def built_wheel(folder: Path, kernel: str) -> Path:
    source = copied_source(folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(
        command, env={**os.environ, "KSEG_KERNEL": kernel}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def ran(target: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KSEG_")}
    environment["PYTHONPATH"] = str(target)
    command = [sys.executable, "-P", "-m", "kseg", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kernel", ["python", "compiled"])
def test_a_wheel_holds_all_and_runs(kernel: str, tmp_path: Path) -> None:
    if kernel == "compiled" and not has_compiler():
        pytest.skip("no C compiler or no Python.h")
    wheel = built_wheel(tmp_path, kernel)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"kseg/py.typed", "kseg/kernel/native.pxd", "kseg/kernel/native.py"} <= set(names)
    pages = {Path(name).name for name in names if "/share/man/" in name}
    assert pages == {page.name for page in (ROOT / "man").iterdir()}
    assert [name for name in names if name.endswith(".c")] == []
    assert any(name.endswith((".so", ".pyd")) for name in names) is (kernel == "compiled")
    assert any(name.endswith("licenses/LICENSE") for name in names)

    target = tmp_path / "target"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)],
        check=True,
    )
    word = "interpreted" if kernel == "python" else "compiled"
    assert f"({word} kernel)" in ran(target, "--version")
    assert ran(target, "dump", "--deep-iteration", SEGMENT).count("| offset: ") == 5


def test_help_needs_next_to_nothing() -> None:
    """``kseg --help`` must not pay for codecs, rich or the reader."""
    heavy = {"rich", "zstandard", "lz4", "snappy", "crc32c", "kseg.segment", "kseg.kernel"}
    code = (
        "import sys\nfrom kseg.cli.main import main\nmain(['--help'], standalone_mode=False)\n"
        f"print(sorted(set(sys.modules) & {heavy}))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
