"""Draws man/images/report.svg, the report in README.md: ``python tests/report_picture.py``, with Chromium.

The picture holds the elements and the style of a real page, as its scripts have made them; it runs and loads nothing.
"""

import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from report.browser import dom_of

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "man/images/report.svg"
PATHS = ("testdata/damaged/4.3.1-last-flip-body/dplain-0", "testdata/log-directories/4.3.1-rounds/kill/txn-0")
NOW = "1795400100000"
WIDTH = 1100
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


def picture() -> str:
    """The picture as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [
            sys.executable,
            "-P",
            "-m",
            "kseg",
            "verify",
            "--level",
            "deep",
            "--now",
            NOW,
            "--format",
            "html",
            "-o",
            page,
        ]
        subprocess.run([*command, *PATHS], cwd=ROOT, check=False)
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
    """The texts that a picture shows."""
    body = svg[svg.index("<foreignObject") :]
    return [text for each in re.findall(r">([^<>]+)<", body) if (text := html.unescape(each).strip())]


if __name__ == "__main__":
    PICTURE.write_text("\n".join(line.rstrip() for line in picture().splitlines()) + "\n", "utf-8")
    print(f"{PICTURE.name}: {PICTURE.stat().st_size} bytes")
