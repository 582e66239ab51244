"""Searching keys, values and headers by patterns, also in files that a dump does not read."""

import shutil
from pathlib import Path

import pytest

import kseg as package
from cli.command import TESTDATA, Kseg

PLANTED = [
    (b"ann@example.com", b"order", []),
    (b"k1", b"mail ann@example.com now", []),
    (b"k2", b"order", [("user", b"ann@example.com")]),
    (b"k3", b"order", [("ann@example.com", None)]),
    (None, None, [("trace", b"1"), ("tenant", b"acme")]),
    (b"+49 171 555", b"x", [("tenant", b"acme2")]),
    (b"other", b"none", [("user", b"bob")]),
]


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    with package.writer(tmp_path / "logs/orders-0") as writer:
        for key, value, headers in PLANTED:
            writer.append(key=key, value=value, headers=headers)
    return tmp_path / "logs/orders-0"


def offsets(kseg: Kseg, *options: object) -> list[int]:
    return [row["offset"] for row in kseg("dump", "--deep-iteration", "--format", "json", *options).of_type("record")]


@pytest.mark.parametrize("options, found", [
    (["--grep-any", "ann@"], [0, 1, 2, 3]),
    (["--grep-any", "ann@", "--grep-any", r"\+49"], [0, 1, 2, 3, 5]),
    (["--grep", "ann@"], [1]),
    (["--grep", "ann@", "--grep", "none"], [1, 6]),
    (["--key-pattern", "^ann", "--key-pattern", "oth"], [0, 6]),
    (["--grep-header", "ann@"], [2, 3]),
    (["--grep-header", "^tenant=acme$"], [4]),
    (["--grep-header", "^tenant=", "--grep-header", "bob"], [4, 5, 6]),
    (["--grep-any", "ann@", "--grep", "order"], [0, 2, 3]),
    (["--grep-any", "ann@", "--key", "k2"], [2]),
    (["--grep-any", "ann@", "--last", "1"], [3]),
])  # fmt: skip
def test_patterns_over_keys_values_and_headers(kseg: Kseg, planted: Path, options: list[str], found: list[int]) -> None:
    assert offsets(kseg, *options, planted) == found


def test_what_a_search_leaves_unread_is_told_and_read_with_all(kseg: Kseg, planted: Path) -> None:
    log = next(planted.glob("*.log"))
    for suffix in (".deleted", ".cleaned"):
        shutil.copy(log, planted / f"{log.name}{suffix}")
    done = kseg("dump", "--grep", "ann@", planted).expect(0, "not searched: 1 .cleaned, 1 .deleted", "--all")
    assert done.err.count("not searched") == 1
    assert "not searched" not in kseg("dump", planted).err
    assert "not searched" not in kseg("dump", "--grep", "ann@", log).err
    found = kseg("dump", "--all", "--deep-iteration", "--format", "json", "--grep", "ann@", planted)
    assert "not searched" not in found.err
    assert [row["offset"] for row in found.of_type("record")] == [1, 1, 1]


def test_a_quarantine_is_searched_too(kseg: Kseg, tmp_path: Path) -> None:
    """Of a truncated log it keeps the tail, of a repaired one the ranges that were cut out."""
    source = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
    for mode, options in (("broker", ["--full"]), ("salvage", [])):
        path = Path(shutil.copytree(source, tmp_path / mode / "dplain-0"))
        everything = kseg("dump", "--deep-iteration", "--format", "json", path).of_type("record")
        kseg("recover", "--mode", mode, *options, path)
        kept = kseg("dump", "--deep-iteration", "--format", "json", path).of_type("record")
        lost = [row["offset"] for row in everything if row["offset"] not in {each["offset"] for each in kept}]
        assert lost
        last = str(lost[0])
        done = kseg("dump", "--format", "json", "--deep-iteration", "--key-pattern", ".*", "--offsets", last, path)
        assert done.of_type("record") == []
        assert ".kseg-quarantine" in done.err
        found = kseg("dump", "--all", "--format", "json", "--deep-iteration", "--offsets", last, path).of_type("record")
        assert [(row["offset"], row["topic"], row["partition"]) for row in found] == [(lost[0], "dplain", 0)]
        assert ".kseg-quarantine" in found[0]["file"]
