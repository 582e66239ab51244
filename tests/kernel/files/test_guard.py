"""Files cut while they are mapped: guarded, reading goes on with zeros; unguarded, the system's way is left as it was.

Each case runs in a process of its own, because what it guards against ends processes.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kseg
from kseg.kernel.files import system

needs_guard = pytest.mark.skipif(not system.CAN_GUARD, reason="only the compiled kernel guards mappings, and on POSIX")

PRELUDE = """
import mmap, os, signal, sys, threading
from kseg.kernel.scan.checksums import crc32c
from kseg.kernel.files.system import guard, unguard, was_cut

PAGE = mmap.PAGESIZE

def mapped(name, pages=64):
    with open(name, "wb") as file:
        file.write(b"k" * (pages * PAGE))
    with open(name, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
"""


def run(script, folder):
    command = [sys.executable, "-c", PRELUDE + script]
    environment = {**os.environ, "PYTHONPATH": str(Path(kseg.__file__).parent.parent)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


PASSING = {
    "pages that are gone read as zeros": """
whole = mapped("a")
guard(whole)
assert whole[:] == b"k" * (64 * PAGE) and not was_cut(whole)
os.truncate("a", 10 * PAGE + 5)
kept = 10 * PAGE + 5
assert whole[kept : 11 * PAGE] == bytes(PAGE - 5) and not was_cut(whole)
assert whole[60 * PAGE : 61 * PAGE] == bytes(PAGE) and was_cut(whole)
assert whole[:] == b"k" * kept + bytes(64 * PAGE - kept)
assert crc32c(whole) == crc32c(b"k" * kept + bytes(64 * PAGE - kept))
unguard(whole)
assert not was_cut(whole)
""",
    "a file is cut at any moment under several readers": """
for turn in range(0, 40, 4):
    whole = mapped("a", 2048)
    guard(whole)
    readers = [threading.Thread(target=lambda: [crc32c(whole) for _ in range(4)]) for _ in range(3)]
    for reader in readers:
        reader.start()
    for pages in range(2000, 0, -400 - 7 * turn):
        os.truncate("a", pages * PAGE + turn)
    for reader in readers:
        reader.join()
    assert whole[-1] == 0 and was_cut(whole)
    unguard(whole)
    whole.close()
""",
    "ranges are told apart": """
first, second = mapped("a"), mapped("b")
guard(first)
guard(memoryview(second)[PAGE // 2 :])
os.truncate("b", 0)
assert second[PAGE] == 0
assert was_cut(memoryview(second)[PAGE // 2 :]) and not was_cut(first) and not was_cut(second)
unguard(first)
unguard(first)
assert second[5 * PAGE] == 0
guard(b"")
unguard(b"")
assert not was_cut(b"")
""",
    "the table is bounded and reused": """
whole = memoryview(mapped("a", 2048))
for turn in range(2):
    for i in range(1024):
        guard(whole[i * PAGE : (i + 1) * PAGE])
    try:
        guard(whole[1024 * PAGE :])
    except RuntimeError as error:
        assert "1024" in str(error)
    else:
        raise AssertionError("the table has no end")
    for i in range(1024):
        unguard(whole[i * PAGE : (i + 1) * PAGE])
""",
    "a handler that was there is called and comes back": """
seen = []
signal.signal(signal.SIGBUS, lambda number, frame: seen.append(number))
whole = mapped("a")
guard(whole)
os.kill(os.getpid(), signal.SIGBUS)
assert seen == [signal.SIGBUS]
unguard(whole)
os.kill(os.getpid(), signal.SIGBUS)
assert seen == [signal.SIGBUS] * 2
""",
}


@needs_guard
@pytest.mark.parametrize("script", PASSING.values(), ids=PASSING)
def test_reading_goes_on(script, tmp_path):
    result = run(script, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


NOT_OURS = {
    "another mapping, unguarded": """
other, whole = mapped("a"), mapped("b")
guard(other)
""",
    "a mapping no longer guarded": """
other, whole = mapped("a"), mapped("b")
guard(other)
guard(whole)
unguard(whole)
""",
    "after the last was taken from the table": """
whole = mapped("b")
guard(whole)
unguard(whole)
""",
    "ignored beforehand": """
signal.signal(signal.SIGBUS, signal.SIG_IGN)
other, whole = mapped("a"), mapped("b")
guard(other)
""",
}


@needs_guard
@pytest.mark.parametrize("script", NOT_OURS.values(), ids=NOT_OURS)
def test_other_faults_still_end_the_process(script, tmp_path):
    end = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.truncate("b", 0)
whole[0]
"""
    assert run(script + end, tmp_path).returncode == -signal.SIGBUS


@needs_guard
@pytest.mark.parametrize("faulthandler_first", [True, False])
def test_faulthandler_still_reports_other_faults(faulthandler_first, tmp_path):
    script = f"""
import faulthandler
if {faulthandler_first}:
    faulthandler.enable()
whole, other = mapped("a"), mapped("b")
guard(whole)
if not {faulthandler_first}:
    faulthandler.enable()
os.truncate("b", 0)
other[0]
"""
    result = run(script, tmp_path)
    assert result.returncode == -signal.SIGBUS
    assert "Bus error" in result.stderr


@pytest.mark.skipif(system.CAN_GUARD, reason="mappings can be guarded here")
def test_where_nothing_can_be_guarded_it_says_so():
    with pytest.raises(RuntimeError):
        system.guard(b"k")
    assert not system.was_cut(b"k")
