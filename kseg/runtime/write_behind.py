"""Starts writeback of a file while it is written, so that most of it is on disk before the final sync."""

from kseg.kernel.files.system import begin_writing

STEP_BYTES = 4 << 20


class WriteBehind:
    """Tracks the bytes written to the file of a descriptor. Without it the whole file would be written by the sync,
    while nothing else runs."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._begun = self._end = 0

    def wrote(self, size: int) -> None:
        """Records that ``size`` more bytes have been appended."""
        self._end += size
        if self._end - self._begun >= STEP_BYTES:
            begin_writing(self.descriptor, self._begun, self._end - self._begun)
            self._begun = self._end
