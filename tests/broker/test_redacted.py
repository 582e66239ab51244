"""Kafka's own loader does with the twin of a damaged partition what it does with the original."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import loading
from broker.loading import Loader
from broker.rounds import DEFAULT_INTERVAL_BYTES, NOW_MS, RELEASES, damaged
from kseg.node.node import Nodes
from redaction.twins import logs_at, shape_of, twin_of

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def loader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    with Loader(next(iter(RELEASES)), tmp_path_factory.getbasetemp()) as loader:
        yield loader


def left_by(loader: Loader, partition: Path, interval_bytes: int) -> tuple[str, list[object], dict[str, object]]:
    """Whether the loader takes a partition; the shape of the logs that it leaves; all else but the indexes' bytes."""
    answer = loader.load(partition, NOW_MS, interval_bytes).partition(":")[0]
    shape = [(Path(log.path).name, shape_of(Path(log.path))) for log in logs_at(partition)]
    files = loading.state(partition)
    return answer, [*shape], {name: None if name.endswith((".log", "index")) else what for name, what in files.items()}


@pytest.mark.parametrize("number", range(8))
def test_the_loader_leaves_the_same_of_a_twin(loader: Loader, number: int, tmp_path: Path) -> None:
    original = tmp_path / "damaged"
    partitions = damaged(original, "redact", number)
    twin, nodes, misses = twin_of(original, tmp_path / "twin"), Nodes(), []
    for partition, what in partitions.items():
        interval_bytes = nodes.partition(str(partition)).interval_bytes[0] or DEFAULT_INTERVAL_BYTES
        if "bytes out" in what:  # a loader takes payload for a header there, which is another one in the twin
            continue
        is_plain = all(item[2:3] in ((), ("none",)) for item in shape_of(partition) if len(item) > 3)
        old, new = (left_by(loader, root / partition.name, interval_bytes) for root in (original, twin))
        if old != new:
            misses.append(
                f"{partition.name} [{what}]: {[pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]}"
            )
        elif is_plain:
            sizes = [
                {path.name: path.stat().st_size for path in (root / partition.name).glob("*[gx]") if path.is_file()}
                for root in (original, twin)
            ]
            misses += [f"{partition.name} [{what}]: {sizes}"] * (sizes[0] != sizes[1])
    assert misses == []
    assert partitions
    shutil.rmtree(twin)
