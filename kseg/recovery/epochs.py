"""The leader epochs of a partition as Kafka's LeaderEpochFileCache keeps them."""

from collections.abc import Iterable

from kseg.sidefiles.leader_epochs import EpochEntry


class LeaderEpochs:
    """Entries (epoch, start offset), both rising."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
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
        while self.entries and (self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))

    def assign_from_batch(self, epoch: int, start_offset: int) -> None:
        """What a recovery makes of a batch: only epochs above the latest count."""
        if epoch >= 0 and (self.latest is None or epoch > self.latest):
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
