"""The way from PATHs to changes that all changing commands share, with a command that cuts logs."""

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from changes.driver.cutting import CLEAN, LOG, POINTS, SIZE, Cutting, files, make_logs
from cli.command import CHANGING, ENVIRONMENT, FLIPPED, TESTDATA, Kseg, unchanged
from kseg.changes.disk import Disk
from kseg.changes.driver.command import ChangeOptions
from kseg.changes.journal import Known
from kseg.changes.plan import Plan
from kseg.cli import main as commands
from kseg.cli.changing import changing_options, run_change
from kseg.cli.main import main
from kseg.cli.options import paths_argument
from kseg.output.notices import Presentation
from kseg.quantities import shown_bytes
from kseg.segment.files import CLEAN_SHUTDOWN
from node.disks import dealt

# ``--report`` of changing commands: the plan of a dry run goes to a file, in every form.


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_plan_goes_to_a_file(kseg: Kseg, tmp_path: Path, form: str, option: str) -> None:
    shutil.copytree(FLIPPED, tmp_path / "dplain-0")
    shown = kseg("recover", "--dry-run", "--format", form, tmp_path / "dplain-0")
    kseg("recover", "--dry-run", "--format", form, option, tmp_path / "plan", tmp_path / "dplain-0").expect(1, out=b"")
    assert (tmp_path / "plan").read_bytes() == shown.out != b""


@click.command("cut")
@paths_argument()
@changing_options
def cut(paths: tuple[str, ...], change: ChangeOptions, presentation: Presentation) -> int:
    return run_change(paths, Cutting, change, presentation).exit_status


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = make_logs(tmp_path / "logs")
    (directory / CLEAN_SHUTDOWN).write_bytes(b"")
    monkeypatch.setitem(commands.COMMANDS, "cut", "Cut logs.")
    found = main.get_command
    monkeypatch.setattr(main, "get_command", lambda context, name: cut if name == "cut" else found(context, name))
    return directory


def sizes(logs: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(logs.glob(f"*/{LOG}"))]


WHOLE = (CLEAN / LOG).stat().st_size


def test_a_dry_run_touches_nothing(kseg: Kseg, logs: Path) -> None:
    with unchanged(logs, files):
        for path in (logs, logs / "dplain-0"):
            outcome = kseg("cut", "--dry-run", "--format", "json", path).expect(1)
            actions = [each for each in outcome.objects if each["type"] == "action"]
            assert actions[0]["file"] == str(logs / CLEAN_SHUTDOWN)
            assert outcome.objects[-1]["changed"] is False
    assert not (logs / ".lock").exists()


def test_a_log_directory(kseg: Kseg, logs: Path) -> None:
    with unchanged(logs, files):
        outcome = kseg("cut", "--format", "json", logs).expect(0)
        assert [Path(row["file"]).name for row in outcome.of_type("action")] == [CLEAN_SHUTDOWN, LOG, LOG, POINTS]
        summary = outcome.objects[-1]
        assert (summary["type"], summary["changed"], summary["removedRecords"]) == ("summary", True, 32)
        assert summary["removedBytes"] == 2 * (WHOLE - SIZE), "as the text says"
        assert summary["replacedBytes"] == len(b"0\n1\ndplain 0 150\n")
        assert sum(row["removedBytes"] for row in outcome.of_type("action")) == summary["removedBytes"]
        assert len(summary["kept"]) == 2
        assert sizes(logs) == [SIZE, SIZE]
        assert (logs / POINTS).read_bytes() == b"0\n1\ndplain 0 134\n"
        assert kseg("undo", logs).status == 0


def test_a_copy_leaves_the_input_alone(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    with unchanged(logs, files):
        assert kseg("cut", "--output", tmp_path / "out", "--dry-run", logs).status == 1
        assert not (tmp_path / "out").exists()
        assert kseg("cut", "--output", tmp_path / "out", logs).status == 0
    assert not (logs / ".lock").exists()
    assert sizes(tmp_path / "out") == [SIZE, SIZE]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [".lock", "dplain-0", "dplain-1", "meta.properties", POINTS]
    )
    kseg("cut", "--output", tmp_path / "out", logs / "dplain-0").expect(3, "already exists; nothing was written")


def test_a_long_plan_is_counted_but_whole_in_json(kseg: Kseg, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def many(self: Cutting, directory: str, known: Known) -> Plan:
        plan = Plan(directory)
        for i in range(300):
            plan.write(f"{i:020d}.index", [b"entries"], "rebuilt")
        return plan

    monkeypatch.setattr(Cutting, "plan_partition", many)
    lines = kseg("cut", "-n", logs / "dplain-0").lines
    assert "  ... and 280 create more" in lines
    assert len(lines) < 60
    assert len(kseg("cut", "-n", "--format", "json", logs / "dplain-0").objects) == 302


def test_lines_keep_to_80_columns(kseg: Kseg, logs: Path) -> None:
    lines = [line for line in kseg("cut", "-n", logs).lines if str(logs) not in line]
    assert max(len(line) for line in lines) <= 80


def test_totals_tell_what_is_removed_replaced_and_new(kseg: Kseg, tmp_path: Path) -> None:
    partition = Path(shutil.copytree(TESTDATA / "compaction/4.3.1/before/e-idem-0", tmp_path / "e-idem-0"))
    asked = ("compact", "-n", "--min-cleanable-ratio", "0", "--include-active", partition)
    replaced = [row for row in kseg(*asked, "--format", "json").of_type("action") if row["action"] == "replace"]
    old, new = (sum(row[size] for row in replaced) for size in ("oldSize", "newSize"))
    assert old > 10 * new > 0
    assert f", {shown_bytes(old)} replaced by {shown_bytes(new)}, 17 B new;" in kseg(*asked).err.splitlines()[-1]
    done = kseg("convert", "--codec", "zstd", "--output", tmp_path / "new", partition).err.splitlines()[-1]
    assert done.endswith(" KiB new")


@pytest.mark.parametrize("options", [(), ("-n",)])
def test_two_paths_with_the_same_output_are_refused(kseg: Kseg, tmp_path: Path, options: tuple[str, ...]) -> None:
    source = TESTDATA / "compaction/4.3.1/before/e-idem-0"
    first, second = (shutil.copytree(source, tmp_path / name / "e-idem-0") for name in ("a", "b"))
    asked = ("--retention-ms", "1", "--policy", "delete", "--output", tmp_path / "new", *options)
    done = kseg("retain", *asked, first, second)
    done.expect(3, f"{first} and {second} would both become {tmp_path}/new/e-idem-0")
    assert "already exists" not in done.err
    assert (tmp_path / "new" / "e-idem-0").is_dir() == (not options)


def test_quiet_prints_only_errors_and_dry_runs(kseg: Kseg, logs: Path) -> None:
    asked = kseg("cut", "--quiet", "--dry-run", logs)
    assert (asked.status, asked.out.count(b"truncate"), asked.err) == (1, 2, "")
    for command in ("cut", "undo"):
        done = kseg(command, "--quiet", logs)
        assert (done.status, done.out, done.err) == (0, b"", "")
    assert sizes(logs) == [WHOLE] * 2


def test_many_partitions_have_a_line_each(kseg: Kseg, logs: Path) -> None:
    for number in range(10, 20):
        shutil.copytree(CLEAN, logs / f"dplain-{number}")
    names = sorted(path.name for path in logs.glob("dplain-*"))
    for arguments in (["cut", "--dry-run"], ["cut"], ["undo"]):
        lines = [line for line in kseg(*arguments, logs).out.decode().splitlines() if "dplain" in line]
        assert sorted(Path(line.partition(": 1 ")[0]).name for line in lines) == names
    assert kseg("cut", "--dry-run", *[logs / name for name in names[:10]]).out.count(b"\n  truncate") == 10


@pytest.mark.parametrize("command", ["recover", "reindex", "compact", "retain"])
def test_files_shared_on_request(command: str, kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "clone", lambda *_: False)
    source = TESTDATA / "compaction/4.3.1/before/c-tomb-short-0"
    part = Path(shutil.copytree(source, tmp_path / "logs" / source.name))
    words = [command, *["--min-cleanable-ratio", "1"] * (command == "compact")]
    for link in ([], ["--link"]):
        output = tmp_path / f"out{len(link)}"
        assert kseg(*words, *link, "--output", output, part).status == 0
        inodes = {path.stat().st_ino for path in part.iterdir()}
        shared = [path for path in output.rglob("*.log") if path.stat().st_ino in inodes]
        assert bool(shared) == bool(link)
    assert "--link needs --output" in kseg(*words, "--link", part).err


# The lock of a log directory is lost as soon as any descriptor of its file is closed.

WATCHED = """
import os, sys
def watch(event, arguments):
    path = arguments[0] if event == "open" else ""
    if not isinstance(path, int) and os.fsdecode(path or "").endswith(".lock"):
        os.write(2, b"opened: .lock\\n")
sys.addaudithook(watch)
from kseg.cli.main import run
run(sys.argv[1:])
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("way", CHANGING)
def test_the_lock_file_is_opened_once(tmp_path: Path, way: str) -> None:
    disks = dealt(TESTDATA / "log-directories/4.3.1-rounds/kill", tmp_path, 2)
    for disk in disks:
        (disk / ".lock").touch()
    words = [sys.executable, "-P", "-c", WATCHED, *CHANGING[way], *map(str, disks)]
    done = subprocess.run(words, capture_output=True, env=ENVIRONMENT, check=False, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr.count("opened: .lock") == 2
