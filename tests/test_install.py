"""What an installation holds: built as pip builds it, with and without a compiled kernel."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from kseg.kernel import COMPILED
from test_tidy import tracked_files

ROOT = Path(__file__).resolve().parent.parent
SEGMENT = "testdata/kafka-4.3.1/clients/librdkafka-txn-0/00000000000000000000.log"


def missing_files(names: list[str]) -> list[str]:
    """What ought to be among the files of a distribution and is not."""
    found = {Path(name).name for name in names if "share/man/" in name}
    wanted = ["kseg/py.typed", "kseg/kernel/layout/rows.py", "pyspark_kseg/__init__.py"]
    missing = [name for name in wanted if name not in names]
    missing += [page.name for page in (ROOT / "man").glob("*.[1-9]") if page.name not in found]
    return missing if any(name.endswith("licenses/LICENSE") for name in names) else [*missing, "LICENSE"]


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


@pytest.mark.slow
def test_a_wheel_built_without_a_compiler_holds_all_and_runs(tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path, "python")
    names = zipfile.ZipFile(wheel).namelist()
    assert missing_files(names) == []
    assert [name for name in names if name.endswith((".so", ".pyd", ".c"))] == []

    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True)
    assert "(interpreted kernel)" in ran(target, "--version")
    assert ran(target, "dump", "--deep-iteration", SEGMENT).count("| offset: ") == 5


@pytest.mark.slow
def test_a_source_distribution_holds_what_git_does_and_nothing_stray(tmp_path: Path) -> None:
    """Dot-files aside, which neither a build nor a test needs."""
    pytest.importorskip("setuptools")
    wanted = {name for name in tracked_files() if not name.startswith(".")}
    if not wanted:
        pytest.skip("not a git checkout")
    source = tmp_path / "source"
    for name in wanted:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    strays = [
        "kseg/kernel/scan/_compiled.abi3.so", "kseg/__pycache__/limits.cpython-311.pyc", "tests/.hypothesis/examples/0",
        ".venv/pyvenv.cfg", "build/lib/kseg/limits.py", "dist/kseg.whl", "notes.txt",
    ]  # fmt: skip
    for name in strays:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("stray")
    code = "from setuptools import build_meta; build_meta.build_sdist('../built')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=source, capture_output=True, check=True)
    (built,) = (tmp_path / "built").iterdir()
    with tarfile.open(built) as archive:
        held = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    held = {name for name in held if not name.startswith("kseg.egg-info/")}
    assert (sorted(wanted - held), sorted(held - wanted)) == ([], ["PKG-INFO", "setup.cfg"])


def test_what_is_installed_here_is_whole() -> None:
    """The distribution that the tests run on, compiled as a rule: README's second command installs it."""
    try:
        installed = distribution("kseg")
    except PackageNotFoundError:
        pytest.skip("kseg is not installed here")
    names = [str(name) for name in installed.files or ()]
    if installed.read_text("RECORD") is None or "kseg/__init__.py" not in names:
        pytest.skip("kseg runs from its source tree here")
    assert missing_files(names) == []
    assert [name for name in names if name.endswith(".c")] == []


def test_help_needs_next_to_nothing() -> None:
    """``kseg --help`` must not pay for codecs, rich, the reader, or shutil, of which click uses only the width."""
    heavy = {"shutil", "rich", "zstandard", "lz4", "snappy", "crc32c", "kseg.segment", "kseg.kernel"}
    code = (
        "import sys\nfrom kseg.cli.main import main\nmain(['--help'], standalone_mode=False)\n"
        f"print(sorted(set(sys.modules) & {heavy}))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(not COMPILED, reason="the interpreted kernel stands on packages that the compiled one does without")
def test_a_small_dump_needs_little(tmp_path: Path) -> None:
    """Nor must a dump of a few batches pay for questions not asked, views not wanted or threads not started."""
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes((ROOT / SEGMENT).read_bytes()[:1000])
    heavy = {
        "base64", "bz2", "concurrent.futures", "crc32c", "json", "lz4", "lzma", "multiprocessing", "numpy",
        "queue", "rich", "shutil", "snappy", "tempfile", "unicodedata", "zstandard", "kseg.decoders.decoded",
        "kseg.formats.compressing", "kseg.output.jsonl", "kseg.output.summary", "kseg.output.table",
        "kseg.segment.isolation", "kseg.segment.seek", "kseg.sidefiles",
    }  # fmt: skip
    code = (
        "import sys\nimport click\nbefore = set(sys.modules)\nfrom kseg.cli.main import main\n"
        "main(['dump', '--deep-iteration', '--print-data-log', sys.argv[1]], standalone_mode=False)\n"
        f"print(sorted((set(sys.modules) - before) & {heavy}))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, segment], capture_output=True, text=True, check=True)
    assert "| offset: " in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_verify_of_one_partition_needs_no_processes() -> None:
    code = (
        "import sys\nimport click\nfrom kseg.cli.main import main\n"
        "main(['verify', sys.argv[1]], standalone_mode=False)\n"
        "print(sorted(set(sys.modules) & {'multiprocessing', 'tempfile', 'shutil', 'hashlib', 'logging'}))"
    )
    partition = (ROOT / SEGMENT).parent
    done = subprocess.run([sys.executable, "-P", "-c", code, partition], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
