"""The releases in which a rule of the cleaner changed."""

import pytest

from kseg.releases.cleaner import CleanerRules


@pytest.mark.parametrize(
    ("rule", "last_without", "first_with"),
    [("keeps_log_end", (4, 0), (4, 1)), ("has_horizons", (3, 0), (3, 1)), ("heeds_high_watermark", (3, 0), (3, 1))],
)
def test_a_rule_begins_with_its_release(rule: str, last_without: tuple[int, int], first_with: tuple[int, int]) -> None:
    assert not getattr(CleanerRules(last_without), rule)
    assert getattr(CleanerRules(first_with), rule)


def test_messages_keep_their_format_up_to_3_9() -> None:
    assert CleanerRules((3, 9)).keeps_format
    assert not CleanerRules((4, 0)).keeps_format


def test_older_rules_are_not_known() -> None:
    with pytest.raises(ValueError, match=r"known from 2\.3 on"):
        CleanerRules((2, 2))
