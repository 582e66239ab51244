"""Draws the pictures of README.md: ``PYTHONPATH=tests python .ci/pictures.py``.

The report is drawn only where there is a Chromium. Commands run as a person would see them, on a terminal of their own;
the report has the elements and the style of a real page, as its scripts have made them. The pictures run and load
nothing. tests/test_docs.py fails where they show something else.
"""

import fcntl
import html
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

from cli.command import read_terminal
from report.browser import CHROMIUM, dom_of

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "man/images"
KSEG = (sys.executable, "-P", "-m", "kseg")
COLUMNS, ROWS = 104, 60
CASE = "testdata/damaged/4.3.1-last-flip-body/dplain-0"
COMMANDS = (
    ("symptoms", f"Found invalid messages in log segment {CASE}/{116:020}.log at byte offset 7129."),
    ("verify", CASE),
    ("recover", "--mode", "salvage", "--dry-run", CASE),
)
REPORT = (
    "verify", "--level", "deep", "--now", "1795400100000", CASE, "testdata/log-directories/4.3.1-rounds/kill/txn-0"
)  # fmt: skip
WIDTH = 1100
_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_SCRIPT = """
for (const each of document.querySelectorAll("script, noscript, #tip, .skip")) each.remove();
document.querySelector(".made").textContent = "";
document.querySelector("details.finding").open = true;
setTimeout(() => {
  const style = document.querySelector("style").textContent;
  const body = new XMLSerializer().serializeToString(document.body);
  const height = document.querySelector("pre.hex").getBoundingClientRect().bottom + 6;
  const out = document.createElement("pre");
  out.id = "picture";
  out.textContent = JSON.stringify([style, body, Math.ceil(height)]);
  document.body.append(out);
}, 100);
"""


def on_terminal(arguments: tuple[str, ...]) -> str:
    """What a command of kseg prints on a terminal, standard error included."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    running = subprocess.Popen(
        [*KSEG, *arguments], cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    data = read_terminal(ours)
    running.wait()
    return re.sub(r"\r\x1b\[K|\x1b\[\?25[lh]", "", data.decode().replace("\r\n", "\n"))


def terminal() -> str:
    """Commands on a terminal, as SVG. It loads no fonts from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for arguments in COMMANDS:
        words = " ".join(f"'{word}'" if " " in word else word for word in arguments)
        console.print(Text.assemble(("$ ", "bold green"), (f"kseg {words}", "bold")), soft_wrap=False)
        console.print(Text.from_ansi(on_terminal(arguments)))
    return _FONT_FACES.sub("", console.export_svg(title="kseg", unique_id="kseg"))


def report() -> str:
    """The page of a verification, as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        subprocess.run([*KSEG, *REPORT, "--format", "html", "-o", page], cwd=ROOT, check=False)
        found = re.search(r'<pre id="picture">(.*?)</pre>', dom_of(page, _SCRIPT, f"{WIDTH},1200"), re.DOTALL)
        assert found is not None
    style, body, height = json.loads(html.unescape(found[1]))
    size = f'width="{WIDTH}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {height}">\n'
        f"<style>{html.escape(' '.join(style.split()), quote=False)}</style>\n"
        f"<foreignObject {size}>{body}</foreignObject>\n</svg>\n"
    )


def texts_of(svg: str) -> list[str]:
    """The texts that a picture shows, which do not depend on the release of rich."""
    shown = (
        svg[svg.index("<foreignObject") :] if "<foreignObject" in svg else re.sub("<(style|title).*?</\\1>", "", svg)
    )
    texts = (html.unescape(text).replace("\xa0", " ").strip() for text in re.findall(r">([^<>]+)<", shown))
    return [text for text in texts if text]


if __name__ == "__main__":
    for draw in (terminal, report) if CHROMIUM else (terminal,):
        lines = draw().splitlines()
        (IMAGES / f"{draw.__name__}.svg").write_text("\n".join(line.rstrip() for line in lines) + "\n", "utf-8")
