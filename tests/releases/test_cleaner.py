"""The releases in which a rule of the cleaner changed."""

import pytest

from kseg.releases.recovery import era_of
from kseg.releases.release import HIGH_WATERMARK, NO_END, RANGE_END, CleanerRules


@pytest.mark.parametrize(
    ("rule", "last_without", "first_with"),
    [
        ("kept_end", (3, 9), (4, 0)),
        ("has_horizons", (3, 0), (3, 1)),
        ("heeds_high_watermark", (3, 0), (3, 1)),
        ("limits_records", (4, 3), (4, 4)),
    ],
)
def test_a_rule_begins_with_its_release(rule: str, last_without: tuple[int, int], first_with: tuple[int, int]) -> None:
    assert not getattr(CleanerRules(last_without), rule)
    assert getattr(CleanerRules(first_with), rule)


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
