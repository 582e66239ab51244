"""The manual and the README against the commands: nothing is undocumented, and what is shown is what happens."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from kseg import __version__
from kseg.cli.main import main
from kseg.segment.items import DAMAGE_CODES, PROBLEM_CODES
from kseg.sidefiles.problems import SIDE_FILE_CODES
from report.browser import needs_browser

man_pages = pytest.importorskip("man_pages", reason="a source distribution has no dot-files")
pictures = pytest.importorskip("pictures")

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def manual(page: str) -> str:
    """A page as plain text: mdoc's ``Fl -limit`` becomes ``--limit``."""
    return re.sub(r"\bFl (-?[\w-]+)", r"-\1", (ROOT / "man" / page).read_text("utf-8"))


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        yield name, command


def options_of(command: click.Command) -> Iterator[click.Option]:
    parent = None if command is main else main.make_context("kseg", [], resilient_parsing=True)
    context = click.Context(command, parent, help_option_names=["--help", "-h"])
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            yield parameter


def options(command: click.Command) -> Iterator[str]:
    for parameter in options_of(command):
        yield from [*parameter.opts, *parameter.secondary_opts]


def mentions(text: str, option: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


def sessions() -> Iterator[tuple[str, list[str]]]:
    """Each ``$ command`` of the README's console blocks with the lines shown below it."""
    for block in CONSOLE.findall(README):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            yield command, shown


def runnable(command: str) -> bool:
    return command.startswith("kseg ") and "orders-0" not in command


SESSIONS = [(command, shown) for command, shown in sessions() if runnable(command)]


def test_every_option_of_kseg_is_in_its_page() -> None:
    page = manual("kseg.1")
    assert [option for option in options(main) if not mentions(page, option)] == []


def test_every_command_has_a_page_with_all_its_options() -> None:
    missing = []
    for name, command in commands():
        page = manual(f"kseg-{name}.1")
        missing += [f"{name} {option}" for option in options(command) if not mentions(page, option)]
    assert missing == []


def test_a_page_names_no_option_that_is_gone() -> None:
    for name, command in commands():
        listed = re.findall(r"^\.It Fl (.*)$", (ROOT / "man" / f"kseg-{name}.1").read_text("utf-8"), re.MULTILINE)
        named = {"-" + option for line in listed for option in re.findall(r"(?:^|Fl )(-?[\w-]+)", line)}
        assert named - set(options(command)) == set()


def examples(page: str) -> list[list[str]]:
    """The arguments of ``kseg`` in each line of a page that shows a command, pipelines cut into their parts."""
    text = (ROOT / "man" / page).read_text("utf-8").replace(r"\(aq", "'").replace(r"\(dq", '"')
    lines = re.findall(r"^\.D[l1] (.*)$", text, re.MULTILINE)
    words = (shlex.split(part) for line in lines for part in re.split(r"[|<>]", line))
    return [found[1:] for found in words if found[:1] == ["kseg"]]


MANUALS = sorted(path.name for path in (ROOT / "man").glob("*.[1-9]"))
VIEWER = ["mandoc", "-Tutf8", "-Owidth=400"] if shutil.which("mandoc") else ["man", "-l"] if shutil.which("man") else []
PAGES = [("kseg.1", main), *((f"kseg-{name}.1", command) for name, command in commands())]


@pytest.mark.parametrize(("page", "command"), PAGES, ids=[page for page, _ in PAGES])
def test_every_option_has_an_example(page: str, command: click.Command) -> None:
    """An entry alone does not show how an option is meant."""
    shown = {argument.partition("=")[0] for arguments in examples(page) for argument in arguments}
    missing = [
        parameter.opts for parameter in options_of(command) if not shown & {*parameter.opts, *parameter.secondary_opts}
    ]
    assert missing == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("page", "command"), PAGES[1:], ids=[page for page, _ in PAGES[1:]])
def test_examples_can_be_typed(
    page: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, and what they are given, as the command takes them; a module of one's own may have any function."""
    monkeypatch.syspath_prepend(str(tmp_path))
    parent = main.make_context("kseg", [], resilient_parsing=True)
    places = ("paths", "files", "explain", "text", "from_remote", "topics_from", "server")
    for arguments in (each[1:] for each in examples(page) if each[0] == command.name):
        for module, _, function in (each.partition(":") for each in arguments if re.fullmatch(r"\w+:\w+", each)):
            (tmp_path / f"{module}.py").write_text(f"def {function}(data): return data\n", "utf-8")
        if {"-h", "--help"} & set(arguments):
            with pytest.raises(click.exceptions.Exit) as ended:
                command.make_context(command.name, list(arguments), parent)
            assert ended.value.exit_code == 0
        else:
            context = command.make_context(command.name, list(arguments), parent)
            assert any(context.params.get(name) for name in places), arguments


@pytest.mark.parametrize(("page", "command"), PAGES, ids=[page for page, _ in PAGES])
def test_every_option_is_in_a_test(page: str, command: click.Command) -> None:
    """Of the command line's own tests, so that an option wired to nothing is noticed. Refusals do not show that."""
    files = sorted(path for folder in ("cli", "dump") for path in (ROOT / "tests" / folder).glob("*.py"))
    files += sorted(path for path in (ROOT / "testdata" / "outputs").glob("*.txt") if path.stem != "refusals")
    told = "\n".join(path.read_text("utf-8") for path in files)
    missing = [
        parameter.opts
        for parameter in options_of(command)
        if not any(mentions(told, option) for option in (*parameter.opts, *parameter.secondary_opts))
    ]
    assert (page, missing) == (page, [])


def test_every_command_is_in_the_readme_and_the_main_page() -> None:
    page = manual("kseg.1")
    names = [name for name, _ in commands()]
    assert [name for name in names if f"kseg {name}" not in README or f".It Cm {name}" not in page] == []


def test_every_code_of_damage_and_problems_is_explained() -> None:
    page = (ROOT / "man" / "kseg-formats.7").read_text("utf-8")
    assert [code for code in sorted(DAMAGE_CODES | PROBLEM_CODES) if f"\n.It {code}\n" not in page] == []


def test_no_code_is_explained_that_does_not_exist() -> None:
    page = (ROOT / "man" / "kseg-formats.7").read_text("utf-8")
    assert set(re.findall(r"^\.It ([a-z-]+)$", page, re.MULTILINE)) <= DAMAGE_CODES | PROBLEM_CODES


@pytest.mark.parametrize("name", man_pages.ENTRIES)
def test_a_page_has_the_entries_of_its_table(name: str) -> None:
    assert man_pages.page_of(name) == (ROOT / "man" / name).read_text("utf-8"), "run: python .ci/man_pages.py"


def test_every_code_of_side_files_is_explained() -> None:
    page = (ROOT / "man" / "kseg-output.7").read_text("utf-8")
    assert [code for code in SIDE_FILE_CODES if f"\n.It Ql {code}\n" not in page] == []


def test_the_changelog_knows_this_version() -> None:
    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)


def test_the_readme_starts_with_two_commands_of_one_line() -> None:
    section = README.split("## Quick start\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("python3 ")]
    assert len(lines) == 2
    assert all(line.startswith("python3 -m venv .venv") for line in lines)
    assert "kseg dump" in lines[0]
    assert ".venv-test/bin/pytest" in lines[1]


def test_files_that_the_documents_name_are_there() -> None:
    texts = [README, *((ROOT / name).read_text("utf-8") for name in ("CONTRIBUTING.md", "testdata/README.md"))]
    named = {path.rstrip("/.") for text in texts for path in re.findall(r"\b(?:testdata|man|tests)/[\w./-]+", text)}
    folders = "|".join(path.name for path in (ROOT / "kseg").iterdir() if path.is_dir())
    named |= {f"kseg/{path}" for path in re.findall(rf"`((?:{folders})/[\w/]+\.\w+)`", texts[1])}
    assert len(named) > 30
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_tests_that_ci_names_are_there() -> None:
    """pytest runs nothing at all if one of its paths is missing."""
    named = set()
    for script in filter(Path.is_file, (ROOT / ".ci").iterdir()):
        for before, choices, after in re.findall(
            r"(?<![\w-])(tests/[\w/]*)(?:\{([\w,]+)\})?([\w/.]*)", script.read_text("utf-8")
        ):
            named |= {before + choice + after for choice in choices.split(",")}
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc: apt-get install mandoc")
@pytest.mark.parametrize("page", MANUALS)
def test_mandoc_has_nothing_to_say_about_a_page(page: str) -> None:
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", f"man/{page}"], cwd=ROOT, capture_output=True, check=False)
    assert done.stdout == b""


@pytest.mark.parametrize("page", MANUALS)
def test_each_quoted_word_has_quotes_of_its_own(page: str) -> None:
    """``.Ql a , b`` prints one pair of quotes around both, ``.Fl a or`` a dash before the word."""
    text = (ROOT / "man" / page).read_text("utf-8")
    wrong = r"^.*\bQl [^\"\n]* [,;] \S.*|^.*\bQl .* (?:No|Ql) .*|^.*\bFl \S+ [a-z(].*"
    assert re.findall(wrong, text, re.MULTILINE) == []


@pytest.mark.parametrize("page", MANUALS)
def test_no_example_loses_its_double_quotes(page: str) -> None:
    """A double quote at the start of a word quotes for mdoc, and is not printed."""
    text = (ROOT / "man" / page).read_text("utf-8")
    shown = re.findall(r"^\.D[l1] (.*)$", text, re.MULTILINE)
    assert [line for line in shown if '"' in line] == [], r"write \(dq"
    if VIEWER:
        environment = os.environ | {"MANWIDTH": "400", "MANPAGER": "cat", "LC_ALL": "C.UTF-8"}
        words = [*VIEWER, str(ROOT / "man" / page)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
        rendered = " ".join(done.stdout.split())
        lines = [line.replace(r"\(dq", '"').replace(r"\(aq", "'") for line in shown if r"\(dq" in line]
        assert [line for line in lines if line not in rendered] == []


def test_kseg_1_leads_to_all_pages() -> None:
    _, _, related = (ROOT / "man/kseg.1").read_text("utf-8").partition(".Sh SEE ALSO\n")
    assert re.findall(r"^\.Xr (\S+) (\d)", related, re.MULTILINE) == sorted(
        (tuple(page.rsplit(".", 1)) for page in MANUALS if page != "kseg.1"), key=lambda each: (each[1], each[0])
    )


@pytest.mark.parametrize(
    "draw",
    [pictures.terminal, pytest.param(pictures.report, marks=[pytest.mark.slow, needs_browser])],
    ids=lambda draw: draw.__name__,
)
def test_a_picture_shows_what_happens(draw: Callable[[], str]) -> None:
    shown = (pictures.IMAGES / f"{draw.__name__}.svg").read_text("utf-8")
    assert pictures.texts_of(shown) == pictures.texts_of(draw()), "run: PYTHONPATH=tests python .ci/pictures.py"


@pytest.mark.parametrize(("name", "text"), [("terminal", "$ "), ("report", "crc-mismatch"), ("report", "Next steps")])
def test_a_picture_is_inert(name: str, text: str) -> None:
    assert f"man/images/{name}.svg" in README
    shown = (pictures.IMAGES / f"{name}.svg").read_text("utf-8")
    assert not re.search(r"<script|url\((?!#)|\bsrc=|href=\"http", shown)
    assert text.strip() in pictures.texts_of(shown)


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len(re.sub(r"```.*?```", "", README, flags=re.DOTALL).split()) <= 1500


def test_the_readme_shows_runs() -> None:
    assert len(SESSIONS) >= 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[command for command, _ in SESSIONS])
def test_what_the_readme_shows_is_what_happens(command: str, shown: list[str]) -> None:
    """A shown line that ends in ``...`` is the beginning of a longer one."""
    if "jq " in command and shutil.which("jq") is None:
        pytest.skip("jq is not on PATH")
    script = command.replace("kseg ", f"'{sys.executable}' -P -m kseg ", 1)
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert done.returncode in (0, 1), done.stderr.decode()
    lines = [line.rstrip() for line in done.stdout.decode("utf-8").splitlines()]
    expected = [line.rstrip() for line in shown]
    elided = [
        line[: len(want) - 3] + "..." if want.endswith("...") else line
        for line, want in zip(lines, expected, strict=False)
    ]
    assert elided + lines[len(elided) :] == expected
