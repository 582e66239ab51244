"""Dumps of side files: text against kafka-dump-log.sh 4.3.1's own output, JSON against that text."""

import base64
import gzip
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kseg.errors import PathError
from kseg.formats.rows import Scratch
from kseg.output.side_files import SideJsonPrinter, SideTextPrinter
from kseg.sidefiles.kinds import side_file
from output.feeding import MemorySink

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
DAMAGED = TESTDATA / "side-files" / "damaged"
TEXT = TESTDATA / "side-files" / "text"
PARTITIONS = sorted(path.parent for path in TESTDATA.glob("kafka-*/*/truth/*/side-files.txt.gz"))
INDEX_LINE = re.compile(r"Mismatches in :|  Index offset: ")


class Dumped:
    """What a dump of files, told by their paths, gives."""

    def __init__(self, form: type[SideJsonPrinter], *paths: str, **style: Any) -> None:
        sink = MemorySink()
        self.warnings: list[str] = []
        printer = form(sink, Scratch(), self.warnings.append, **style)
        for path in paths:
            file = side_file(path)
            assert file is not None
            printer.dump(file)
        self.out = bytes(sink.written)
        self.report = printer.report()
        self.errors = printer.errors

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def truth(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def without_folder(report: list[str]) -> str:
    return "".join(line.replace(f":{Path.cwd()}/", ":") + "\n" for line in report)


def name_of(folder: Path) -> str:
    return "-".join(folder.parts[-4:-2] + folder.parts[-1:])


def dumped_names(out: bytes) -> list[str]:
    return [line[8:].decode() for line in out.splitlines() if line.startswith(b"Dumping ")]


@pytest.mark.parametrize("folder", PARTITIONS, ids=name_of)
def test_text_is_that_of_kafka_dump_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent.parent)
    want = truth(folder / "side-files.txt.gz")
    ours = Dumped(SideTextPrinter, *dumped_names(want))
    assert ours.out == want
    assert ours.warnings == []
    assert ours.errors == 0
    told = folder / "side-files.stderr.gz"
    lines = truth(told).decode().splitlines(keepends=True) if told.exists() else []
    # Entries of first offsets, as brokers up to 1.1 wrote them, are mismatches for that tool and none for us.
    assert without_folder(ours.report) == "".join(line for line in lines if not INDEX_LINE.match(line))


@pytest.mark.parametrize("path", sorted(DAMAGED.glob("*/truth/*.txt.gz")), ids=lambda path: "-".join(path.parts[-3::2]))
def test_damaged_files_are_dumped_as_far_as_kafka_dump_log_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent.parent)
    want = truth(path)
    [name] = dumped_names(want)
    ours = Dumped(SideTextPrinter, name)
    assert ours.out == want
    told = truth(path.with_name(path.name.replace(".txt.gz", ".stderr.gz"))).decode()
    bare = "".join(line.removeprefix(f"{name}: ") + "\n" for line in ours.warnings if "Snapshot is corrupt" in line)
    assert bare + without_folder(ours.report) == told


@pytest.mark.parametrize("folder", PARTITIONS, ids=name_of)
def test_json_has_what_text_has(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent.parent)
    want = truth(folder / "side-files.txt.gz")
    shown = [
        {name: int(number) for name, number in re.findall(r"(\w+): (?:OptionalLong\[)?(-?\d+)", line)}
        for line in want.decode().splitlines()
        if ": " in line
    ]
    rows = [row for row in Dumped(SideJsonPrinter, *dumped_names(want)).rows if row["type"] != "damage"]
    assert shown == [
        {name: value for name, value in row.items() if name not in ("type", "file") and value is not None}
        for row in rows
    ]


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("index-corrupt-unclean/dplain-0/00000000000000000046.index", {"indexOffset": -1247479846, "logOffset": -1}),
        ("timeindex-corrupt-unclean/dplain-0/00000000000000000046.timeindex",
         {"indexOffset": 2091656489, "logOffset": -1}),
    ],
)  # fmt: skip
def test_json_has_both_numbers_of_a_mismatch(file: str, keys: dict[str, int]) -> None:
    row = next(row for row in Dumped(SideJsonPrinter, str(DAMAGED / file)).rows if row["type"] == "damage")
    assert {name: row.get(name) for name in keys} == keys


def test_a_missing_log_is_told_in_one_line_and_nothing_is_created(tmp_path: Path) -> None:
    name = "00000000000000007777.index"
    shutil.copy(next((DAMAGED / "orphan-index").glob(f"*-0/{name}")), tmp_path)
    for form in (SideTextPrinter, SideJsonPrinter):
        [warning] = Dumped(form, str(tmp_path / name)).warnings
        assert "00000000000000007777.log: No such file" in warning
    assert Dumped(SideTextPrinter, str(tmp_path / name)).out.endswith(b"\noffset: 7777 position: 0\n")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_missing_offset_index_is_told_and_nothing_is_created(tmp_path: Path) -> None:
    source = DAMAGED / "preallocated" / "dplain-0"
    for suffix in (".log", ".timeindex"):
        shutil.copy(source / f"00000000000000000116{suffix}", tmp_path)
    path = str(tmp_path / "00000000000000000116.timeindex")
    ours = Dumped(SideTextPrinter, path)
    assert ours.out.startswith(f"Dumping {path}\ntimestamp: ".encode())
    assert ["00000000000000000116.index: No such file" in warning for warning in ours.warnings] == [True]
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(PathError):
        Dumped(SideTextPrinter, str(tmp_path / "00000000000000000116.txnindex"))


def test_preallocated_bytes_are_no_entry_in_json(tmp_path: Path) -> None:
    shutil.copytree(DAMAGED / "preallocated" / "dplain-0", tmp_path, dirs_exist_ok=True)
    for suffix, size in ((".index", 8192), (".timeindex", 8184)):
        path = tmp_path / f"00000000000000000116{suffix}"
        assert [row for row in Dumped(SideJsonPrinter, str(path)).rows if row["type"] == "damage"] == []
        path.write_bytes(bytes(size))
        ours = Dumped(SideJsonPrinter, str(path))
        assert (ours.out, ours.errors) == (b"", 0)
        assert len(Dumped(SideTextPrinter, str(path)).out.splitlines()) == 2


def test_unreadable_lines_are_damage_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(b"0\n2\n0 0\nx\n3 7\n")
    ours = Dumped(SideTextPrinter, str(path))
    assert ours.out.decode().splitlines()[1:] == [
        "epoch: 0 startOffset: 0",
        "| damage: unreadable-line position: 8 length: 1",
        "epoch: 3 startOffset: 7",
    ]
    assert ours.errors == 1
    assert [row["type"] for row in Dumped(SideJsonPrinter, str(path)).rows] == ["leaderEpoch", "damage", "leaderEpoch"]


def test_many_problems_of_a_kind_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    path.write_bytes(b"\1\0" + bytes(32) + (b"\0\1" + bytes(32)) * 999)
    ours = Dumped(SideTextPrinter, str(path))
    assert ours.out.splitlines()[1] == b"| damage: unknown-version position: 0 length: 34"
    assert len(ours.warnings) == 4
    assert ours.warnings[-1].endswith("unknown-version 997 more times")


def test_control_characters_do_not_reach_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(b"0\n1\n\x1b[2J 0 5\n")
    assert b"\x1b" in Dumped(SideTextPrinter, str(path)).out
    assert b"\x1b" not in Dumped(SideTextPrinter, str(path), escape=True).out


def test_paths_are_shown_as_java_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.index").touch()
    (tmp_path / "t-0" / "0.log").touch()
    monkeypatch.chdir(tmp_path)
    ours = Dumped(SideTextPrinter, "./t-0//0.index")
    assert ours.out == b"Dumping ./t-0/0.index\n./t-0/0.index is empty.\n"


def test_names_that_are_no_utf_8_are_written_as_bytes(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(path)
    shutil.copy(TEXT / "1.1.1" / "meta.properties", path)
    [row] = Dumped(SideJsonPrinter, f"{path}/meta.properties").rows
    assert base64.b64decode(row["file"]["base64"]) == os.fsencode(path) + b"/meta.properties"
    assert Dumped(SideTextPrinter, f"{path}/meta.properties").out.startswith(b"Dumping " + os.fsencode(path))


def test_the_log_of_a_deleted_index_is_the_deleted_one(tmp_path: Path) -> None:
    source = DAMAGED / "preallocated" / "dplain-0" / "00000000000000000116"
    for suffix in (".log", ".index"):
        shutil.copy(f"{source}{suffix}", tmp_path / f"{source.name}{suffix}.deleted")
    ours = Dumped(SideTextPrinter, str(tmp_path / f"{source.name}.index.deleted"))
    assert (ours.warnings, ours.report) == ([], [])


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("printer", [SideTextPrinter, SideJsonPrinter])
def test_the_unwritten_end_of_an_index_is_not_read(kind: str, printer: type[SideJsonPrinter], tmp_path: Path) -> None:
    """Read, or shown as entries, 20 GiB of holes would take minutes."""
    path = tmp_path / f"00000000000000000005{kind}"
    with path.open("wb") as file:
        file.write(bytes(range(1, 103)))
        file.truncate(20 << 30)
    assert 1 < Dumped(printer, str(path)).out.count(b"\n") < 30
