"""The state of a scan over the frames of a segment, kept between calls, and the check of a frame's checksum by it."""

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer, use_expansion

from kseg.kernel.files.system import allocate

# A checksum is checked in a time that does not depend on the length that the frame claims.
# CRCs of suspect frames are computed from prefix CRCs: a table with one entry for each 256 bytes from an anchor on,
# filled on demand. A check of any range then costs the same. Reading stays linear in the size of the file, even if
# every byte begins a header that claims the rest of the file.

native_setup()


MAX_DIRECT_BYTES = cython.declare(cython.Py_ssize_t, 1024)


def crc_of(castagnoli, crc, p, start, end):
    return crc32c(crc, p, start, end) if castagnoli else crc32(crc, p, start, end)


def fill(table, castagnoli, p, anchor, x):
    """Fills the table up to the block that contains x. Returns the number of that block."""
    n: cython.Py_ssize_t = table.filled
    k: cython.Py_ssize_t = (x - anchor) // BLOCK_BYTES
    while n <= k:
        at = anchor + (n - 1) * BLOCK_BYTES
        table.crcs[n] = crc_of(castagnoli, table.crcs[n - 1], p, at, at + BLOCK_BYTES)
        n += 1
    table.filled = n
    return k


def prefix_through(table, castagnoli, p, anchor, x, is_end):
    """Returns the CRC-32C or CRC-32 of the bytes from the anchor to x, the start or the end of the checked range."""
    if table.filled == 0:
        table.filled = 1
        table.crcs[0] = 0
        table.start = table.end = -1
    near = table.end if is_end else table.start
    if 0 <= near <= x <= near + BLOCK_BYTES:
        crc = crc_of(castagnoli, table.end_crc if is_end else table.start_crc, p, near, x)
    else:
        k = fill(table, castagnoli, p, anchor, x)
        crc = crc_of(castagnoli, table.crcs[k], p, anchor + k * BLOCK_BYTES, x)
    if is_end:
        table.end = x
        table.end_crc = crc
    else:
        table.start = x
        table.start_crc = crc
    return crc


def crc_is_right(prefixes, p, i, after, v07):
    """Whether the CRC stored in the frame at i, which ends at ``after``, is right. Its magic must be known."""
    castagnoli: cython.bint = not v07 and p[i + ENTRY_MAGIC] == MAGIC_V2
    table: cython.pointer[PrefixTable]
    if castagnoli:
        start = i + V2_ATTRIBUTES
        stored = stored_crc(p, i + V2_CRC)
    elif v07:
        start = i + V07_MIN_BYTES + p[i + V07_MAGIC]
        stored = stored_crc(p, start - CRC_BYTES)
    else:
        start = i + ENTRY_MAGIC
        stored = stored_crc(p, i + LEGACY_CRC)
    if prefixes.anchor < 0 or i < prefixes.anchor or after - start <= MAX_DIRECT_BYTES:
        return stored == crc_of(castagnoli, 0, p, start, after)
    # Behind foreign bytes most headers are right: these bytes are not read for one, if as many were searched before.
    if prefixes.direct_bytes + after - start <= i - prefixes.anchor:
        prefixes.direct_bytes += after - start
        return stored == crc_of(castagnoli, 0, p, start, after)
    if castagnoli:
        table = cython.address(prefixes.castagnoli)
    else:
        table = cython.address(prefixes.ieee)
    before = prefix_through(table, castagnoli, p, prefixes.anchor, start, False)
    through = prefix_through(table, castagnoli, p, prefixes.anchor, after, True)
    if castagnoli:
        return stored == crc32c_range(before, through, after - start)
    return stored == crc32_range(before, through, after - start)


class FrameScan:
    """``is_07``: a file of 0.7; ``options``: WALK_RECORDS, SKIP_CHECKSUMS, LONG_RUNS and ONLY_USUAL
    combined by or, or 0.

    ``position``: the next byte to read; ``count``: frames written by the last call. ``budget``: bytes per call, 0: no
    limit; compressed bytes count eightfold, with LONG_RUNS twofold. ``records``: number of records that walks found
    right. ``last_offset`` of the frame before the position, -1 unknown. ``largest``: the largest plausible length of a
    frame with a wrong CRC; with 0, or without prefix CRCs, such a frame ends the scan. ``largest_offset``: a search
    takes no frame with a larger one, which a checksum does not cover.
    """

    def __init__(self, is_07=False, options=0, position=0):
        self.is_07, self.options = is_07, options
        self.position = position
        self.count = 0
        self.budget = self.records = self.largest = 0
        self.last_offset = -1
        self.largest_offset = (1 << 63) - 1
        self.resumed, self.unexpandable = 0, -1
        self.use_expansion(None)
        self.forget_prefixes()

    def use_expansion(self, expansion: ExpansionBuffer = None) -> None:
        """Sets the buffer for decompressed records, again after each extension; None: don't decompress."""
        use_expansion(cython.address(self.expansion), expansion)

    def use_prefixes(self, anchor: cython.Py_ssize_t, size: cython.Py_ssize_t) -> None:
        """Uses prefix CRCs for long frames in the ``size`` bytes from ``anchor`` on."""
        self.prefix_entries = size // BLOCK_BYTES + 2
        self._castagnoli_crcs = allocate(CRC_BYTES * self.prefix_entries).cast("I")
        self._ieee_crcs = allocate(CRC_BYTES * self.prefix_entries).cast("I")
        self.prefixes.castagnoli.crcs = uint32s_out(self._castagnoli_crcs)
        self.prefixes.ieee.crcs = uint32s_out(self._ieee_crcs)
        self.prefixes.castagnoli.filled = self.prefixes.ieee.filled = 0
        self.prefixes.anchor = anchor
        self.prefixes.direct_bytes = 0

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
