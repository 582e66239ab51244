"""The releases in which a rule of retention changed."""

import pytest

from kseg.releases.release import LOG_START, SIZE, TIME, RetentionRules


@pytest.mark.parametrize(
    ("rule", "last_without", "first_with"),
    [
        ("renames", (0, 8, 0), (0, 8, 1)),
        ("has_time_index", (0, 10, 0), (0, 10, 1)),
        ("has_log_start", (0, 10, 2), (0, 11, 0)),
        ("starts_compacted_logs", (2, 0), (2, 1)),
        ("has_snapshot_of_each_segment", (2, 7), (2, 8)),
        ("renames_snapshots", (2, 8), (3, 0)),
    ],
)
def test_a_rule_begins_with_its_release(rule: str, last_without: tuple[int, ...], first_with: tuple[int, ...]) -> None:
    assert not getattr(RetentionRules(last_without), rule)
    assert getattr(RetentionRules(first_with), rule)


@pytest.mark.parametrize(
    ("release", "order"),
    [
        ((0, 10, 2), (TIME, SIZE)),
        ((0, 11, 0), (TIME, SIZE, LOG_START)),
        ((2, 8), (TIME, SIZE, LOG_START)),
        ((3, 0), (LOG_START, SIZE, TIME)),
    ],
)
def test_the_order_of_the_rules(release: tuple[int, ...], order: tuple[str, ...]) -> None:
    assert RetentionRules(release).order == order


def test_only_0_7_has_kafka_files() -> None:
    assert RetentionRules((0, 7)).is_07
    assert not RetentionRules((0, 8, 0)).is_07
