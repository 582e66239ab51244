"""``kseg --version``, and what it tells for reports of bugs."""

import platform
import re
import sys
from importlib import metadata

import pytest

from cli.command import Kseg
from kseg import __version__
from kseg.kernel import description
from kseg.kernel.scan import checksums


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


def test_verbose_alone_is_refused(kseg: Kseg) -> None:
    done = kseg("--verbose", "dump", "no-such")
    assert (done.status, done.out) == (2, b"")
    assert "put it after the command" in done.err
