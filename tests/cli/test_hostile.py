"""A log directory that somebody else has prepared: nothing in it reaches out of it, gives rights, or is waited for."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import LOGS, TESTDATA, Kseg, unchanged
from kseg.changes.apply import apply
from kseg.changes.plan import Plan
from kseg.changes.undo import last_change, plan_undo
from kseg.errors import KsegError

# Nothing is imported from the current directory, which may belong to anyone.

NAMES = "signal selectors socket struct subprocess multiprocessing pickle json shutil tempfile pyarrow pandas".split()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory with modules that tell when they are imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("open(__file__ + '.imported', 'w').close()\nraise SystemExit(9)\n")
    return tmp_path


def run(words: list[str], elsewhere: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    plain["PYTHONPATH"] = str(TESTDATA.parent)
    done = subprocess.run(words, cwd=elsewhere, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, done.stderr)
    assert [path.name for path in elsewhere.iterdir() if path.suffix == ".imported"] == []


def test_by_the_program_itself(elsewhere: Path) -> None:
    run([sys.executable, "-m", "kseg", "verify", "--level", "deep", str(LOGS)], elsewhere)


def test_by_a_python_that_it_starts(elsewhere: Path) -> None:
    code = """
import sys
sys.path.remove("")  # as it is for an installed program
import subprocess
from kseg.__main__ import main
sys.argv = ["kseg", "--version"]
try:
    main()
except SystemExit:
    subprocess.run([sys.executable, "-c", "import selectors"], check=True)
"""
    run([sys.executable, "-c", code], elsewhere)


@pytest.mark.spark
@pytest.mark.slow
def test_by_workers_of_spark(elsewhere: Path) -> None:
    run([sys.executable, "-m", "kseg", "verify", "--engine", "spark", str(LOGS)], elsewhere)


LOG = "00000000000000000116.log"
CHANGING = (
    ("recover",),
    ("recover", "--mode", "salvage"),
    ("reindex",),
    ("retain", "--retention-ms", "1", "--now", "1900000000000"),
    ("compact", "--drop-null-keys", "--min-cleanable-ratio", "0"),
    ("convert", "--codec", "gzip", "--in-place"),
    ("undo",),
    ("undo", "--purge"),
    ("undo", "--list"),
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    source = next(path for path in sorted((TESTDATA / "damaged").glob("*flip*/dplain-0")) if path.is_dir())
    shutil.copytree(source, directory / "dplain-0")
    (directory / "meta.properties").write_bytes(b"version=1\n")
    return directory


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    (directory / "deep").mkdir(parents=True)
    for name in ("0", "1", "precious", "deep/precious"):
        (directory / name).write_text("precious")
    return directory


def everything(directory: Path) -> dict[str, tuple[bytes | None, int, int]]:
    """Content, mode and owner of all that lies in a directory."""
    return {
        str(path.relative_to(directory)): (
            path.read_bytes() if path.is_file() else None,
            path.lstat().st_mode,
            path.lstat().st_uid,
        )
        for path in sorted(directory.rglob("*"))
    }


def root_file(mode: int = 0o4755) -> dict[str, Any]:
    return {"content": b64encode(b"#!/bin/sh\n").decode(), "mtimeNs": 0, "mode": mode, "uid": 0, "gid": 0}


def begun(name: str, mode: int = 0o4755) -> dict[str, Any]:
    blank = {name: [] for name in ("partitions", "moves", "restored", "undone")}
    files = {name: {} for name in ("planned", "replaced", "left")}
    head = {"version": 2, "command": "recover", "timeMs": 1, "keeps": True, "pathName": "", "author": None, "root": ""}
    return head | blank | files | {"state": "open", "known": {name: root_file(mode)}}


@pytest.mark.parametrize("arguments", CHANGING, ids=" ".join)
@pytest.mark.parametrize("name", ["pwn", "../pwn", "/pwn", ".bashrc", "bootstrap.checkpoint", "dplain-0"])
@pytest.mark.parametrize("ending", [{"left": {"X": None}, "state": "done"}, {"restored": ["X"], "state": "undoing"}])
def test_a_journal_asks_for_files_that_commands_change_only(
    ending: dict[str, Any], name: str, arguments: tuple[str, ...], logs: Path, kseg: Kseg
) -> None:
    row = begun(name) | json.loads(json.dumps(ending).replace("X", name))
    (logs / ".kseg-change-1.jsonl").write_text(json.dumps(row))
    before = everything(logs)
    kseg(*arguments, logs).expect(3, "is no journal that this release of kseg understands")
    after = everything(logs)
    after.pop(".lock", None)
    assert after == before


@needs_root
def test_a_journal_gives_no_rights(logs: Path, kseg: Kseg) -> None:
    point = "recovery-point-offset-checkpoint"
    row = begun(point, 0o7777) | {"left": {point: None}, "state": "done"}
    (logs / ".kseg-change-1.jsonl").write_text(json.dumps(row))
    for path in (logs, logs / ".kseg-change-1.jsonl"):
        os.chown(path, 1234, 2345)
    assert kseg("undo", logs).status == 0
    found = (logs / point).stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 2345, 0o666)


@needs_root
def test_a_journal_of_a_third_user_is_refused(logs: Path, kseg: Kseg) -> None:
    (logs / ".kseg-change-1.jsonl").write_text(json.dumps(begun("cleaner-offset-checkpoint")))
    os.chown(logs / ".kseg-change-1.jsonl", 1234, 1234)
    kseg("recover", logs).expect(3, "belongs to another user")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/full", "outside/precious", "FIFO"])
@pytest.mark.parametrize("arguments", CHANGING, ids=" ".join)
def test_a_journal_is_regular(arguments: tuple[str, ...], target: str, logs: Path, outside: Path, kseg: Kseg) -> None:
    path = logs / ".kseg-change-1.jsonl"
    os.mkfifo(path) if target == "FIFO" else path.symlink_to(logs.parent / target)
    kseg(*arguments, logs).expect(3, ".kseg-change-1.jsonl: is ")


@pytest.mark.parametrize("arguments", CHANGING, ids=" ".join)
@pytest.mark.parametrize("name", ["7", "7.ended", "7.preparing", "."])
def test_a_link_in_a_quarantine(name: str, arguments: tuple[str, ...], logs: Path, outside: Path, kseg: Kseg) -> None:
    folder = logs / "dplain-0" / ".kseg-quarantine"
    if name == ".":
        folder.symlink_to(outside)
    else:
        folder.mkdir()
        (folder / name).symlink_to(outside)
    before = everything(outside)
    for path in (logs / "dplain-0", logs):
        done = kseg(*arguments, path)
        assert everything(outside) == before
        assert done.status == 3, done.err


@pytest.mark.parametrize("inner", ["new", "old", "manifest.json", "manifest.json.tmp"])
def test_a_link_in_the_folder_of_a_change_leads_nowhere(inner: str, logs: Path, outside: Path, kseg: Kseg) -> None:
    folder = logs / "dplain-0" / ".kseg-quarantine" / "7.ended"
    folder.mkdir(parents=True)
    (folder / inner).symlink_to(outside)
    with unchanged(outside, everything):
        assert kseg("recover", logs / "dplain-0").status in (0, 1)
    assert not folder.exists()


def change(partition: Path) -> Path:
    """Cuts a log; the manifest of that."""
    plan = Plan(str(partition))
    plan.truncate(LOG, 100, "is cut")
    apply(plan, "test")
    return partition / ".kseg-quarantine" / "1" / "manifest.json"


@pytest.mark.parametrize("arguments", [("undo",), ("undo", "--purge"), ("recover",)], ids=" ".join)
@pytest.mark.parametrize("is_shaped", [True, False])
def test_kept_bytes_are_own(is_shaped: bool, arguments: tuple[str, ...], logs: Path, outside: Path, kseg: Kseg) -> None:
    manifest = change(logs / "dplain-0")
    row = json.loads(manifest.read_text())
    place = outside.with_name(f"dplain-0.1.{row['timeMs']}") if is_shaped else outside
    outside.rename(place)
    manifest.write_text(json.dumps({**row, "kept": str(place)}))
    with unchanged(place, everything):
        done = kseg(*arguments, logs / "dplain-0")
    assert arguments == ("recover",) or done.status == 3


@pytest.mark.parametrize("field", ["file", "target", "origin"])
@pytest.mark.parametrize(
    "name",
    [
        "../pwn",
        "/pwn",
        "x/../../pwn",
        "..",
        "a\0b",
        "meta.properties",
        ".lock",
        ".kafka_cleanshutdown",
        ".kseg-change-1.jsonl",
    ],
)
def test_a_manifest_names_files_of_its_partition(name: str, field: str, logs: Path, kseg: Kseg) -> None:
    manifest = change(logs / "dplain-0")
    row = json.loads(manifest.read_text())
    row["steps"][0][field] = name
    manifest.write_text(json.dumps({**row, "state": "committed"}))
    before = everything(logs)
    for command in ("recover", "undo"):
        kseg(command, logs / "dplain-0").expect(3, "is no manifest")
    after = everything(logs)
    after.pop(".lock", None)
    before.pop(".lock", None)
    assert after == before


@pytest.mark.parametrize("kind", ["dangling", "link", "FIFO", "directory"])
def test_the_lock_is_a_regular_file(kind: str, logs: Path, outside: Path, kseg: Kseg) -> None:
    path = logs / ".lock"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(outside / ("precious" if kind == "link" else "new"))
    before = everything(outside), everything(logs / "dplain-0")
    kseg("recover", logs).expect(3, ".lock: cannot be locked")
    assert (everything(outside), everything(logs / "dplain-0")) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_partition_that_was_swapped_for_a_link_is_not_changed(logs: Path, outside: Path) -> None:
    plan = Plan(str(logs / "dplain-0"))
    plan.truncate(LOG, 100, "is cut")
    (logs / "dplain-0").rename(outside / "dplain-0")
    (logs / "dplain-0").symlink_to(outside / "dplain-0")
    with unchanged(outside, everything):
        with pytest.raises(Exception, match="is a symbolic link"):
            apply(plan, "test")


@pytest.fixture
def ended() -> Iterator[None]:
    """Ends a test that waits for something that never comes."""

    def end(_number: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
IN_ROOT = ("meta.properties", ".kafka_cleanshutdown", *CHECKPOINTS)
IN_PARTITION = (
    "partition.metadata",
    "leader-epoch-checkpoint",
    *(f"{116:020d}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")),
)


@pytest.mark.usefixtures("ended")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*IN_ROOT, *(f"dplain-0/{name}" for name in IN_PARTITION)])
def test_no_command_waits_for_a_fifo(name: str, logs: Path, kseg: Kseg) -> None:
    (logs / name).unlink(missing_ok=True)
    os.mkfifo(logs / name)
    reading = (("dump", "--all"), ("transactions",), ("stats",), ("verify", "--level", "deep"))
    for arguments in (*reading, ("convert", "--to", "jsonl"), *CHANGING):
        for path in (logs, logs / "dplain-0"):
            for more in ((), ("-n",)) if arguments in CHANGING and arguments[:1] != ("undo",) else ((),):
                assert kseg(*arguments, *more, path).status in (0, 1, 3, 4)
    assert stat.S_ISFIFO((logs / name).lstat().st_mode)


@pytest.mark.sampled(9)
@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=[pytest.mark.slow] * (name in CHECKPOINTS[1:])) for name in IN_ROOT),
        ".kseg-change-1.jsonl",
        "dplain-0/partition.metadata",
        "dplain-0/leader-epoch-checkpoint",
    ],
)
def test_a_huge_file_of_holes_is_not_read_into_memory(name: str, logs: Path, kseg: Kseg) -> None:
    with (logs / name).open("ab") as file:
        os.truncate(file.fileno(), 1 << 40)
    tracemalloc.start()
    for arguments in (("verify",), ("recover", "-n"), ("undo", "-n"), ("compact", "-n")):
        assert kseg(*arguments, logs).status in (0, 1, 3)
    assert tracemalloc.get_traced_memory()[1] < 2 << 30
    tracemalloc.stop()


@pytest.mark.parametrize("arguments", CHANGING, ids=" ".join)
def test_a_linked_partition_is_left_alone(arguments: tuple[str, ...], logs: Path, outside: Path, kseg: Kseg) -> None:
    shutil.copytree(logs / "dplain-0", outside / "dplain-7")
    change(outside / "dplain-7")
    (logs / "dplain-7").symlink_to(outside / "dplain-7")
    with unchanged(outside, everything):
        done = kseg(*arguments, logs)
    if arguments[0] != "undo":
        assert (done.status, "dplain-7: is a link out of the log directory" in done.err) == (3, True)


@pytest.mark.parametrize("name", [".kseg-quarantine", ".kseg-quarantine/1.preparing"])
def test_the_lock_of_a_log_directory_is_its_own(name: str, logs: Path, tmp_path: Path, kseg: Kseg) -> None:
    """Even where it holds what partitions hold."""
    (logs / name).mkdir(parents=True)
    assert kseg("recover", logs).status in (0, 1)
    assert (logs / ".lock").exists()
    assert not (tmp_path / ".lock").exists()


def test_a_file_that_is_swapped_for_another_name_of_a_foreign_file_gives_nothing(logs: Path, outside: Path) -> None:
    """What is made is known by its open descriptor: a name may lead to another file by then."""
    from kseg.changes.disk import Disk

    class Swapping(Disk):
        def copy_owner(self, path: str, *arguments: Any, **named: Any) -> os.stat_result:
            if path.endswith("/new/0"):
                os.replace(path, path + ".moved")
                os.link(outside / "precious", path)
            return super().copy_owner(path, *arguments, **named)

    plan = Plan(str(logs / "dplain-0"))
    plan.write("leader-epoch-checkpoint", [b"0\n0\n"], "new")
    (outside / "precious").chmod(0o600)
    with unchanged(outside, everything):
        os.chmod(logs / "dplain-0", 0o777)
        apply(plan, "test", disk=Swapping())
        with pytest.raises(KsegError, match="has changed since"):
            plan_undo(last_change(plan.directory))
