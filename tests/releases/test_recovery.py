"""The releases in which a rule changed: each rule of loading and recovery in every release that kseg knows."""

import pytest

from kseg.releases.recovery import (
    JAVA_ORDER,
    SCALA_2_12_ORDER,
    SCALA_2_13_ORDER,
    SWAP_IGNORED,
    SWAP_LOG_RENAMED,
    SWAP_RECOVERED,
    SWAP_RENAMED,
    Era,
    era_of,
)
from kseg.releases.release import (
    HIGH_WATERMARK,
    LOG_START,
    NO_END,
    RANGE_END,
    RELEASES,
    SIZE,
    TIME,
    CleanerRules,
    Release,
    ReleaseRule,
    RetentionRules,
)

DAY_MS = 24 * 3600 * 1000

SINCE = {
    "has_time_index": (0, 10, 1), "has_producers": (0, 11), "has_epochs": (0, 11), "has_topic_ids": (2, 8),
    "checks_offset_range": (2, 0), "refuses_corrupt_tails": (0, 10, 2), "searches_by_first_offset": (4, 1),
    "drops_log_below_start": (2, 2), "deletes_leftovers": (0, 8, 1), "marks_splits": (2, 0),
    "snapshots_before_scan": (1, 0), "keeps_snapshot_of_each_segment": (2, 8), "learns_epochs_while_loading": (3, 0),
    "starts_epochs_at_checkpoint": (3, 0), "refuses_index_versions": (4, 4), "leaves_metadata_indexes_open": (4, 4),
}  # fmt: skip
BEFORE = {
    "is_07": (0, 8), "uses_first_offset": (2, 0), "scans_last_only": (0, 8, 1), "bounds_replay_of_each_segment": (2, 3),
    "deletes_index_swaps": (1, 1), "refuses_corrupt_indexes": (0, 9), "refuses_lost_indexes": (0, 8, 1),
    "checks_indexes": (2, 3), "empty_index_is_at_base": (2, 0), "drops_producers_below_start": (2, 4),
    "indexes_empty_aborts": (2, 8), "snapshots_each_replayed_segment": (2, 0), "has_topic_formats": (3, 0),
    "has_strict_epochs": (2, 0),
}  # fmt: skip
BETWEEN = {
    "ignores_lost_indexes": ((1, 1), (2, 3)), "skips_old_formats": ((2, 0), (3, 0)),
    "deletes_epochs_of_old_formats": ((2, 1), (3, 0)), "lowest_scanned_epoch": ((2, 1), (2, 6)),
}  # fmt: skip
VALUES = {
    "swap_handling": [
        ((0, 7), SWAP_IGNORED),
        ((0, 8, 1), SWAP_LOG_RENAMED),
        ((0, 9), SWAP_RECOVERED),
        ((3, 0), SWAP_RENAMED),
    ],
    "marker_effect": [((0, 7), 0), ((1, 0), 1), ((2, 4), 2)],
    "snapshot_order": [((0, 7), SCALA_2_12_ORDER), ((2, 6), SCALA_2_13_ORDER), ((3, 5), JAVA_ORDER)],
    "expiration_ms": [((0, 7), 7 * DAY_MS), ((3, 4), DAY_MS)],
    "max_message_bytes": [((0, 7), (1 << 31) - 1), ((0, 8, 1), 1_000_012), ((0, 11), None)],
}
"""The first release of each value."""


@pytest.mark.parametrize("rule", SINCE)
def test_a_rule_begins_with_its_release(rule: str) -> None:
    assert [getattr(Era(release), rule) for release in RELEASES] == [release >= SINCE[rule] for release in RELEASES]


@pytest.mark.parametrize("rule", BEFORE)
def test_a_rule_ends_before_its_release(rule: str) -> None:
    assert [getattr(Era(release), rule) for release in RELEASES] == [release < BEFORE[rule] for release in RELEASES]


@pytest.mark.parametrize("rule", BETWEEN)
def test_a_rule_was_there_for_some_releases(rule: str) -> None:
    first, end = BETWEEN[rule]
    assert [bool(getattr(Era(release), rule)) for release in RELEASES] == [first <= one < end for one in RELEASES]


@pytest.mark.parametrize("rule", VALUES)
def test_a_value_begins_with_its_release(rule: str) -> None:
    wanted = [[value for first, value in VALUES[rule] if first <= release][-1] for release in RELEASES]
    assert [getattr(Era(release), rule) for release in RELEASES] == wanted


def test_every_rule_is_here() -> None:
    members = [*vars(Release).items(), *vars(Era).items()]
    rules = {name for name, member in members if isinstance(member, property | ReleaseRule)} - {"name"}
    assert rules == {*SINCE, *BEFORE, *BETWEEN, *VALUES}


@pytest.mark.parametrize(
    ("rules", "rule", "last_without", "first_with"),
    [
        (CleanerRules, "kept_end", (3, 9), (4, 0)),
        (CleanerRules, "has_horizons", (3, 0), (3, 1)),
        (CleanerRules, "heeds_high_watermark", (3, 0), (3, 1)),
        (CleanerRules, "limits_records", (4, 3), (4, 4)),
        (RetentionRules, "renames", (0, 8, 0), (0, 8, 1)),
        (RetentionRules, "has_time_index", (0, 10, 0), (0, 10, 1)),
        (RetentionRules, "has_log_start", (0, 10, 2), (0, 11, 0)),
        (RetentionRules, "starts_compacted_logs", (2, 0), (2, 1)),
        (RetentionRules, "has_snapshot_of_each_segment", (2, 7), (2, 8)),
        (RetentionRules, "renames_snapshots", (2, 8), (3, 0)),
    ],
)
def test_a_rule_of_cleaner_or_retention_begins_with_its_release(
    rules: type[Release], rule: str, last_without: tuple[int, ...], first_with: tuple[int, ...]
) -> None:
    assert not getattr(rules(last_without), rule)
    assert getattr(rules(first_with), rule)


def test_the_kept_end_is_the_high_watermark_since_4_4() -> None:
    found = [CleanerRules(release).kept_end for release in ((3, 9), (4, 3), (4, 4))]
    assert found == [NO_END, RANGE_END, HIGH_WATERMARK]


def test_a_rule_is_backported_to_a_bug_fix_release_of_an_older_line() -> None:
    versions = ("4.1.2", "4.2.0", "4.2.1", "4.2.2", "4.2.3", "4.2", "4.3.1", "4.4.0")
    limited = [version for version in versions if CleanerRules(era_of(version).release).limits_records]
    assert limited == ["4.2.2", "4.2.3", "4.2", "4.4.0"]


def test_messages_keep_their_format_up_to_3_9() -> None:
    assert CleanerRules((3, 9)).keeps_format
    assert not CleanerRules((4, 0)).keeps_format


def test_older_rules_are_not_known() -> None:
    with pytest.raises(ValueError, match=r"known from 2\.3 on"):
        CleanerRules((2, 2))


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
