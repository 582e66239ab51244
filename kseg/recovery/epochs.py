"""The leader epochs of a partition as Kafka's LeaderEpochFileCache keeps them."""

from collections.abc import Iterable

from kseg.sidefiles.leader_epochs import EpochEntry


class LeaderEpochs:
    """Entries (epoch, start offset), both rising. ``is_strict``: an epoch that contradicts them is ignored (1.1 and
    older)."""

    def __init__(self, entries: Iterable[EpochEntry] = (), is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self.entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def latest(self) -> int | None:
        return self.entries[-1].epoch if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Adds an entry, unless it is that of the latest epoch; takes away those that it contradicts."""
        last = self.entries[-1] if self.entries else None
        if last is not None and last.epoch == epoch and start_offset >= last.start_offset:
            return
        if self._is_strict and last is not None and (epoch <= last.epoch or start_offset < last.start_offset):
            return
        while not self._is_strict and self.entries and self._contradicts(epoch, start_offset):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))

    def _contradicts(self, epoch: int, start_offset: int) -> bool:
        return self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset

    def assign_from_batch(self, epoch: int, start_offset: int, lowest: int = 0) -> None:
        """What a recovery makes of a batch: only epochs above the latest count, from ``lowest`` on."""
        if epoch >= lowest and (self.latest is None or epoch > self.latest):
            self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops the entries that start at or behind an offset."""
        if end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries = [entry for entry in self.entries if entry.start_offset < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops the entries before an offset; the epoch that is current there starts at it."""
        before = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if before:
            kept = [entry for entry in self.entries if entry.start_offset > start_offset]
            self.entries = [EpochEntry(before[-1].epoch, start_offset), *kept]

    def clear(self) -> None:
        self.entries.clear()
