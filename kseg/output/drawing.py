"""Renders rich's tables, trees and panels as text for a terminal. rich is imported at the first drawing."""

import io
from typing import Any

MAX_COLUMNS = 120
"""Largest readable width."""


def drawn(renderable: Any, is_colored: bool, width: int | None = None) -> str:
    """Returns the lines of a renderable. Text in it is not markup.

    ``width`` in columns; None means that of standard output.
    """
    import shutil

    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=min(width or shutil.get_terminal_size().columns, MAX_COLUMNS),
        force_terminal=True,
        color_system="standard" if is_colored else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(renderable, markup=False, emoji=False)
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())
