"""Draws man/images/terminal.svg, the picture of README.md: ``python tests/readme_picture.py``.

Commands run on a terminal of their own, as a person would see them. tests/test_docs.py fails where the picture shows
something else.
"""

import fcntl
import html
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

from cli.command import read_terminal

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "man/images/terminal.svg"
COLUMNS, ROWS = 104, 60
CASE = "testdata/damaged/4.3.1-last-flip-body/dplain-0"
COMMANDS = (
    ("symptoms", f"Found invalid messages in log segment {CASE}/{116:020}.log at byte offset 7129."),
    ("verify", CASE),
    ("recover", "--mode", "salvage", "--dry-run", CASE),
)
_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def on_terminal(arguments: tuple[str, ...]) -> str:
    """What a command of kseg prints on a terminal, standard error included."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "kseg", *arguments], cwd=ROOT, env=environment, stdin=theirs, stdout=theirs,
        stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    data = read_terminal(ours)
    running.wait()
    return re.sub(r"\r\x1b\[K|\x1b\[\?25[lh]", "", data.decode().replace("\r\n", "\n"))


def picture() -> str:
    """The picture as SVG. It loads no fonts from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for arguments in COMMANDS:
        words = " ".join(f"'{word}'" if " " in word else word for word in arguments)
        console.print(Text.assemble(("$ ", "bold green"), (f"kseg {words}", "bold")), soft_wrap=False)
        console.print(Text.from_ansi(on_terminal(arguments)))
    text = console.export_svg(title="kseg", unique_id="kseg")
    return "\n".join(line.rstrip() for line in _FONT_FACES.sub("", text).splitlines()) + "\n"


def texts_of(svg: str) -> list[str]:
    """The texts that a picture shows, which do not depend on the release of rich."""
    return [html.unescape(text).replace("\xa0", " ").strip() for text in re.findall(r"<text[^>]*>(.*?)</text>", svg)]


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), "utf-8")
    print(f"{PICTURE.name}: {PICTURE.stat().st_size} bytes")
