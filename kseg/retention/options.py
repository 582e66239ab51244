"""The options of retention as one typed object."""

from dataclasses import dataclass

from kseg.logdir.server_properties import ServerProperties
from kseg.releases.release import NEWEST
from kseg.retention.settings import Asked


@dataclass(frozen=True, slots=True)
class RetainOptions:
    """The options of `kseg retain`; times in ms, None for an option that is not given.

    ``retention_ms``, ``retention_bytes``: -1 for no limit. ``log_start_offset``: records below it are deleted.
    ``release``: the release of Kafka whose rules apply. ``explains``: each segment is explained, and nothing changes.
    ``counts_records``: the records of the segments are counted.
    """

    retention_ms: int | None = None
    retention_bytes: int | None = None
    policy: str | None = None
    log_start_offset: int | None = None
    topics: tuple[str, ...] = ()
    now_ms: int | None = None
    keeps_active: bool = False
    explains: bool = False
    counts_records: bool = False
    release: tuple[int, ...] = NEWEST
    server: ServerProperties | None = None

    @property
    def asked(self) -> Asked:
        """The settings of topics that options give."""
        return Asked(self.retention_ms, self.retention_bytes, self.policy)
