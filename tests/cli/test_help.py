"""``--help``: options in groups, examples that can be typed; suggestions for what is mistyped; completion."""

import platform
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from cli.command import TESTDATA, Kseg
from kseg import __version__
from kseg.cli.main import COMMANDS, MOVED, main
from kseg.cli.options import EXAMPLES
from kseg.kernel import description
from kseg.kernel.scan import checksums
from kseg.limits import MAX_BATCH_BYTES
from kseg.options.declaration import GROUPS

# ``kseg --version``, and what it tells for reports of bugs.


def test_one_line(kseg: Kseg) -> None:
    done = kseg("--version")
    assert (done.status, done.lines) == (0, [f"kseg {__version__} ({description()} kernel)"])


def facts(lines: list[str]) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize("arguments", [("--version", "--verbose"), ("--verbose", "--version")])
def test_all_that_kseg_works_with(kseg: Kseg, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSEG_EXPLAINED", "yes")
    first, *lines = kseg(*arguments).lines
    told = facts(lines)
    assert first == f"kseg {__version__} ({description()} kernel)"
    assert told["checksums"] == checksums.implementation()
    assert told["Python"].startswith(f"{platform.python_implementation()} {platform.python_version()}")
    assert platform.machine() in told["system"]
    assert "KSEG_EXPLAINED=yes" in told["environment"]
    assert re.fullmatch(r"1\.\d+\.\d+", told["libzstd of zstandard"])


def test_packages_and_those_of_extras(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the metadata of the installed kseg names them; those for tests are left out."""
    names = [
        "click>=8.1", "no-such-codec<3", 'kseg[parquet]; extra == "spark"', 'click>=8.2; extra == "spark"',
        "no-such-extra>=1; extra == 'spark'", 'pytest>=8; extra == "test"',
    ]  # fmt: skip
    monkeypatch.setattr(metadata, "requires", {"kseg": names}.get)
    told = facts(kseg("--version", "--verbose").lines[1:])
    assert told["click"] == metadata.version("click")
    assert told["no-such-codec"] == "missing"
    assert told["no-such-extra"] == "not installed (for kseg[spark])"
    assert {"kseg", "pytest"} & told.keys() == set()


def test_what_is_not_there_is_told(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    monkeypatch.setitem(sys.modules, "lz4", None)
    told = facts(kseg("--version", "--verbose").lines[1:])
    assert told["packages"] == "unknown, since kseg runs from its source tree"
    assert "lz4" in told["codecs"]


LOGS = TESTDATA / "log-directories/4.3.1-rounds/kill"
TYPED = [(example.split()[1], example) for _, example in EXAMPLES]


def command_of(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_options_stand_below_headings(kseg: Kseg, name: str) -> None:
    lines = kseg(name, "--help").lines
    headings = [line[:-1] for line in lines if re.fullmatch(r"\S.*:", line)]
    assert headings[-1] == "Examples"
    groups = headings[:-1]
    assert groups == [group for group in GROUPS if group in groups]
    assert lines[-1] == f"man kseg-{name} describes everything."
    options = [option for parameter in command_of(name).params for option in parameter.opts if option.startswith("--")]
    shown = "\n".join(lines)
    assert [option for option in options if option not in shown] == []
    defaults = [each.default for each in command_of(name).params if isinstance(each.type, click.Choice)]
    words = " ".join(shown.split())
    assert [each for each in defaults if isinstance(each, str) and f"[default: {each}]" not in words] == []
    assert f"[default: {MAX_BATCH_BYTES}]" not in words


@pytest.mark.parametrize(("name", "example"), TYPED, ids=[example for _, example in TYPED])
def test_an_example_can_be_typed(name: str, example: str) -> None:
    program, command, *arguments = shlex.split(example.partition("<")[0])
    assert (program, command) == ("kseg", name)
    parent = main.make_context("kseg", [], resilient_parsing=True)
    assert command_of(name).make_context(name, arguments, parent).params


def test_every_command_has_examples() -> None:
    assert {name for name, _ in TYPED} == {*COMMANDS}


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("vrify", "x"), "'verify'"),
        (("recoverr",), "'recover'"),
        (("gdpr",), "'erase'"),
        (("dump", "--deep-iteraton", "x"), "--deep-iteration"),
        (("verify", "--ignore", "crc-mismach", "x"), "crc-mismatch"),
    ],
)
def test_what_is_mistyped_has_a_suggestion(kseg: Kseg, words: tuple[str, ...], suggestion: str) -> None:
    kseg(*words).expect(2, suggestion, out=b"")


@pytest.mark.parametrize(
    ("command", "option", "new"), [(name, *each) for name, moved in MOVED.items() for each in moved.items()]
)
def test_an_option_that_has_become_a_command_names_it(kseg: Kseg, command: str, option: str, new: str) -> None:
    kseg(command, option, LOGS).expect(2, f"{option} is a command now: kseg {new}\n", out=b"")


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (["verify", "--explain"], "gap-", {"gap-compacted", "gap-truncated"}),
        (["verify", "--ignore"], "crc", {"crc-mismatch"}),
        (["convert", "--codec"], "z", {"zstd"}),
        (["stats", "--what-if"], "", {"gzip", "lz4", "none", "snappy", "zstd"}),
        (["dump", str(LOGS), "--topic"], "f", {"few"}),
        (["compact", str(LOGS), "--topic"], "f", {"few"}),
        ([], "ver", {"verify"}),
    ],
)
def test_completion(words: list[str], incomplete: str, expected: set[str]) -> None:
    found = {
        item.value for item in ShellComplete(main, {}, "kseg", "_KSEG_COMPLETE").get_completions(words, incomplete)
    }
    assert found >= expected
    assert all(value.startswith(incomplete) for value in found)


def test_completion_of_topics_where_there_is_no_directory(tmp_path: Path) -> None:
    words = ["dump", str(tmp_path / "none"), "--topic"]
    assert ShellComplete(main, {}, "kseg", "_KSEG_COMPLETE").get_completions(words, "") == []
