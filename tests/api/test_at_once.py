"""Writers, plans and conversions at once in one log directory, in threads and processes: each is whole or refused."""

import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import kseg
from api.consumed import TESTDATA, names_in
from changes.trees import contents

FLIPPED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
HEALTHY = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
DONE, REFUSED = "done", "refused"
RECORDS = 300
WRITER = f"""
import kseg, sys
print("ready", flush=True)
sys.stdin.read()
try:
    with kseg.writer(sys.argv[1]) as writer:
        for _ in range({RECORDS}):
            writer.append(value=b"x" * 100)
except kseg.KsegError as error:
    sys.exit(error.exit_status)
"""
MANY = f"""
import kseg, sys
print("ready", flush=True)
sys.stdin.read()
try:
    with kseg.log_writer(sys.argv[1]) as writer:
        for number in map(int, sys.argv[2:]):
            writer.extend({{"topic": "t", "partition": number, "value": b"x" * 100}} for _ in range({RECORDS}))
except kseg.KsegError as error:
    sys.exit(error.exit_status)
"""
KILLED = """
import kseg, os, sys
with kseg.writer(sys.argv[1]) as writer:
    writer.append(value=b"x")
    os._exit(9)
"""


def outcome(work: Callable[[], object]) -> str:
    try:
        work()
    except kseg.KsegError as error:
        return REFUSED if error.exit_status == 3 else repr(error)
    return DONE


def in_threads(works: Sequence[Callable[[], object]]) -> list[str]:
    """Starts all at one moment; their outcomes."""
    ends, barrier = [""] * len(works), threading.Barrier(len(works))

    def run(k: int) -> None:
        barrier.wait()
        ends[k] = outcome(works[k])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def ready(program: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Starts a program, which waits until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return process


def in_processes(programs: Sequence[Sequence[str]]) -> list[int]:
    """Lets all go on at one moment; their exit statuses."""
    started = [ready(*program) for program in programs]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    return [process.wait(60) for process in started]


def write(path: Path, count: int = RECORDS) -> None:
    with kseg.writer(path) as writer:
        for _ in range(count):
            writer.append(value=b"x" * 100)


def rows(path: Path) -> int:
    return sum(1 for _ in kseg.open(path).records())


@pytest.mark.parametrize("is_there", [True, False])
def test_writers_in_threads(is_there: bool, tmp_path: Path) -> None:
    for k in range(5):
        root = tmp_path / str(k) / "new"
        (root if is_there else root.parent).mkdir(parents=True)
        paths = [root / f"t-{i}" for i in range(4)]
        assert in_threads([partial(write, path) for path in paths]) == [DONE] * 4
        assert [rows(path) for path in paths] == [RECORDS] * 4
        assert (names_in(root), names_in(root.parent)) == ([path.name for path in paths], ["new"])


@pytest.mark.slow
def test_writers_in_processes(tmp_path: Path) -> None:
    """Two of the same partition too: one of them is done."""
    paths = [tmp_path / "new" / name for name in ("t-0", "t-1", "t-1")]
    statuses = in_processes([(WRITER, str(path)) for path in paths])
    found = [(path.name, status) for path, status in zip(paths, statuses, strict=True)]
    assert Counter(found) == Counter([("t-0", 0), ("t-1", 0), ("t-1", 3)])
    assert [rows(path) for path in paths] == [RECORDS] * 3
    assert (names_in(tmp_path / "new"), names_in(tmp_path)) == (["t-0", "t-1"], ["new"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_there", [False, True])
def test_log_writers_in_processes(is_there: bool, tmp_path: Path) -> None:
    """Eight, and a ninth that shares a partition with one of them: one of these two is done, whole."""
    root = tmp_path / "new"
    if is_there:
        root.mkdir()
    numbers = [(2 * i, 2 * i + 1) for i in range(8)] + [(15, 16)]
    statuses = in_processes([(MANY, str(root), *map(str, pair)) for pair in numbers])
    assert (statuses[:7], sorted(statuses[7:])) == ([0] * 7, [0, 3])
    done = {number for pair, status in zip(numbers, statuses, strict=True) if status == 0 for number in pair}
    assert {name: rows(root / name) for name in names_in(root)} == {f"t-{number}": RECORDS for number in done}
    assert names_in(tmp_path) == ["new"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_writer_killed_at_any_moment(is_there: bool, tmp_path: Path) -> None:
    """All partitions are there after the next command, or none."""
    names = sorted(f"t-{number}" for number in range(60))
    for k in range(6):
        root = tmp_path / str(k) / "new"
        (root if is_there else root.parent).mkdir(parents=True)
        process = ready(MANY, str(root), *map(str, range(60)))
        assert process.stdin is not None
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05 + 0.1 * k)
        process.kill()
        process.wait()
        seen = [name for name in names_in(root) if name[0] != "."] if root.exists() else []
        assert {rows(root / name) for name in seen} <= {RECORDS}
        assert is_there or seen in ([], names)
        write(root / "u-0", 1)
        assert {*names_in(root)} in ({"u-0"}, {"u-0", *names})


def test_two_writers_of_one_partition(tmp_path: Path) -> None:
    for k in range(5):
        path = tmp_path / str(k) / "t-0"
        path.parent.mkdir()
        ends = in_threads([partial(write, path, 10), partial(write, path, 20)])
        assert sorted(ends) == [DONE, REFUSED]
        assert rows(path) in (10, 20)
        assert names_in(path.parent) == ["t-0"]


def test_a_killed_writer_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    """Its staging folder is removed by the next one, and that of a living one is not."""
    for root in (tmp_path, tmp_path / "new"):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(root / "t-0")], check=False)
        assert killed.returncode == 9
        assert not (root / "t-0").exists()
        assert any(".new" in name for name in names_in(tmp_path))
        with kseg.writer(root / "t-1") as alive:
            assert outcome(partial(write, root / "t-0")) == DONE
            alive.append(value=b"x")
        assert rows(root / "t-1") == 1
        assert [name for name in names_in(root) if name.startswith(".")] == []
    assert names_in(tmp_path) == ["new", "t-0", "t-1"]


def test_what_a_killed_writer_left_in_a_log_directory_is_told_and_removed(tmp_path: Path) -> None:
    """No broker starts with its folder there."""
    write(tmp_path / "t-1")
    shutil.copy(TESTDATA / "log-directories/4.3.1/logs/meta.properties", tmp_path)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "t-0")], check=False)
    (left,) = (name for name in names_in(tmp_path) if ".new" in name)
    found = [each for each in kseg.verify(tmp_path).findings if each.code == "pending-change"]
    assert [(each.file, each.repair) for each in found] == [
        (str(tmp_path / left), ["kseg", "undo", "--complete", str(tmp_path)])
    ]
    with kseg.writer(tmp_path / "t-2") as alive:
        alive.append(value=b"x")
        assert left not in names_in(tmp_path)
        assert not any(each.code == "pending-change" for each in kseg.verify(tmp_path).findings)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "t-0")], check=False)
    kseg.recover(tmp_path).apply()
    assert [name for name in names_in(tmp_path) if ".new" in name] == []


def salvage(part: Path) -> None:
    kseg.recover(part, mode="salvage").apply()


def test_plans_in_threads(tmp_path: Path) -> None:
    for k in range(6):
        part = tmp_path / str(k) / FLIPPED.name
        shutil.copytree(FLIPPED, part)
        before = contents(part)
        ends = in_threads([partial(salvage, part)] * 3)
        assert DONE in ends
        assert {*ends} <= {DONE, REFUSED}
        kseg.undo(part).apply()
        assert contents(part) == before


def test_a_plan_is_refused_while_a_writer_is_open(tmp_path: Path) -> None:
    part = tmp_path / FLIPPED.name
    shutil.copytree(FLIPPED, part)
    before, plan = contents(part), kseg.recover(part)
    with kseg.writer(tmp_path / "t-0") as writer:
        writer.append(value=b"x")
        assert outcome(plan.apply) == REFUSED
        assert contents(part) == before
    assert outcome(plan.apply) == DONE


def test_conversions_in_threads(tmp_path: Path) -> None:
    sources, output = [tmp_path / "in" / f"t-{i}" for i in range(3)], tmp_path / "out"
    for source in sources:
        shutil.copytree(HEALTHY, source)
    plans = [kseg.convert(source, codec="zstd", output=output) for source in sources]
    assert in_threads([plan.apply for plan in plans]) == [DONE] * 3
    assert [rows(output / source.name) for source in sources] == [rows(HEALTHY)] * 3
    assert names_in(output) == [source.name for source in sources]
