"""The state of a scan over the frames of a segment, which `kseg.kernel.scan.frames` keeps between calls."""

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.layout.headers import CRC_BYTES
from cython.cimports.kseg.kernel.layout.pointers import uint32s_out
from cython.cimports.kseg.kernel.native.prefixes import BLOCK_BYTES, Prefixes

from kseg.kernel.codecs.uninitialized import allocate


class FrameScan:
    """``is_07``: a file of 0.7; ``options``: WALK_RECORDS, SKIP_CHECKSUMS and LONG_RUNS combined by or, or 0.

    ``position``: the next byte to read; ``count``: frames written by the last call. ``budget``: bytes per call, 0: no
    limit; compressed bytes count eightfold, with LONG_RUNS twofold. ``records``: number of records that walks found
    right. ``last_offset`` of the frame before the position, -1 unknown. ``largest``: the largest plausible length of a
    frame with a wrong CRC; with 0, or without prefix CRCs, such a frame ends the scan.
    """

    def __init__(self, is_07=False, options=0, position=0):
        self.is_07, self.options = is_07, options
        self.position = position
        self.count = 0
        self.budget = self.records = self.largest = 0
        self.last_offset = -1
        self.resumed, self.unexpandable = 0, -1
        self.use_expansion(None)
        if not cython.compiled:
            self.prefixes = Prefixes()
        self.forget_prefixes()

    def use_expansion(self, expansion: ExpansionBuffer = None) -> None:
        """Sets the buffer for decompressed records, again after each extension; None: don't decompress."""
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
        """Uses prefix CRCs for long frames in the ``size`` bytes from ``anchor`` on."""
        self.prefix_entries = size // BLOCK_BYTES + 2
        self._castagnoli_crcs = allocate(CRC_BYTES * self.prefix_entries).cast("I")
        self._ieee_crcs = allocate(CRC_BYTES * self.prefix_entries).cast("I")
        self.prefixes.castagnoli.crcs = uint32s_out(self._castagnoli_crcs)
        self.prefixes.ieee.crcs = uint32s_out(self._ieee_crcs)
        self.prefixes.castagnoli.filled = self.prefixes.ieee.filled = 0
        self.prefixes.castagnoli.shifted = self.prefixes.ieee.shifted = 0
        self.prefixes.anchor = anchor

    def forget_prefixes(self) -> None:
        """Stops using prefix CRCs."""
        self.prefixes.anchor = -1
        self.prefix_entries = 0
        self._castagnoli_crcs = self._ieee_crcs = None

    @property
    def has_prefixes(self) -> bool:
        return self.prefixes.anchor >= 0

    def check(self, length: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Raises ValueError if a buffer of ``length`` bytes or the prefix tables end before ``end``."""
        if end > length or self.position < 0:
            raise ValueError("a buffer is too short")
        if self.prefixes.anchor >= 0 and (end - self.prefixes.anchor) // BLOCK_BYTES >= self.prefix_entries:
            raise ValueError("a prefix table is too short")
