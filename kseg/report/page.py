"""Makes the page: a template with autoescape, style and script inside, and the data as JSON.

Nothing that comes from a log is ever part of a script: names, keys and messages are JSON in a data block, and the
script shows them as text only. A Content Security Policy allows only the page's own script and style, by
their digests, so that no markup can run or load anything.
"""

import json
import time
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import Any

from kseg import __version__
from kseg.errors import UnsupportedError
from kseg.quantities import shown_time

_STYLES = ("base.css", "parts.css", "layout.css")
_SCRIPTS = ("text.js", "lists.js", "strip.js", "verify.js", "rows.js", "start.js")
_LARGEST_EXACT = (1 << 53) - 1
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(slots=True)
class Card:
    """A figure at the head of the page. ``tone``: error, warning, info, good or "" for none."""

    label: str
    value: str
    tone: str = ""


@dataclass(slots=True)
class NextStep:
    """A command to run and its purpose; ``command`` is "" for other needs."""

    command: str
    reason: str


@dataclass(slots=True)
class Page:
    """``data`` is for the script: its ``kind`` is verify, summary, retention or plan. ``tone`` is the verdict's."""

    title: str
    verdict: str
    tone: str
    paths: Sequence[str]
    cards: list[Card]
    next_steps: list[NextStep]
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def page_bytes(page: Page) -> bytes:
    """Returns the whole page as UTF-8. Raises UnsupportedError if Jinja2 is not installed."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise UnsupportedError("--format html needs Jinja2: pip install 'kseg[report]'") from error
    folder = files("kseg.report") / "templates"
    style = "".join((folder / name).read_text("utf-8") for name in _STYLES)
    script = "".join((folder / name).read_text("utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'  # names of the script are its own
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "page.html").read_text("utf-8"))
    text = template.render(
        page=page,
        version=__version__,
        made_at=shown_time(int(time.time() * 1000)),
        style=Markup(style),  # the package's own files
        script=Markup(script),
        style_digest=_digest(style),
        script_digest=_digest(script),
        data=Markup(in_script(page.data)),
    )
    return text.encode("utf-8", "replace")


def in_script(data: Any) -> str:
    """Returns JSON that is inert inside a script element: ASCII without markup."""
    return json.dumps(_exact(data), separators=(",", ":")).translate(_ESCAPES)


def _exact(value: Any) -> Any:
    """Returns the value; integers that JavaScript would round become text."""
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) > _LARGEST_EXACT else value


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()
