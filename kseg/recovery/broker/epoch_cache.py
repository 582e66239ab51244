"""The leader epochs of a partition, with the rules of Kafka's LeaderEpochFileCache."""

from collections.abc import Callable, Iterable

from kseg.formats.rows import int64s
from kseg.kernel.state import indexing as kernel
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.leader_epochs import EpochEntry, starting_at

_CHANGES_AT_ONCE = 64


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
        """Adds an entry, and removes those that it contradicts; if ``is_strict``, an entry that contradicts others is
        ignored instead. Does nothing if the latest entry has this epoch from this offset or a lower one on."""
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
        """Adds the epoch of a batch in a recovery: only if it is above the latest and at least ``lowest``."""
        if epoch >= lowest and (self.latest is None or epoch > self.latest):
            self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the entries that start at or after an offset."""
        if end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries = [entry for entry in self.entries if entry.start_offset < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Removes the entries before an offset; the epoch current there then starts at it."""
        self.entries = starting_at(self.entries, start_offset)

    def clear(self) -> None:
        self.entries.clear()


class EpochChanges:
    """Calls ``report`` with epoch and base offset of each v2 batch whose leader epoch differs from the previous
    batch's."""

    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report
        self._state, self._found = kernel.EpochState(), int64s(_CHANGES_AT_ONCE * kernel.CHANGE_WIDTH)

    def add(self, headers: HeaderRows) -> None:
        done = 0
        while done < headers.count:
            done = kernel.changes(headers.rows, done, headers.count, self._state, self._found)
            for i in range(self._state.found):
                epoch, start_offset, _ = self._found[i * kernel.CHANGE_WIDTH : (i + 1) * kernel.CHANGE_WIDTH]
                if epoch >= 0:
                    self._report(epoch, start_offset)
