"""Segments whose offsets run over 2^31 - 1 above the base: split where a broker splits them, refused where it fails."""

from pathlib import Path

import pytest

from kseg.recovery.workspace import BrokerRefusesError
from kseg.releases.recovery import era_of
from recovery.partitions import at_offset, contents, make, real_batches, recover

FAR = 1 << 32
BATCHES = [*real_batches(0), *real_batches(46)]
NEAR = BATCHES[:3]
BEHIND = [at_offset(batch, FAR + 100 * k) for k, batch in enumerate(BATCHES[3:6])]
FARTHER = [at_offset(batch, 3 * FAR + 100 * k) for k, batch in enumerate(BATCHES[6:8])]


@pytest.mark.parametrize("was_clean", [False, True])
def test_each_part_begins_with_the_batch_that_did_not_fit(tmp_path: Path, was_clean: bool) -> None:
    directory = make(tmp_path / "orders-0", {0: [*NEAR, *BEHIND, *FARTHER]})
    found = recover(directory, was_clean=was_clean)
    logs = {name: data for name, data in contents(directory).items() if name.endswith(".log")}
    assert logs == {
        f"{0:020d}.log": b"".join(NEAR),
        f"{FAR:020d}.log": b"".join(BEHIND),
        f"{3 * FAR:020d}.log": b"".join(FARTHER),
    }
    assert found.cuts == []
    assert not recover(directory).plan


def test_a_renamed_part_leaves_no_index_behind(tmp_path: Path) -> None:
    """The first batch is too far from the name of the segment, so that no part keeps that name."""
    directory = make(tmp_path / "orders-0", {0: [*BEHIND, *FARTHER]})
    for suffix in (".index", ".timeindex", ".txnindex"):
        (directory / f"{0:020d}{suffix}").write_bytes(bytes(24))
    recover(directory)
    found = contents(directory)
    assert found[f"{FAR:020d}.log"] == b"".join(BEHIND)
    assert found[f"{3 * FAR:020d}.log"] == b"".join(FARTHER)
    assert [name for name in found if name.startswith(f"{0:020d}.")] == []


def test_damage_in_a_part_is_cut(tmp_path: Path) -> None:
    broken = BEHIND[1][:-1] + bytes([BEHIND[1][-1] ^ 1])
    directory = make(tmp_path / "orders-0", {0: [*NEAR, BEHIND[0], broken, *FARTHER]})
    recover(directory)
    logs = {name: data for name, data in contents(directory).items() if name.endswith(".log")}
    assert logs == {f"{0:020d}.log": b"".join(NEAR), f"{FAR:020d}.log": BEHIND[0]}


def refused(directory: Path, why: str) -> None:
    before = contents(directory)
    with pytest.raises(BrokerRefusesError, match=why):
        recover(directory)
    assert contents(directory) == before


def test_an_offset_below_the_base_is_refused(tmp_path: Path) -> None:
    moved = [at_offset(batch, 500 + 100 * k) for k, batch in enumerate(NEAR)]
    refused(make(tmp_path / "orders-0", {500: [*moved, NEAR[0]]}), "not too high")


def test_a_torn_end_is_refused(tmp_path: Path) -> None:
    refused(make(tmp_path / "orders-0", {0: [*NEAR, *BEHIND, BEHIND[0][:15]]}), "looks for one")


def test_a_part_in_the_place_of_another_segment_is_refused(tmp_path: Path) -> None:
    refused(make(tmp_path / "orders-0", {0: [*NEAR, *BEHIND], FAR: BEHIND}), "take the path")


def test_older_brokers_keep_the_low_bits(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0", {0: [*NEAR, *BEHIND]})
    found = recover(directory, era=era_of("1.1"), interval_bytes=100)
    assert found.cuts == []
    assert [path.name for path in directory.glob("*.log")] == [f"{0:020d}.log"]
