"""``--help``: options in groups, examples that can be typed; suggestions for what is mistyped; completion."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from cli.command import TESTDATA, Kseg
from kseg.cli.help import EXAMPLES
from kseg.cli.main import COMMANDS, main
from kseg.options.declaration import GROUPS

LOGS = TESTDATA / "log-directories/4.3.1-rounds/kill"
TYPED = [(name, example) for name, examples in EXAMPLES.items() for _, example in examples]


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


@pytest.mark.parametrize(("name", "example"), TYPED, ids=[example for _, example in TYPED])
def test_an_example_can_be_typed(name: str, example: str) -> None:
    program, command, *arguments = shlex.split(example.partition("<")[0])
    assert (program, command) == ("kseg", name)
    parent = main.make_context("kseg", [], resilient_parsing=True)
    assert command_of(name).make_context(name, arguments, parent).params


def test_every_command_has_examples() -> None:
    assert list(EXAMPLES) == list(COMMANDS)


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("vrify", "x"), "'verify'"),
        (("recoverr",), "'recover'"),
        (("dump", "--deep-iteraton", "x"), "--deep-iteration"),
        (("verify", "--ignore", "crc-mismach", "x"), "crc-mismatch"),
    ],
)
def test_what_is_mistyped_has_a_suggestion(kseg: Kseg, words: tuple[str, ...], suggestion: str) -> None:
    done = kseg(*words)
    assert (done.status, done.out) == (2, b"")
    assert suggestion in done.err


def test_what_is_like_nothing_has_none(kseg: Kseg) -> None:
    assert "Did you mean" not in kseg("qqqqqqqq").err


@pytest.mark.parametrize(
    ("word", "command"),
    [("repair", "recover"), ("fsck", "verify"), ("cat", "dump"), ("delete", "retain"), ("Export", "convert"),
     ("revert", "undo"), ("clean", "compact"), ("rebuild", "reindex"), ("diagnose", "symptoms")],
)  # fmt: skip
def test_another_word_for_a_command_suggests_it(kseg: Kseg, word: str, command: str) -> None:
    """Similar letters alone would offer 'retain', which deletes, for 'repair'."""
    done = kseg(word, "x")
    assert (done.status, done.err.splitlines()[-1]) == (
        2, f"Error: No such command {word!r}. Did you mean {command!r}?",
    )  # fmt: skip


def test_help_is_an_option(kseg: Kseg) -> None:
    assert "kseg --help" in kseg("help").err


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (["verify", "--explain"], "gap-", {"gap-compacted", "gap-truncated"}),
        (["verify", "--ignore"], "crc", {"crc-mismatch"}),
        (["convert", "--codec"], "z", {"zstd"}),
        (["dump", "--what-if"], "", {"gzip", "lz4", "none", "snappy", "zstd"}),
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
