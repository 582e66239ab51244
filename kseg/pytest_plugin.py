"""Fixtures of pytest for those who test producers, brokers or backups. They do nothing unless a test asks for them.

``kseg_log``: a temporary log directory that a test fills. ``assert_clean``: fails where `kseg.verify` finds something.
``kseg_server``: serves logs to the clients of Kafka that a test uses.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kseg.api.arguments import Level, Paths
    from kseg.api.serving import LogServer
    from kseg.api.verdict import Verdict
    from kseg.api.writer import Writer

_SEVERITIES = ("error", "warning")
_SHOWN = 20


class KsegLog:
    """A log directory at ``path``, to which a test writes records."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def partition(self, name: str) -> Path:
        """Returns the path of a partition, such as "orders-0"."""
        return self.path / name

    def writer(self, name: str, **options: Any) -> "Writer":
        """Returns a writer of a new partition; ``options`` are those of `kseg.writer`."""
        import kseg

        return kseg.writer(self.partition(name), **options)

    def write(self, name: str, records: Iterable[dict[str, Any]], **options: Any) -> Path:
        """Writes a new partition of records, the arguments of `Writer.append` each, and returns its path."""
        with self.writer(name, **options) as writer:
            for record in records:
                writer.append(**record)
        return self.partition(name)


@pytest.fixture
def kseg_log(tmp_path: Path) -> KsegLog:
    """A temporary, empty log directory: ``kseg_log.writer("orders-0")``, ``kseg_log.path``."""
    path = tmp_path / "kafka-logs"
    path.mkdir()
    return KsegLog(path)


@pytest.fixture
def assert_clean() -> "Callable[..., Verdict]":
    """``assert_clean(path, level="full", ignore=())``: fails for a finding of severity error or warning, and for a part
    that could not be checked.

    ``ignore``: codes of findings to leave out. Returns the verdict.
    """
    import kseg

    def check(path: "Paths", level: "Level" = "full", ignore: str | Iterable[str] = ()) -> "Verdict":
        __tracebackhide__ = True
        verdict = kseg.verify(path, level=level, ignore=ignore)
        found = [each for each in verdict.findings if each.severity in _SEVERITIES]
        if found or not verdict.ok:
            lines = [f"{each.file}: {each.severity}: {each.code}: {each.message}" for each in found[:_SHOWN]]
            if len(found) > _SHOWN:
                lines.append(f"and {len(found) - _SHOWN} more")
            pytest.fail("\n".join(["not clean:", *verdict.failures, *lines]), pytrace=False)
        return verdict

    return check


@pytest.fixture
def kseg_server() -> "Iterator[Callable[..., LogServer]]":
    """``kseg_server(path, **options)``: a read-only broker for clients in the test, as `kseg.serve` starts it, on a
    free port; ``.bootstrap`` is its address. It ends with the test.
    """
    import kseg

    with ExitStack() as servers:
        yield lambda path, **options: servers.enter_context(kseg.serve(path, **options))
