"""The options of a verification as one typed object."""

import time
from dataclasses import dataclass, field

from kseg.findings.table import ERROR, WARNING
from kseg.limits import MAX_BATCH_BYTES
from kseg.logdir.server_properties import ServerProperties
from kseg.runtime.threads import usable_cores
from kseg.stores.remote.keys import RemoteChoice
from kseg.verification.check import LEVELS
from kseg.verification.report import Totals
from kseg.verification.settings import CheckSettings


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of `kseg verify`; None for an option that is not given.

    ``against``: another replica; ``manifest``: a file of digests; ``ignored``: codes of findings; ``fail_on``: the
    lowest severity that makes the exit status 1; ``remote``: topics and keys of remote storage; ``server``: the
    broker's own settings; ``takes_census``: facts about each partition are collected, for a table.
    """

    paths: tuple[str, ...]
    level: str = "full"
    against: str | None = None
    manifest: str | None = None
    ignored: tuple[str, ...] = ()
    fail_on: str = ERROR
    now_ms: int | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES
    is_07: bool = False
    is_live: bool = False
    jobs: int | None = None
    remote: RemoteChoice = field(default_factory=RemoteChoice)
    server: ServerProperties | None = None
    takes_census: bool = False

    @property
    def passes(self) -> int:
        """How often the segments are read."""
        return 1 + (self.manifest is not None) + (self.against is not None)

    @property
    def needs_only_headers(self) -> bool:
        """Whether nothing of an intact batch is read but its header, once its checksum is known to be right."""
        return self.level == "full" and self.passes == 1

    def settings(self) -> CheckSettings:
        """Returns the settings of the rules."""
        return CheckSettings(
            level=LEVELS.index(self.level),
            now_ms=int(time.time() * 1000) if self.now_ms is None else self.now_ms,
            jobs=self.jobs or usable_cores(),
            max_batch_bytes=self.max_batch_bytes,
            is_live=self.is_live,
            is_07=self.is_07,
            remote=self.remote,
            server=self.server,
            takes_census=self.takes_census,
        )

    def fails(self, totals: Totals) -> bool:
        """Whether findings of the severity ``fail_on`` or above were found."""
        return totals.errors > 0 or (self.fail_on == WARNING and totals.warnings > 0)
