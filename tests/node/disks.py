"""Deals a log directory of a real node to several disks, as if its log.dirs named them."""

import random
import re
import shutil
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS

COMMITTED = Path(__file__).resolve().parent.parent.parent / "testdata" / "kafka-4.3.1" / "committed"


def rows_of(checkpoint: Path) -> list[list[str]]:
    """The entries of a checkpoint as words."""
    return [line.split() for line in checkpoint.read_text().splitlines()[2:]] if checkpoint.exists() else []


def write_rows(checkpoint: Path, rows: list[list[str]]) -> None:
    checkpoint.write_text(f"0\n{len(rows)}\n" + "".join(" ".join(row) + "\n" for row in rows))


def dealt(source: Path, target: Path, count: int, seed: int = 1) -> list[Path]:
    """The disks in ``target``: internal topics on the first, which has the node's files; the others in turn from the
    second on, each with its rows of the checkpoints and a directory.id of its own."""
    random_ids = random.Random(seed)
    disks = [target / f"disk{number}" for number in range(count)]
    names = sorted(path.name for path in source.iterdir() if path.is_dir())
    others = [name for name in names if not name.startswith("__")]
    home = {name: disks[(1 + others.index(name)) % count] if name in others else disks[0] for name in names}
    for number, disk in enumerate(disks):
        disk.mkdir(parents=True)
        for path in source.iterdir():
            if path.is_file() and path.name not in OFFSET_CHECKPOINTS:
                shutil.copy2(path, disk)
        if number:
            own = urlsafe_b64encode(bytes(random_ids.randrange(1, 255) for _ in range(16))).decode().rstrip("=")
            meta = disk / "meta.properties"
            meta.write_text(re.sub(r"directory\.id=\S+", f"directory.id={own}", meta.read_text()))
        for name in OFFSET_CHECKPOINTS:
            if (source / name).exists():
                rows = rows_of(source / name)
                write_rows(disk / name, [row for row in rows if home.get(f"{row[0]}-{row[1]}", disks[0]) == disk])
    for name, disk in home.items():
        shutil.copytree(source / name, disk / name)
    return disks


def properties_of(disks: list[Path]) -> Path:
    """A configuration of the node with these disks."""
    found = disks[0].parent / "server.properties"
    found.write_text("process.roles=broker,controller\nnode.id=1\nlog.dirs=" + ",".join(map(str, disks)) + "\n")
    return found


def committed_on(target: Path) -> tuple[Path, list[Path]]:
    """A log directory whose groups have committed offsets, and the same dealt to two disks: commits and the log that
    they are about lie on different ones."""
    one = Path(shutil.copytree(COMMITTED, target / "one", ignore=shutil.ignore_patterns("truth", "*.md")))
    (one / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={'A' * 22}\ndirectory.id={'B' * 21}A\n")
    (one / ".kafka_cleanshutdown").touch()
    return one, dealt(one, target / "disks", 2)


def without_places(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what names a path, in an order of their own."""
    return sorted(({name: row[name] for name in row if name not in ("file", "repair")} for row in rows), key=str)
