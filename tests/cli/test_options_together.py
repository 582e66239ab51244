"""Options meet each other: commands with options at random, on damaged log directories. Variables: CONTRIBUTING.md.

Whatever is drawn, a command ends with a documented status and without a traceback; with 2 or 3 it says why. What only
reads changes nothing, and each change that keeps removed bytes is undone byte for byte, the newest first.
"""

import json
import os
import random
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import click
import pytest

from cli.command import LOGS, PLAIN, TESTDATA, Kseg, Outcome

SEED = os.environ.get("KSEG_OPTIONS_SEED", "1")
USAGES = 3
"""How many commands are drawn until one is no wrong usage."""
RUNS = int(os.environ.get("KSEG_OPTIONS_RUNS", "40"))
READING = "dump stats groups transactions cluster verify".split()
COMMANDS = [*"recover recover restore reindex compact retain convert".split(), *READING]
PARTITIONS = [
    *sorted(path for path in TESTDATA.glob("damaged/*/*-[0-9]") if not path.parent.name.startswith("0.7")),
    *sorted(TESTDATA.glob("kafka-4.3.1/clients/*-0")),
    *sorted(TESTDATA.glob("compaction/*/before/*-0"))[::4],
    *sorted(TESTDATA.glob("retention/*/before/*-0"))[::4],
    PLAIN,
    TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0",
]
ROOT_FILES = sorted(path for path in LOGS.iterdir() if path.is_file())
MARKER = ".kafka_cleanshutdown"
ERAS = "0.8.2 0.10.2 0.11.0 1.1 2.0 2.2 2.4 2.8.2 3.0 3.3 3.5 3.9 4.0 4.1 4.3 4.4".split()
VALUES = {
    "--topic": ["*", "d*", "nope"], "--era": ERAS, "--as": ["other", "other-3"], "--now": ["1795252258000", "-2h"],
    "--topic-id": ["AAAAAAAAQACAAAAAAAAAAg"], "--offsets": ["10..50", "..5", "90"], "--time": ["2026-01-01..now"],
    "--key-pattern": ["k"], "--grep": ["a"], "--key": ["k"], "--codec": ["none", "gzip", "snappy", "lz4", "zstd:3"],
    "--index-interval-bytes": ["1", "512"], "--min-cleanable-ratio": ["0", "0.5"], "--position": ["0..400"],
    "--key-format": ["hex", "json"], "--value-format": ["base64", "long"], "--what-if": ["zstd"], "--memory": ["1M"],
    "--ignore": ["crc-mismatch"], "--grep-header": ["a"], "--grep-any": ["k"], "--by": ["content", "key,value"],
}  # fmt: skip
BY_TYPE = {
    "integer range": ["0", "1", "3", "150"], "BYTES": ["1", "900", "8192", "1M", "-1"], "MS": ["0", "1h", "-1"],
}  # fmt: skip
PLACES = {
    "--output": "out", "--quarantine": "elsewhere", "--records": "records.jsonl", "--report": "report",
    "--manifest": "manifest.json",
}  # fmt: skip
REPLICAS = ("--from-replica", "--against", "--for-cluster")
LEFT_OUT = {
    "--engine", "--master", "--spool-dir", "--spool-bytes", "--from", "--from-remote", "--private-key", "--files",
    "--explain", "--color", "--transaction-state", "--server-properties", "--fetch-response", "--jobs",
}  # fmt: skip
OFTEN = {
    "restore": ["--undelete"],
    "compact": ["--force-policy", "--drop-null-keys", "--min-cleanable-ratio=0", "--topic=*"],
    "retain": ["--retention-ms=0", "--policy=delete", "--topic=*"],
    "convert": ["--to=v2", "--codec=gzip", "--in-place", "--lossy", "--skip-damage"],
}  # fmt: skip
"""Options without which a command seldom changes anything."""
RARELY = {"--dry-run", "--no-quarantine", "--check", "--explain", "--output", "--report", "--link", "--as"}


class Draw:
    """One run in a folder of its own, which holds the log directory ``logs``."""

    def __init__(self, number: int, folder: Path) -> None:
        self.chance, self.folder, self.logs = random.Random(f"{SEED}/{number}"), folder, folder / "logs"
        self.logs.mkdir()
        for source in self.chance.sample(PARTITIONS, self.chance.choice((1, 2, 3))):
            shutil.copytree(source, self.logs / source.name, dirs_exist_ok=True)
        for path in ROOT_FILES if self.chance.random() < 0.6 else ():
            shutil.copy2(path, self.logs)
        if self.chance.random() < 0.5:
            (self.logs / MARKER).write_bytes(b'{"version":0,"brokerEpoch":7}')
        self.partitions = sorted(path for path in self.logs.iterdir() if path.is_dir())
        self._damage()

    def _damage(self) -> None:
        files = sorted(path for path in self.logs.glob("*/*") if path.suffix in (".log", ".index", ".snapshot"))
        for path in self.chance.sample(files, min(len(files), self.chance.choice((0, 1, 2)))):
            content = bytearray(path.read_bytes())
            if path.suffix != ".log" or not content:
                path.unlink()
                continue
            at = self.chance.randrange(len(content))
            content[at : at + self.chance.choice((1, 200))] = bytes(self.chance.choice((0, 1, 30)))
            path.write_bytes(content)

    def command(self) -> list[str]:
        """Returns the words of a command, without its PATH."""
        name = self.chance.choice(COMMANDS)
        words = [name, *(each for each in OFTEN.get(name, ()) if self.chance.random() < 0.8)]
        command: click.Command = import_module(f"kseg.cli.{name}").command
        for option in command.params:
            if isinstance(option, click.Option) and self.chance.random() < 0.15:
                words += self._option(max(option.opts, key=len), option)
        return words

    def _option(self, name: str, option: click.Option) -> list[str]:
        kind = option.type.name
        if name in LEFT_OUT or (name in RARELY and self.chance.random() < 0.6):
            return []
        if option.is_flag:
            return [name]
        if name in REPLICAS:
            return [f"{name}={self.chance.choice(PARTITIONS)}"]
        if name in PLACES:
            return [f"{name}={self.folder / PLACES[name]}"]
        choices = VALUES.get(name) or BY_TYPE.get(kind)
        if choices is None and isinstance(option.type, click.Choice):
            choices = [str(each) for each in option.type.choices]
        return [f"{name}={self.chance.choice(choices)}"] if choices else []

    def target(self) -> Path:
        return self.chance.choice([self.logs, self.chance.choice(self.partitions)])

    def files(self) -> dict[str, bytes]:
        """All files below the log directory but the lock and what is kept."""
        found = {str(path.relative_to(self.logs)): path for path in self.logs.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if _is_compared(name)}


def _is_compared(name: str) -> bool:
    return name != ".lock" and ".kseg-quarantine" not in name


def check(words: list[str], done: Outcome, is_changed: bool, has_output: bool) -> None:
    """Checks the end of a command."""
    assert done.status in (0, 1, 2, 3)
    if done.status in (2, 3):
        assert done.err.strip()
    if done.status == 2:
        assert not is_changed
        assert not has_output
    only_reads = words[0] in READING or {"--dry-run", "--check", "--explain"} & {*words}
    if only_reads or any(word.startswith("--output=") for word in words):
        assert not is_changed
    if "--format=json" in words and done.status < 2:
        for line in done.out.splitlines():
            assert isinstance(json.loads(line), dict)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("number", range(RUNS))
def test_options_together(number: int, kseg: Kseg, tmp_path: Path) -> None:
    draw = Draw(number, tmp_path)
    said: list[str] = []
    try:
        changed: list[tuple[Path, dict[str, bytes]]] = []
        for _ in range(draw.chance.choice((1, 1, 2))):
            changed = run(kseg, draw, changed, said)
        for target, before in reversed(changed):
            undo(kseg, draw, target, before, said)
    except BaseException as error:
        error.add_note("\n".join(said))
        raise


def run(
    kseg: Kseg, draw: Draw, changed: list[tuple[Path, dict[str, bytes]]], said: list[str]
) -> list[tuple[Path, dict[str, bytes]]]:
    """Runs a command, another one if it is wrong usage. Returns the changes that can be undone."""
    for _ in range(USAGES):
        for path in (draw.folder / place for place in PLACES.values() if place != "elsewhere"):
            if path.exists():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        words, target, before = draw.command(), draw.target(), draw.files()
        said.append(f"kseg {shlex.join(words)} {target}")
        done = kseg(*words, target)
        said.append(f"status {done.status} {done.err}")
        is_changed = draw.files() != before
        output = draw.folder / "out"
        check(words, done, is_changed, output.is_dir() and any(output.rglob("*.log")))
        if done.status != 2:
            break
    if not is_changed:
        return changed
    return [] if "--no-quarantine" in words else [*changed, (target, before)]


def undo(kseg: Kseg, draw: Draw, target: Path, before: dict[str, bytes], said: list[str]) -> None:
    """Undoes a change by its PATH, or, if it stopped at a partition, by the partitions."""
    now, told = draw.files(), ""
    assert kseg("undo", "--dry-run", target).status in (1, 3)
    assert draw.files() == now
    for path in [target, *(each for each in draw.partitions if each != target)]:
        if draw.files() == before:
            return
        done = kseg("undo", path)
        told += done.err
        said.append(f"undo {path}: status {done.status} {done.err}")
    now = draw.files()
    left = {name for name in {*now, *before} if now.get(name) != before.get(name)}
    assert left <= ({MARKER} if f"{MARKER}: " in told else set())
