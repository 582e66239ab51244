"""``kseg.stats``, ``groups``, ``transactions`` and ``cluster`` return the rows of the commands' JSON."""

from pathlib import Path
from typing import Any

import pytest

import kseg as package
from api.consumed import TESTDATA
from cli.command import Kseg

COMMITTED = TESTDATA / "kafka-4.3.1/committed"


@pytest.mark.parametrize(
    ("name", "words", "given", "path"),
    [
        ("stats", ("--now=0", "--offsets=..9"), {"now": 0, "offsets": (None, 9)}, COMMITTED),
        ("stats", ("--now=0", "--topic=no*"), {"now": 0, "topics": "no*"}, TESTDATA / "remote/plain/remote"),
        ("groups", ("--now=5",), {"now": 5}, COMMITTED),
        ("groups", ("--by-size", "--offsets=..20"), {"by_size": True, "offsets": (0, 20)}, COMMITTED),
        ("transactions", (), {}, TESTDATA / "log-directories/4.3.1-rounds/kill"),
        ("cluster", ("--as-of=300", "--since=200"), {"as_of": 300, "since": 200}, TESTDATA / "kafka-4.3.1/internal"),
        ("cluster", ("--redact",), {"redact": True}, TESTDATA / "kafka-4.3.1/internal"),
    ],
)  # fmt: skip
def test_rows_as_the_command(name: str, words: tuple[str, ...], given: dict[str, Any], path: Path, kseg: Kseg) -> None:
    rows = getattr(package, name)(path, **given)
    printed = kseg(name, "--format", "json", *words, path).objects
    assert rows == [row for row in printed if row["type"] != "totals"]


@pytest.mark.parametrize("name", ["stats", "groups", "transactions", "cluster"])
def test_what_cannot_be_read_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(package.PathError, match="none"):
        getattr(package, name)(tmp_path / "none")


@pytest.mark.parametrize("name", ["stats", "transactions"])
def test_a_name_of_no_topic_is_refused(name: str) -> None:
    with pytest.raises(package.RequestError, match="there is no partition of topic 'order'"):
        getattr(package, name)(COMMITTED, topics=["orders", "order"])
    with pytest.warns(package.SelectionWarning, match="no topic matches 'x\\*'"):
        getattr(package, name)(COMMITTED, topics=["orders", "x*"])
    with pytest.raises(package.PathError, match="no such file"):
        getattr(package, name)("nowhere", topics=["order"])


def test_groups_need_their_topic() -> None:
    with pytest.raises(package.PathError, match="no PATH holds a partition of __consumer_offsets"):
        package.groups(TESTDATA / "log-directories/4.3.1/logs")
