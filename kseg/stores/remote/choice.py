"""The topics of remote storage that a command reads, and its keys."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kseg.stores.remote.keys import PrivateKeys


@dataclass(frozen=True, slots=True)
class RemoteChoice:
    """``topics`` are globs, none for all topics. ``log_directories`` may hold local parts of the same partitions."""

    keys: PrivateKeys = field(default_factory=PrivateKeys)
    topics: tuple[str, ...] = ()
    log_directories: tuple[str, ...] = ()

    def wants(self, topic: str) -> bool:
        return is_wanted(topic, self.topics)


def is_wanted(topic: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(topic, glob) for glob in globs)
