"""Imports point one way (see CONTRIBUTING.md): read from the source, so that imports inside functions count too."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kseg"

# A folder may import itself, the loose modules of the package (errors, limits) and the folders of later layers.
LAYERS = (
    ("cli",),
    ("spark",),
    ("api",),
    ("dump", "report", "symptoms", "carving", "serving"),
    ("views",),
    ("output",),
    ("verification", "recovery", "erasure", "cleaner", "retention", "conversion", "export", "redaction"),
    ("options",),
    ("changes", "node", "releases", "findings"),
    ("decoders", "sidefiles"),
    ("segment",),
    ("stores",),
    ("formats",),
    ("runtime",),
    ("kernel",),
)
BESIDE = {
    ("conversion", "export"), ("changes", "node"), ("node", "releases"), ("verification", "cleaner"),
    ("erasure", "cleaner"),
    ("verification", "recovery"),
}  # fmt: skip
"""Folders of one layer of which the first may import the second."""
HIDDEN = {("output", folder) for folder in next(folders for folders in LAYERS if "verification" in folders)}
"""Folders of later layers that are closed to the first, but for SHOWN."""

LAYER_OF = {folder: number for number, folders in enumerate(LAYERS) for folder in folders}
LOOSE = {"errors", "limits", "positioned", "quantities", "signals"}
RICH_FOLDER = "output"

# What commands hand to `output` to be shown: plain rows, and the table that tells what they mean.
SHOWN = ("kseg.findings.table", "kseg.verification.report")
LAZY = {
    "crc32c", "zstandard", "lz4", "snappy", "pyarrow", "pyspark", "pandas", "polars", "duckdb", "fsspec",
    "cryptography", "requests", "fastavro",
}  # fmt: skip


class Import(NamedTuple):
    """An import statement, whether it is in a function, and whether it is for type checking only."""

    node: ast.Import | ast.ImportFrom
    is_late: bool
    is_for_types: bool

    def names(self) -> Iterator[tuple[int, str]]:
        """Line and full name of each import, ``from kseg.a import b`` as kseg.a.b."""
        if isinstance(self.node, ast.Import):
            yield from ((self.node.lineno, alias.name) for alias in self.node.names)
        else:
            assert not self.node.level, f"line {self.node.lineno}: relative import"
            yield from ((self.node.lineno, f"{source_of(self.node)}.{alias.name}") for alias in self.node.names)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def folder_of(path: Path) -> str:
    """The folder of a module below kseg/, or "" for the loose modules of the package itself."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


@cache
def imports_in(path: Path) -> tuple[Import, ...]:
    """All import statements of a module; each module is parsed once, and its tree is not kept."""
    return tuple(_imports(ast.parse(path.read_text("utf-8"), str(path)).body, False, False))


def _imports(block: Sequence[ast.AST], is_late: bool, is_for_types: bool) -> Iterator[Import]:
    for node in block:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield Import(node, is_late, is_for_types)
        within = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_check = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        yield from _imports(getattr(node, "body", ()), within, is_for_types or is_check)
        for name in ("orelse", "handlers", "finalbody", "cases"):
            yield from _imports(getattr(node, name, ()), within, is_for_types)


def imported(path: Path) -> list[tuple[int, str]]:
    """Line and full name of each import of a module."""
    return [found for statement in imports_in(path) for found in statement.names()]


def source_of(node: ast.ImportFrom) -> str:
    """The module from which names are imported; kernel modules name each other as Cython does."""
    return (node.module or "").removeprefix("cython.cimports.")


def backwards(folder: str, name: str) -> bool:
    """Whether a module of `folder` must not import `name` (a full name such as kseg.formats.v07)."""
    target = name.split(".")[1] if name.startswith("kseg.") else ""
    if not (PACKAGE / target).is_dir() or not target or target == folder:
        return False
    if folder == "output" and name.startswith(SHOWN):
        return False
    is_later = LAYER_OF[target] > LAYER_OF[folder] and (folder, target) not in HIDDEN
    return not is_later and (folder, target) not in BESIDE


def test_every_folder_is_known() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert folders <= set(LAYER_OF)


def test_no_arrow_points_backwards() -> None:
    found = []
    for path in modules():
        folder = folder_of(path)
        if folder:
            found += [f"{path}:{line}: {name}" for line, name in imported(path) if backwards(folder, name)]
    assert found == []


def imports_of_modules() -> dict[str, set[str]]:
    """Each module of the package, and those that it imports, type checking aside, late imports counted."""
    names = {}
    for path in modules():
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    found = {}
    for name, path in names.items():
        run = [statement for statement in imports_in(path) if not statement.is_for_types]
        targets = {target for statement in run for _, target in statement.names()}
        targets |= {source_of(statement.node) for statement in run if isinstance(statement.node, ast.ImportFrom)}
        found[name] = (targets & set(names)) - {name}
    return found


def circle_in(edges: dict[str, set[str]]) -> list[str]:
    """Modules of which each imports the next, from the first back to it; none where the imports have an order."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_modules_import_each_other() -> None:
    assert circle_in(imports_of_modules()) == []


@pytest.mark.parametrize(("folder", "others"), [("broker", ("salvage", "replica")), ("salvage", ("replica",))])
def test_recovery_points_from_replica_to_salvage_to_broker(folder: str, others: tuple[str, ...]) -> None:
    paths = list((PACKAGE / "recovery" / folder).glob("*.py"))
    assert len(paths) > 2
    names = [name for path in paths for _, name in imported(path)]
    assert [name for name in names if name.startswith(tuple(f"kseg.recovery.{other}" for other in others))] == []


def test_a_circle_is_found() -> None:
    found = circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()})
    assert len(found) == 4
    assert set(found) == {"a", "b", "c"}


def test_what_output_shows_imports_no_work() -> None:
    for name in SHOWN:
        path = PACKAGE / f"{name.removeprefix('kseg.').replace('.', '/')}.py"
        named = {target for _, target in imported(path) if target.startswith("kseg.")}
        assert all(target.startswith((*SHOWN, "kseg.findings.")) for target in named), name


def test_loose_modules_import_no_folder() -> None:
    for name in LOOSE & {path.stem for path in PACKAGE.glob("*.py")}:
        assert [target for _, target in imported(PACKAGE / f"{name}.py") if target.startswith("kseg")] == []


def test_rich_is_used_by_output_only() -> None:
    users = {folder_of(path) for path in modules() for _, name in imported(path) if name.split(".")[0] == "rich"}
    assert users <= {RICH_FOLDER}


def test_what_is_heavy_is_imported_on_first_use() -> None:
    found = []
    for path in modules():
        for statement in imports_in(path):
            if not statement.is_late and not statement.is_for_types:
                names = [(line, name.split(".")[0]) for line, name in statement.names()]
                # What Spark imports itself has a base class of PySpark's, and a scan as a dataset one of pyarrow's.
                allowed = {"pyspark"} if folder_of(path) == "spark" and path.name != "__init__.py" else set()
                allowed |= {"pyarrow"} if path == PACKAGE / "api/scan.py" else set()
                allowed |= {"fsspec", "requests"} if path == PACKAGE / "stores/webhdfs.py" else set()
                allowed |= {"fsspec", "pyarrow"} if path == PACKAGE / "stores/arrow_files.py" else set()
                found += [f"{path}:{line}" for line, name in names if name in LAZY - allowed]
    assert found == []


def test_functions_import_submodules_in_a_way_that_threads_bear() -> None:
    """While one thread imports ``package.module`` first, another's ``import package.module`` may return before the
    package has the attribute. ``from package import module`` and ``import package.module as name`` look the module up.
    """
    found = []
    for path in modules():
        found += [
            f"{path}:{node.lineno}: {alias.name}"
            for node, is_late, _ in imports_in(path)
            if is_late and isinstance(node, ast.Import)
            for alias in node.names
            if "." in alias.name and alias.asname is None
        ]
    assert found == []


@pytest.mark.parametrize(
    ("folder", "name", "wrong"),
    [
        ("kernel", "kseg.formats.v07", True),
        ("formats", "kseg.segment.reader", True),
        ("segment", "kseg.formats.v07", False),
    ],
)
def test_an_arrow_is_judged_by_its_folders(folder: str, name: str, wrong: bool) -> None:
    assert backwards(folder, name) is wrong


def test_imports_between_kernel_modules_count() -> None:
    cursor = "kseg.kernel.records.cursor"
    found = imports_of_modules()
    assert cursor in found["kseg.kernel.render.rendering"]
    assert f"{cursor}.read_rows" in {name for _, name in imported(PACKAGE / "kernel/render/rendering.py")}
