"""Files that other systems read, against pyproject.toml and the scripts in .ci/."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = {
    name: found for name, found in PROJECT["project"]["optional-dependencies"].items() if name not in ("dev", "test")
}
pytestmark = pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="a source distribution has no dot-files")


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def scripts(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w/])\.ci/[\w.-]*\w", text))


def test_every_dependency_has_its_licence_listed() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## Dependencies\n", 1)[1].split("\n## ", 1)[0]
    listed = set(
        re.findall(r"[\w-]+", " ".join(re.findall(r"^\| ([^|]*) \| [^|]+ \| [^|]+ \|$", section, re.MULTILINE)))
    )
    wanted = [PROJECT["project"]["dependencies"], *EXTRAS.values()]
    names = {name_of(requirement) for requirements in wanted for requirement in requirements} - {"kseg"}
    assert names - listed == set()


def test_the_conda_recipe_requires_what_kseg_does() -> None:
    recipe = (ROOT / ".packaging/conda/recipe.yaml").read_text("utf-8")
    run = recipe.split("  run:\n", 1)[1].split("\n\n", 1)[0]
    required = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()} - {"python"}
    assert required == set(PROJECT["project"]["dependencies"])
    host = recipe.split("  host:\n", 1)[1].split("  run:\n", 1)[0].lower()
    built = {line.removeprefix("    - ").replace(" ", "") for line in host.splitlines()}
    assert {requirement.lower() for requirement in PROJECT["build-system"]["requires"]} <= built


def test_scripts_that_workflows_and_documents_name_are_there() -> None:
    paths = [*(ROOT / ".github").rglob("*.yml"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
    named = {name for path in paths for name in scripts(path.read_text("utf-8"))}
    assert {".ci/run", ".ci/wheels", ".ci/tests"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_script_runs_in_ci_or_is_explained() -> None:
    told = "".join((ROOT / name).read_text("utf-8") for name in (".ci/run", ".ci/release-checks", "CONTRIBUTING.md"))
    own = {f".ci/{path.name}" for path in (ROOT / ".ci").iterdir() if path.is_file() and not path.suffix}
    assert own - scripts(told) == set()


def test_workflows_pin_and_ask_for_no_more_than_they_need() -> None:
    for path in (ROOT / ".github/workflows").iterdir():
        text = path.read_text("utf-8")
        assert "\npermissions:\n  contents: read\n" in text, path
        assert [use for use in re.findall(r"uses: (\S+)", text) if "@v" not in use] == []


def test_all_kernel_modules_are_built() -> None:
    """A module that pyproject.toml leaves out would not be found where the kernel is compiled."""
    listed = {source for extension in PROJECT["tool"]["setuptools"]["ext-modules"] for source in extension["sources"]}
    folders = {Path(source).parent for source in listed}
    there = {path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).glob("*.py")}
    assert {str(path) for path in there if path.name != "__init__.py"} == listed
