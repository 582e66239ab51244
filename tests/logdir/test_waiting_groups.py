"""Groups that wait behind a last stable offset."""

import shutil
from pathlib import Path

import pytest

from kseg.logdir import waiting_groups as module
from kseg.logdir.waiting_groups import GroupOffset, group_offsets, waiting_groups

COMMITTED = Path(__file__).resolve().parents[2] / "testdata" / "kafka-4.3.1" / "committed"
HERE = ("orders", 0)


def test_offsets_are_those_that_groups_have_committed() -> None:
    found = group_offsets(str(COMMITTED))
    assert found is not None
    assert {each.group: each.offset for each in found[HERE]}.items() >= {
        "billing": 10,
        "audit": 14,
        "ahead": 99,
    }.items()


def test_groups_at_the_stable_offset_come_first_and_those_beyond_read_uncommitted_records() -> None:
    offsets = {HERE: [GroupOffset("b", 7, None), GroupOffset("c", 9, None), GroupOffset("a", 9, None)]}
    offsets[HERE] += [GroupOffset("beyond", 10, None)]
    assert [each.group for each in waiting_groups(offsets, HERE, 9) or ()] == ["a", "c", "b"]
    assert waiting_groups(offsets, ("orders", 1), 9) == []


def test_commits_for_an_earlier_topic_of_the_name_are_left_out() -> None:
    offsets = {HERE: [GroupOffset("new", 1, "id"), GroupOffset("old", 1, "other"), GroupOffset("none", 1, None)]}
    assert [each.group for each in waiting_groups(offsets, HERE, 9, "id") or ()] == ["new", "none"]
    assert len(waiting_groups(offsets, HERE, 9) or ()) == 3


def test_without_committed_offsets_nothing_is_known(tmp_path: Path) -> None:
    assert group_offsets(str(tmp_path)) is None
    assert group_offsets(str(tmp_path / "none")) is None
    assert waiting_groups(None, HERE, 9) is None
    assert waiting_groups({}, (None, None), 9) is None


def test_damage_hides_only_what_it_destroys(tmp_path: Path) -> None:
    shutil.copytree(COMMITTED, tmp_path / "logs")
    log = max((tmp_path / "logs").glob("__consumer_offsets-*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[-30:-20] = bytes(10)
    log.write_bytes(data)
    found = group_offsets(str(tmp_path / "logs"))
    assert found is not None
    assert "billing" in {each.group for each in found[HERE]}


def test_no_more_is_read_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    assert group_offsets(str(COMMITTED)) is None
