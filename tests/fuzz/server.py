"""Runs commands of kseg, each in a fork of this process: ``python server.py``, requests and answers as lines of JSON.

A request is ``{"arguments", "folder", "output", "seconds"}``: standard output and error go to the files ``output``
with .out and .err. The answer is ``{"status", "signal", "kibibytes"}``: the peak of the memory that the command held.
"""

import json
import os
import signal
import sys
from typing import NoReturn

import kseg.cli.dump  # imported once, for all forks
import kseg.cli.verify  # noqa: F401
from kseg.cli.main import run


def execute(arguments: list[str], folder: str, output: str, seconds: int) -> NoReturn:
    signal.alarm(seconds)
    os.chdir(folder)
    for descriptor, suffix in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(output + suffix, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
    try:
        run(arguments)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:  # noqa: BLE001
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    os._exit(70)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            execute(**request)
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        answer = {"status": max(code, -1), "signal": max(-code, 0), "kibibytes": used.ru_maxrss}
        print(json.dumps(answer), flush=True)


main()
