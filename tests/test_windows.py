"""Reading needs nothing that Windows lacks; what changes files is refused there."""

import gzip
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import kseg

ROOT = Path(__file__).resolve().parent.parent
PARTITION = "testdata/kafka-4.3.1/clients/librdkafka-txn-0"
DAMAGED = "testdata/damaged/4.3.1-last-length-zero/dplain-0"
LOG_DIRECTORY = "testdata/kafka-4.3.1/clients"
COMMANDS = [
    ("dump", "--print-data-log", PARTITION),
    ("dump", "--deep-iteration", "--format", "json", DAMAGED),
    ("dump", "--all", "--format", "json", PARTITION),
    ("dump", "--hex", f"{PARTITION}/00000000000000000000.log"),
    ("stats", DAMAGED),
    ("dump", "--offsets", "2..3", PARTITION),
    ("verify", "--level", "deep", "--format", "json", PARTITION),
    ("verify", "--format", "json", DAMAGED),
    ("verify", "--jobs", "2", "--format", "json", LOG_DIRECTORY),
    ("verify", "--explain", "crc-mismatch"),
    ("reindex", "--help"),
]
MAIN = "from kseg.__main__ import main\nmain()\n"
PATHS = os.pathsep.join([str(Path(__file__).parent), str(Path(kseg.__file__).parent.parent)])
KERNELS = ["python", *["compiled"] * kseg.kernel.COMPILED]


def ran(prelude: str, *arguments: str, kernel: str = "python") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KSEG_")}
    environment |= {"KSEG_KERNEL": kernel, "PYTHONPATH": PATHS}
    command = [sys.executable, "-P", "-c", prelude + MAIN, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_reading_is_the_same(arguments: tuple[str, ...], kernel: str) -> None:
    usual, without = ran("", *arguments, kernel=kernel), ran("import without_posix\n", *arguments, kernel=kernel)
    assert "Traceback" not in without.stderr
    assert (without.returncode, without.stdout) == (usual.returncode, usual.stdout)
    assert usual.stdout


def packed(form: str, folder: Path) -> Path:
    """A damaged segment as a member of an archive or as a packed file."""
    (segment,) = (ROOT / DAMAGED).glob("*.log")
    made = folder / f"{segment.name}.{form}"
    if form == "gz":
        made.write_bytes(gzip.compress(segment.read_bytes()))
    elif form == "tar":
        with tarfile.open(made, "w") as archive:
            archive.add(segment, segment.name)
    else:
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(segment, segment.name)
    return made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["gz", "tar", "zip"])
def test_packed_files_and_archives_are_read(form: str, tmp_path: Path) -> None:
    path = str(packed(form, tmp_path))
    usual, without = (ran(prelude, "dump", path) for prelude in ("", "import without_posix\n"))
    assert "Traceback" not in without.stderr
    assert (without.returncode, without.stdout) == (usual.returncode, usual.stdout)
    assert "| damage: bad-length position: 7129" in usual.stdout


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [("dump",), ("verify", "--format", "json")])
def test_output_replaces_a_file(options: tuple[str, ...], tmp_path: Path) -> None:
    written = []
    for prelude in ("", "import without_posix\n"):
        output = tmp_path / "output"
        output.write_bytes(b"older")
        done = ran(prelude, *options, "-o", str(output), DAMAGED)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
        written.append(output.read_bytes())
        assert list(tmp_path.iterdir()) == [output]
    assert written[0] == written[1] != b"older"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["recover", "reindex", "compact"])
def test_changing_is_refused(command: str, tmp_path: Path) -> None:
    partition = tmp_path / "dplain-0"
    partition.mkdir()
    for path in (ROOT / DAMAGED).iterdir():
        (partition / path.name).write_bytes(path.read_bytes())
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    done = ran("import without_posix\n", command, *["--no-lock"] * (command != "compact"), str(partition))
    assert "kseg only reads on this system" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 3
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def test_a_file_is_read_at_a_position_without_pread(tmp_path: Path) -> None:
    code = (
        "import without_posix, os, sys\nfrom kseg.positioned import read_at\n"
        "descriptor = os.open(sys.argv[1], os.O_RDONLY)\n"
        "print(read_at(descriptor, 3, 2), read_at(descriptor, 9, 0), read_at(descriptor, 1, 99))\n"
    )
    path = tmp_path / "digits"
    path.write_bytes(b"012345")
    environment = {**os.environ, "PYTHONPATH": PATHS}
    command = [sys.executable, "-P", "-c", code, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "b'234' b'012345' b''\n"
