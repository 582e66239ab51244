"""kseg as a program, many times: one server for the compiled kernel and one for the interpreted."""

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SECONDS = int(os.environ.get("KSEG_FUZZ_SECONDS", "120"))
"""After which a command counts as hanging."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended: ``signal`` 0 where it was not killed, ``kibibytes`` of memory at its peak."""

    status: int
    signal: int
    kibibytes: int
    output: bytes
    errors: str


class Program:
    """A server of one kernel, ``compiled`` or ``python``."""

    def __init__(self, kernel: str, folder: Path) -> None:
        self._output = str(folder / kernel)
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("server.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"KSEG_KERNEL": kernel, "COLUMNS": "100"},
        )  # fmt: skip

    def run(self, arguments: list[str], folder: Path) -> Outcome:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"arguments": arguments, "folder": str(folder), "output": self._output, "seconds": SECONDS}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        assert select.select([self._server.stdout], [], [], 2 * SECONDS)[0], f"no end of {arguments}"
        answer = json.loads(self._server.stdout.readline())
        output, errors = (Path(self._output + suffix).read_bytes() for suffix in (".out", ".err"))
        return Outcome(**answer, output=output, errors=errors.decode(errors="replace"))

    def close(self) -> None:
        self._server.communicate()
