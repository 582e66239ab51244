"""Which levels of features, and which records, each release accepts in a cluster's metadata log.

Source: QuorumFeatures, MetadataVersion, MetadataRecordType and ControlRecordType of each release, read from its classes
by tests/broker/ReleaseLevels.java.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kseg.releases.release import NEWEST, RELEASES, Release, ReleaseRule

OLDEST = (3, 3)
"""The first release whose rules are known; before it, KRaft was a preview."""

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"

METADATA_VERSIONS = dict(
    enumerate(
        "3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 "
        "3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 "
        "4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2 4.5-IV0".split(),
        1,
    )
)
"""Names of the levels of the feature metadata.version."""

_OF_OTHER_MAKERS = "confluent."


class Levels(NamedTuple):
    """The levels of a feature that releases accept, from ``since`` on."""

    since: tuple[int, ...]
    lowest: int
    highest: int


FEATURES: Mapping[str, tuple[Levels, ...]] = {
    METADATA_VERSION: (
        Levels((3, 3), 1, 7), Levels((3, 4), 1, 8), Levels((3, 5), 1, 11), Levels((3, 6), 1, 14), Levels((3, 7), 1, 19),
        Levels((3, 8), 1, 20), Levels((3, 9), 1, 21), Levels((4, 0), 7, 25), Levels((4, 1), 7, 27),
        Levels((4, 2), 7, 29), Levels((4, 3), 7, 30), Levels((4, 4), 7, 33),
    ),
    KRAFT_VERSION: (Levels((3, 9), 0, 1),),
    "transaction.version": (Levels((4, 0), 0, 2),),
    "group.version": (Levels((4, 0), 0, 1),),
    ELR_VERSION: (Levels((4, 0), 0, 1),),
    "share.version": (Levels((4, 1), 0, 1), Levels((4, 4), 0, 2)),
    "streams.version": (Levels((4, 2), 0, 1),),
}  # fmt: skip

RECORD_VERSIONS: Mapping[int, tuple[tuple[tuple[int, ...], int], ...]] = {
    0: (((3, 3), 1), ((3, 4), 2), ((3, 7), 3), ((4, 3), 4)),
    3: (((3, 3), 0), ((3, 7), 2)),
    5: (((3, 3), 0), ((3, 7), 2)),
    17: (((3, 3), 1), ((3, 7), 2), ((4, 3), 3)),
    21: (((3, 4), 0),),
    22: (((3, 5), 0),),
    **dict.fromkeys((23, 24, 25, 26), (((3, 6), 0),)),
    27: (((3, 7), 0),),
    28: (((4, 0), 0),),
    29: (((4, 4), 0),),
}
"""Of each type of record the newest version, from a release on; other types have version 0 only, in each release."""


@dataclass(frozen=True, slots=True)
class MetadataRules(Release):
    """The rules of a release for a metadata log."""

    has_voter_records = ReleaseRule(since=(3, 8))
    """Control records KRAFT_VERSION and KRAFT_VOTERS are known (KIP-853)."""
    reads_bootstrap = ReleaseRule(until=(4, 4))
    """Each start reads bootstrap.checkpoint; later its records are in the first snapshot of the log (KIP-1170)."""
    has_voted_directory = ReleaseRule(since=(3, 9))
    """quorum-state may have version 1."""

    @property
    def are_known(self) -> bool:
        return self.release >= OLDEST

    def levels(self, feature: str) -> Levels | None:
        """Returns the levels of a feature; None if the release does not know it."""
        return next((each for each in reversed(FEATURES.get(feature, ())) if each.since <= self.release), None)

    def unknown_features(self, metadata_version: int | None, features: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Yields each feature with a level that the release does not accept, and a sentence; ``features``: the others
        than metadata.version."""
        if metadata_version is not None and (text := self._refusal(METADATA_VERSION, metadata_version)):
            yield METADATA_VERSION, text
        for name, level in sorted(features.items()):
            if not name.startswith(_OF_OTHER_MAKERS) and (text := self._refusal(name, level)):
                yield name, text

    def _refusal(self, feature: str, level: int) -> str:
        known = self.levels(feature)
        if known is None:
            return f"Kafka {self.name} does not know the feature {feature}" if level else ""
        if known.lowest <= level <= known.highest:
            return ""
        lowest, highest = _named(feature, known.lowest), _named(feature, known.highest)
        return f"{feature} is {_named(feature, level)}; Kafka {self.name} accepts {lowest} to {highest}"

    def accepts_record(self, api_key: int, version: int) -> bool:
        """Whether the release can read a record."""
        versions = RECORD_VERSIONS.get(api_key, ((OLDEST, 0),))
        return version <= max((newest for since, newest in versions if since <= self.release), default=-1)


def _named(feature: str, level: int) -> str:
    name = METADATA_VERSIONS.get(level) if feature == METADATA_VERSION else None
    return str(level) if name is None else f"{level} ({name})"


NEWEST_RULES = MetadataRules(NEWEST)


def releases_that_accept(metadata_version: int | None, features: Mapping[str, int]) -> list[str]:
    """Returns the names of the releases, in order, that accept the levels of all features."""
    rules = (MetadataRules(release) for release in RELEASES if release >= OLDEST and len(release) == 2)
    return [each.name for each in rules if not any(each.unknown_features(metadata_version, features))]
