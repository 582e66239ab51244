"""A file that is written from its start to its end and then synced, of which the system has most on disk by then."""

from kseg.kernel.write_behind import begin_writing

STEP_BYTES = 4 << 20


class WriteBehind:
    """Is told of what a descriptor was given: without it, all of a file is written when it is synced, while nothing
    else goes on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._begun = self._end = 0

    def wrote(self, size: int) -> None:
        """So many bytes behind those before."""
        self._end += size
        if self._end - self._begun >= STEP_BYTES:
            begin_writing(self._descriptor, self._begun, self._end - self._begun)
            self._begun = self._end
