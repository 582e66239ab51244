"""Features and records that releases accept; tests/broker/test_releases.py compares the table with their classes."""

import pytest

from kseg.releases.metadata import FEATURES, METADATA_VERSION, MetadataRules, releases_that_accept


@pytest.mark.parametrize(
    ("level", "features", "releases"),
    [
        (7, {}, ["3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]),
        (5, {}, ["3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"]),
        (21, {}, ["3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]),
        (27, {"share.version": 1}, ["4.1", "4.2", "4.3", "4.4"]),
        (27, {"share.version": 2}, ["4.4"]),
        (27, {"streams.version": 1, "confluent.own": 7}, ["4.2", "4.3", "4.4"]),
        (33, {}, ["4.4"]),
        (33, {"unheard.of": 1}, []),
        (34, {}, []),
    ],
)
def test_the_releases_that_accept_features(level: int, features: dict[str, int], releases: list[str]) -> None:
    assert releases_that_accept(level, features) == releases


def test_levels_and_releases_rise() -> None:
    for levels in FEATURES.values():
        assert list(levels) == sorted(levels)
        assert [each.highest for each in levels] == sorted(each.highest for each in levels)


def test_a_refusal_names_the_levels() -> None:
    found = list(MetadataRules((4, 1)).unknown_features(33, {"streams.version": 1}))
    assert found == [
        (METADATA_VERSION, "metadata.version is 33 (4.4-IV2); Kafka 4.1 accepts 7 (3.3-IV3) to 27 (4.1-IV1)"),
        ("streams.version", "Kafka 4.1 does not know the feature streams.version"),
    ]
