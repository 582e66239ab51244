"""What a case is: files that are written, how they are judged, and every finding that must be told of them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kseg.findings.table import KINDS

NOW_MS = 1795300000000
"""Behind all timestamps of the data."""


@dataclass(frozen=True)
class Told:
    """A finding; ``file`` from the case's folder on, ``severity`` that of the table where it is left out."""

    code: str
    file: str
    position: int | None = None
    length: int | None = None
    offset: int | None = None
    severity: str = ""

    def row(self) -> dict[str, Any]:
        return {
            "code": self.code, "severity": self.severity or KINDS[self.code].severity, "file": self.file,
            "position": self.position, "length": self.length, "offset": self.offset,
        }  # fmt: skip


@dataclass(frozen=True)
class Made:
    """What a writer leaves: the path to be judged, of which real files it was made, and the findings it must have.

    ``settings`` are fields of case.json that are not as usual (README.md of the folder): nowMs, against, …
    """

    judged: str
    real: str
    findings: list[Told]
    settings: dict[str, Any] = field(default_factory=dict)


Writer = Callable[[Path], Made]


@dataclass(frozen=True)
class Case:
    """``write`` fills a folder; its docstring is what was done to the real files."""

    code: str
    write: Writer

    def written_to(self, folder: Path) -> dict[str, Any]:
        """Writes the files and case.json; the content of that."""
        folder.mkdir(parents=True)
        made = self.write(folder)
        content = {
            "judged": made.judged, "from": made.real, "edit": " ".join((self.write.__doc__ or "").split()),
            **made.settings, "findings": [finding.row() for finding in made.findings],
        }  # fmt: skip
        (folder / "case.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return content


class Section(dict[str, Case]):
    """The cases of a module, by code; as a decorator it takes a writer that is named after the code."""

    def __call__(self, write: Writer) -> Writer:
        code = write.__name__.replace("_", "-")
        self[code] = Case(code, write)
        return write
