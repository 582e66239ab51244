"""Where two copies of a log part, and what goes if one leads; the rules are those of Kafka's followers."""

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.node import cluster
from kseg.node.cluster import ClusterPartition, LogCopy, count_records
from kseg.node.metadata_image import PartitionImage
from kseg.node.node import by_cluster
from kseg.sidefiles.checkpoints import EpochEntry
from segment.segments import TESTDATA

APART = TESTDATA / "damaged" / "findings" / "copies-parted" / "cluster"


def a_copy(node: int, end: int, *epochs: tuple[int, int], mark: int | None = None, start: int = 0) -> LogCopy:
    entries = tuple(EpochEntry(*entry) for entry in epochs)
    return LogCopy(node, f"node{node}/t-0", start, end, entries, mark)


@pytest.mark.parametrize(
    ("one", "other", "agreed"),
    [
        (a_copy(1, 350, (0, 0)), a_copy(2, 200, (0, 0)), 200),
        (a_copy(1, 350, (0, 0), (3, 200)), a_copy(2, 200, (0, 0)), 200),
        (a_copy(1, 350, (0, 0)), a_copy(2, 260, (0, 0), (1, 200)), 200),
        (a_copy(1, 350, (0, 0), (2, 300)), a_copy(2, 400, (0, 0), (3, 320)), 300),
        (a_copy(1, 350, (0, 0), (2, 200)), a_copy(2, 400, (1, 0), (3, 320)), 0),
        (a_copy(1, 500, (5, 400), start=400), a_copy(2, 350, (0, 0)), 350),
        (a_copy(1, 500, (5, 300), start=300), a_copy(2, 350, (0, 0)), 300),
        (a_copy(1, 350), a_copy(2, 200), 200),
        (a_copy(1, 350, (0, 0)), LogCopy(2, None), 0),
    ],
)
def test_where_two_copies_part(one: LogCopy, other: LogCopy, agreed: int) -> None:
    assert (one.agrees_to(other), other.agrees_to(one)) == (agreed, agreed)


def a_partition(*copies: LogCopy, **fields: tuple[int, ...]) -> ClusterPartition:
    replicas = tuple(copy.node for copy in copies)
    image = PartitionImage(replicas, ("",) * len(replicas), fields.pop("isr", ()), (), (), -1, 0, 0, 0, **fields)
    return ClusterPartition("t", 0, "", image, copies, False)


@pytest.mark.parametrize(
    ("copies", "leader", "expected"),
    [
        # Records beyond every high watermark were not committed for sure; the copy's own one tells as well.
        ((a_copy(1, 350, (0, 0), mark=350), a_copy(2, 200, (0, 0), mark=200)), 1, [(1, 200, 349, True)]),
        ((a_copy(1, 350, (0, 0), mark=200), a_copy(2, 200, (0, 0), mark=200)), 1, [(1, 200, 349, False)]),
        ((a_copy(1, 350, (0, 0)), a_copy(2, 200, (0, 0), mark=300)), 1, [(1, 200, 349, True)]),
        # That of a copy that has parted counts up to there.
        ((a_copy(1, 350, (0, 0), mark=200), a_copy(2, 400, (0, 0), (1, 200), mark=400)), 1, [(1, 200, 349, False)]),
        # What retention has deleted is no loss.
        ((a_copy(1, 350, (0, 0), mark=350, start=300), a_copy(2, 200, (0, 0))), 1, [(1, 300, 349, True)]),
        ((a_copy(1, 350, (0, 0), mark=350), a_copy(2, 350, (0, 0), mark=350)), 1, []),
    ],
)
def test_what_goes(copies: tuple[LogCopy, ...], leader: int, expected: list[tuple[int, int, int, bool]]) -> None:
    found = a_partition(*copies).losses(copies[leader])
    assert [(loss.copy.node, loss.first, loss.last, loss.is_certain) for loss in found] == expected


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"isr": (2, 3), "elr": (1,)}, (2, 3)),
        ({"elr": (1, 3), "last_known_elr": (2,)}, (1, 3)),
        ({"last_known_elr": (2,)}, (2,)),
        ({"last_known_elr": (2, 3)}, ()),
    ],
)
def test_who_may_lead(fields: dict[str, tuple[int, ...]], nodes: tuple[int, ...]) -> None:
    """As PartitionChangeBuilder elects: those in sync, else the eligible ones, else the only last known leader."""
    assert a_partition(a_copy(1, 0), a_copy(2, 0), a_copy(3, 0), **fields).may_lead == nodes


def test_copies_of_one_node_are_no_cluster() -> None:
    nodes: list[Any] = [
        SimpleNamespace(cluster_id=name, number=number)
        for name, number in (("a", 1), ("a", 2), ("alone", 1), ("copies", 3), ("copies", 3), (None, 1), ("a", None))
    ]
    assert by_cluster(nodes) == [nodes[:2]]


def test_records_of_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(APART / "node2" / "u-0")
    assert [count_records(path, *span) for span in ((200, 349), (0, 0), (340, 999))] == [150, 1, 10]
    monkeypatch.setattr(cluster, "_MAX_COUNTED_SEGMENTS", 0)
    assert count_records(path, 0, 0) is None
