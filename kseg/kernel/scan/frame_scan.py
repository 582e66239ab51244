"""How following the frames of a segment stands: what `kseg.kernel.scan.frames` keeps from call to call."""

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.layout.pointers import uint32s_out
from cython.cimports.kseg.kernel.native.prefixes import BLOCK_BYTES, Prefixes

from kseg.kernel.codecs.uninitialized import allocate


class FrameScan:
    """``is_07``: a file of 0.7; ``manner``: WALK_RECORDS, BELIEVE_CHECKSUMS and LONG_RUNS or'ed together, 0 for none.

    ``position`` to read from next; ``count`` of frames that the last call wrote. ``budget`` of bytes a call, compressed
    ones eightfold (LONG_RUNS: twice), 0: none. ``records`` found right by walks. ``last_offset`` of the frame before
    the position, -1 unknown. ``largest``: bytes that a length may claim where the CRC is wrong; 0, or no prefix CRCs:
    such a frame ends a scan.
    """

    def __init__(self, is_07=False, manner=0, position=0):
        self.is_07, self.manner = is_07, manner
        self.position = position
        self.count = 0
        self.budget = self.records = self.largest = 0
        self.last_offset = -1
        self.resumed, self.given_up = 0, -1
        self.use_expansion(None)
        if not cython.compiled:
            self.prefixes = Prefixes()
        self.forget_prefixes()

    def use_expansion(self, expansion: ExpansionBuffer = None) -> None:
        """Expands compressed records into this buffer, until it is extended; None: not at all."""
        if cython.compiled:
            if expansion is None:
                self.out, self.out_bytes, self.zstd = cython.NULL, 0, cython.NULL
            else:
                self.out, self.out_bytes, self.zstd = (
                    cython.address(expansion.out[0]),
                    expansion.capacity,
                    expansion.zstd,
                )
        else:
            self.out, self.out_bytes, self.zstd = None, 0, None

    def use_prefixes(self, anchor: cython.Py_ssize_t, size: cython.Py_ssize_t) -> None:
        """From now on CRCs of long frames in the ``size`` bytes from ``anchor`` on come from prefix CRCs."""
        self.prefix_entries = size // BLOCK_BYTES + 2
        self._tables = [allocate(4 * self.prefix_entries).cast("I") for _ in range(2)]
        self.prefixes.castagnoli.crcs, self.prefixes.ieee.crcs = (
            uint32s_out(self._tables[0]),
            uint32s_out(self._tables[1]),
        )
        self.prefixes.castagnoli.filled = self.prefixes.ieee.filled = 0
        self.prefixes.castagnoli.shifted = self.prefixes.ieee.shifted = 0
        self.prefixes.anchor = anchor

    def forget_prefixes(self) -> None:
        """Each CRC is computed by itself from now on."""
        self.prefixes.anchor = -1
        self.prefix_entries = 0
        self._tables = None

    @property
    def has_prefixes(self) -> bool:
        return self.prefixes.anchor >= 0

    def check(self, length: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Raises ValueError where a buffer of ``length`` bytes ends before ``end``, or the prefix tables do."""
        if end > length or self.position < 0:
            raise ValueError("a buffer is too short")
        if self.prefixes.anchor >= 0 and (end - self.prefixes.anchor) // BLOCK_BYTES >= self.prefix_entries:
            raise ValueError("a prefix table is too short")
