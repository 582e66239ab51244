"""Style as a test: what no linter knows about this repository."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOP_LEVEL = {
    "pyproject.toml",
    "kseg",
    "tests",
    "testdata",
    "man",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
}
MAX_LINES = 900
MAX_COLUMNS = 120
MAX_BYTES = 1 << 20
BANNED_MODULES = {"utils", "util", "helpers", "helper", "common", "misc"}
BROAD = re.compile(r"\bexcept[\s(\\]*(:|(Base)?Exception\b)")
"""Finds the text of each handler that `is_silent` may judge."""
SAME_THING = {"Batch", "Damage", "Plan", "Progress", "Record"}
"""Names of classes that two rooms share, because one offers what the other has: to Python, or as a protocol."""
MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(work|tmp|home|root|Users)(/|\b)")


def tracked_files() -> list[str]:
    """Paths below the root, as git knows them (new files that are not ignored included)."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return []
    return sorted({path for path in done.stdout.splitlines() if (ROOT / path).is_file()})


FILES = tracked_files()
TEXTS = [path for path in FILES if path != "LICENSE" and (not path.startswith("testdata/") or path.endswith(".md"))]
MODULES = [path for path in FILES if path.endswith(".py") and path.startswith("kseg/")]
pytestmark = pytest.mark.skipif(not FILES, reason="not a git checkout")


def numbered(path: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), start=1):
        yield f"{path}:{number}", line


def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"), path)


def is_silent(handler: ast.ExceptHandler) -> bool:
    broad = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )
    return broad and all(isinstance(statement, ast.Pass) for statement in handler.body)


def test_the_top_level_holds_what_a_newcomer_expects() -> None:
    assert {path.split("/")[0] for path in FILES if not path.startswith(".")} <= TOP_LEVEL


def test_files_are_short() -> None:
    lengths = {path: len((ROOT / path).read_text("utf-8").splitlines()) for path in TEXTS}
    for page in ("man/kseg-findings.7", "man/kseg-symptoms.7"):  # made from tables, which are in modules that are short
        lengths.pop(page, None)
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_files_are_small() -> None:
    assert [path for path in FILES if (ROOT / path).stat().st_size > MAX_BYTES] == []


def test_lines_are_short_and_clean() -> None:
    # Tables of Markdown and rows of man macros cannot be broken, nor can a command that must be one line.
    long = [
        place
        for path in TEXTS
        if not path.endswith((".md", ".svg", ".1", ".7"))
        for place, line in numbered(path)
        if len(line) > MAX_COLUMNS
    ]
    unclean = [place for path in TEXTS for place, line in numbered(path) if "\t" in line or line != line.rstrip()]
    assert (long, unclean) == ([], [])


def test_files_end_with_one_newline() -> None:
    contents = {path: (ROOT / path).read_bytes() for path in TEXTS}
    assert [
        path for path, data in contents.items() if data and (not data.endswith(b"\n") or data.endswith(b"\n\n"))
    ] == []


def test_modules_are_named_after_what_they_hold() -> None:
    assert [path for path in FILES if path.endswith(".py") and Path(path).stem in BANNED_MODULES] == []
    assert [path for path in FILES if BANNED_MODULES & set(Path(path).parts)] == []


def test_a_name_of_a_class_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in shared.items() if name not in SAME_THING} == {}
    assert SAME_THING <= shared.keys()


def test_only_commands_and_output_print() -> None:
    found = []
    for path in MODULES:
        if path.startswith(("kseg/cli/", "kseg/output/")) or path == "kseg/_build.py":
            continue
        if "print" not in (ROOT / path).read_text("utf-8"):
            continue  # parsing all modules takes seconds
        calls = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
        found += [
            f"{path}:{call.lineno}" for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
        ]
    assert found == []


def test_no_exception_is_swallowed() -> None:
    found = []
    for path in (path for path in FILES if path.endswith(".py")):
        if not BROAD.search((ROOT / path).read_text("utf-8")):
            continue  # parsing all modules takes seconds
        handlers = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ExceptHandler)]
        found += [f"{path}:{handler.lineno}" for handler in handlers if handler.type is None or is_silent(handler)]
    assert found == []


def test_nothing_names_a_machine() -> None:
    own = "tests/test_tidy.py"
    assert [place for path in TEXTS if path != own for place, line in numbered(path) if MACHINE_PATH.search(line)] == []


@pytest.mark.parametrize("line", ["see /work/project", "'/tmp/x'", "/home/me", "/root"])
def test_a_machine_path_is_noticed(line: str) -> None:
    assert MACHINE_PATH.search(line)


def test_test_data_says_where_it_comes_from() -> None:
    """A folder of testdata/ that holds files, and each scenario of a version, has a README; a case its case.json."""
    parts = [Path(path).parts for path in FILES if path.startswith("testdata/")]
    folders = {Path(*names[: min(3, len(names) - 1)]) for names in parts}
    assert len(folders) > 10, "no test data"
    untold = {folder for folder in folders if not (ROOT / folder / "README.md").exists()}
    assert [str(folder) for folder in sorted(untold) if not (ROOT / folder / "case.json").exists()] == []
    assert {str(folder.parent) for folder in untold} <= {"testdata/damaged", "testdata/recovery"}
