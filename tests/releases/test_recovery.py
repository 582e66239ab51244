"""The releases in which a rule changed: each rule of loading and recovery in every release that kseg knows."""

import pytest

from kseg.releases import release as rules_of
from kseg.releases.release import RELEASES, CleanerRules, Era, Release, ReleaseRule, RetentionRules, era_of

DAY_MS = 24 * 3600 * 1000

TURNS: dict[type[Release], dict[str, list[tuple[int, ...]]]] = {
    Era: {
        "has_timestamps": [(0, 10, 0)], "has_lz4": [(0, 8, 2)], "has_zstd": [(2, 1)],
        "has_time_index": [(0, 10, 1)], "has_producers": [(0, 11)], "has_epochs": [(0, 11)], "has_topic_ids": [(2, 8)],
        "checks_offset_range": [(2, 0)], "refuses_corrupt_tails": [(0, 10, 2)], "searches_by_first_offset": [(4, 1)],
        "drops_log_below_start": [(2, 2)], "deletes_leftovers": [(0, 8, 1)], "marks_splits": [(2, 0)],
        "snapshots_before_scan": [(1, 0)], "keeps_snapshot_of_each_segment": [(2, 8)],
        "learns_epochs_while_loading": [(3, 0)], "starts_epochs_at_checkpoint": [(3, 0)],
        "refuses_index_versions": [(4, 4)], "leaves_metadata_indexes_open": [(4, 4)],
        "is_07": [(0, 7), (0, 8)], "uses_first_offset": [(0, 7), (2, 0)], "scans_last_only": [(0, 7), (0, 8, 1)],
        "bounds_replay_of_each_segment": [(0, 7), (2, 3)], "deletes_index_swaps": [(0, 7), (1, 1)],
        "refuses_corrupt_indexes": [(0, 7), (0, 9)], "refuses_lost_indexes": [(0, 7), (0, 8, 1)],
        "checks_indexes": [(0, 7), (2, 3)], "empty_index_is_at_base": [(0, 7), (2, 0)],
        "drops_producers_below_start": [(0, 7), (2, 4)], "indexes_empty_aborts": [(0, 7), (2, 8)],
        "snapshots_each_replayed_segment": [(0, 7), (2, 0)], "has_topic_formats": [(0, 7), (3, 0)],
        "has_strict_epochs": [(0, 7), (2, 0)],
        "ignores_lost_indexes": [(1, 1), (2, 3)], "skips_old_formats": [(2, 0), (3, 0)],
        "truncates_by_epochs_of_old_formats": [(0, 11), (2, 2)],
        "deletes_epochs_of_old_formats": [(2, 1), (3, 0)], "lowest_scanned_epoch": [(2, 1), (2, 6)],
    },
    RetentionRules: {
        "is_07": [(0, 7), (0, 8)], "renames": [(0, 8, 1)], "has_time_index": [(0, 10, 1)], "has_log_start": [(0, 11)],
        "starts_compacted_logs": [(2, 1)], "has_snapshot_of_each_segment": [(2, 8)], "renames_snapshots": [(3, 0)],
    },
    CleanerRules: {
        "has_horizons": [(3, 1)], "heeds_high_watermark": [(3, 1)], "limits_records": [(4, 2, 2), (4, 3), (4, 4)],
        "keeps_format": [(2, 3), (4, 0)],
    },
}  # fmt: skip
"""The releases from which on a rule holds, and no longer holds, in turn."""

VALUES = {
    "swap_handling": [
        ((0, 7), rules_of.SWAP_IGNORED),
        ((0, 8, 1), rules_of.SWAP_LOG_RENAMED),
        ((0, 9), rules_of.SWAP_RECOVERED),
        ((3, 0), rules_of.SWAP_RENAMED),
    ],
    "marker_effect": [((0, 7), 0), ((1, 0), 1), ((2, 4), 2)],
    "snapshot_order": [
        ((0, 7), rules_of.SCALA_2_12_ORDER),
        ((2, 6), rules_of.SCALA_2_13_ORDER),
        ((3, 5), rules_of.JAVA_ORDER),
    ],
    "expiration_ms": [((0, 7), 7 * DAY_MS), ((3, 4), DAY_MS)],
    "max_message_bytes": [((0, 7), (1 << 31) - 1), ((0, 8, 1), 1_000_012), ((0, 11), None)],
    "kept_end": [((2, 3), rules_of.NO_END), ((4, 0), rules_of.RANGE_END), ((4, 4), rules_of.HIGH_WATERMARK)],
    "order": [
        ((0, 7), (rules_of.TIME, rules_of.SIZE)),
        ((0, 11), (rules_of.TIME, rules_of.SIZE, rules_of.LOG_START)),
        ((3, 0), (rules_of.LOG_START, rules_of.SIZE, rules_of.TIME)),
    ],
}
"""The first release of each value."""


def releases_of(rules: type[Release]) -> list[tuple[int, ...]]:
    return [release for release in RELEASES if rules is not CleanerRules or release >= (2, 3)]


@pytest.mark.parametrize(("rules", "rule"), [(rules, rule) for rules, turns in TURNS.items() for rule in turns])
def test_a_rule_begins_and_ends_with_its_release(rules: type[Release], rule: str) -> None:
    for release in releases_of(rules):
        turns = sum(turn <= release for turn in TURNS[rules][rule])
        assert bool(getattr(rules(release), rule)) == (turns % 2 == 1), release


@pytest.mark.parametrize("rule", VALUES)
def test_a_value_begins_with_its_release(rule: str) -> None:
    rules = {"kept_end": CleanerRules, "order": RetentionRules}.get(rule, Era)
    wanted = [[value for first, value in VALUES[rule] if first <= release][-1] for release in releases_of(rules)]
    assert [getattr(rules(release), rule) for release in releases_of(rules)] == wanted


def test_every_rule_is_here() -> None:
    for rules, turns in TURNS.items():
        members = [*vars(Release).items(), *vars(rules).items()]
        found = {name for name, member in members if isinstance(member, property | ReleaseRule)} - {"name"}
        assert found - turns.keys() - VALUES.keys() <= ({"is_07", "has_time_index"} if rules is CleanerRules else set())


def test_a_rule_is_backported_to_a_bug_fix_release_of_an_older_line() -> None:
    versions = ("4.1.2", "4.2.0", "4.2.1", "4.2.2", "4.2.3", "4.2", "4.3.1", "4.4.0")
    limited = [version for version in versions if CleanerRules(era_of(version).release).limits_records]
    assert limited == ["4.2.2", "4.2.3", "4.2", "4.4.0"]


def test_older_rules_are_not_known() -> None:
    with pytest.raises(ValueError, match=r"known from 2\.3 on"):
        CleanerRules((2, 2))
