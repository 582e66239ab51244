"""Opens pages in a headless Chromium, where there is one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.command import Kseg

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium")

_POLICY = 'http-equiv="Content-Security-Policy"'


def page_of(kseg: Kseg, tmp_path: Path, *words: object) -> Path:
    """The page of a command."""
    out = tmp_path / "page.html"
    assert kseg(*words, "--format", "html", "-o", out).status in (0, 1)
    return out


def axe() -> Path | None:
    """axe-core's script: of KSEG_AXE, or of node_modules here."""
    told = os.environ.get("KSEG_AXE")
    found = Path(told) if told else Path("node_modules/axe-core/axe.min.js")
    return found if found.is_file() else None


def dom_of(page: Path, script: str | None = None, size: str = "1280,1000", dark: bool = False) -> str:
    """The document after its scripts have run. ``script`` runs after them in a copy without the page's policy."""
    if script is not None:
        text = page.read_text("utf-8")
        assert _POLICY in text
        changed = text.replace(_POLICY, "data-policy", 1).replace("</body>", f"<script>{script}</script></body>")
        page = page.with_name("scripted.html")
        page.write_text(changed, "utf-8")
    profile = page.parent / "profile"
    done = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
            f"--window-size={size}", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=5000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout.decode("utf-8")
