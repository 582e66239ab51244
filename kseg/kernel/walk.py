"""Every record of a frame, checked and not kept: what a deep look at a segment spends its time on.

Records of a v2 batch that is compressed are laid out in a `Room` first (`kseg.kernel.expand`), whose size and context
may not be enough: then the caller extends it and goes on. A frame that is not found right here is not wrong for that:
gzip, snappy, compressed v0 and v1 messages and what is bad have to be opened by the caller.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.expand import expand_area
    from cython.cimports.kseg.kernel.frame_scan import NULL_KEYS, RECORDS_RIGHT, TOO_SMALL, FrameScan
    from cython.cimports.kseg.kernel.native import be32
    from cython.cimports.kseg.kernel.plain import is_legacy_plain, read_header
    from cython.cimports.kseg.kernel.records import pass_records
else:
    from kseg.kernel.expand import expand_area
    from kseg.kernel.frame_scan import NULL_KEYS, RECORDS_RIGHT, TOO_SMALL, FrameScan
    from kseg.kernel.native import be32
    from kseg.kernel.plain import is_legacy_plain, read_header
    from kseg.kernel.records import pass_records

COMPILED = cython.compiled

NO_ROOM = cython.declare(cython.Py_ssize_t, -2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def walk_frame(
    scan: FrameScan, p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, size: cython.longlong
) -> cython.int:
    """What a walk adds to the STATE of the frame at i, whose CRC is right: 0, RECORDS_RIGHT and NULL_KEYS.

    TOO_SMALL where the scan has not enough room: the caller extends it, or counts the frame as not found right.
    """
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    codec: cython.int
    held: cython.Py_ssize_t
    status: cython.int
    if p[i + 16] < 2:
        if not is_legacy_plain(p, i, size, p[i + 16]):
            return 0
        scan.records += 1
        return RECORDS_RIGHT | NULL_KEYS if be32(p, i + 18 + 8 * p[i + 16]) < 0 else RECORDS_RIGHT
    if size < 61:
        return 0
    if not cython.compiled:
        batch, cursor = [0] * 8, [0] * 8
    read_header(p, i, batch)
    if batch[0] > batch[6] + 1:  # more records than its offsets have room for
        return 0
    if batch[0] == 0:
        return RECORDS_RIGHT if size == 61 and not p[i + 22] & 7 else 0
    cursor[0] = 0
    cursor[4] = 0
    cursor[5] = -1
    cursor[6] = -1
    codec = p[i + 22] & 7
    if codec == 0:
        cursor[1] = i + 61
        status = pass_records(p, i + size, cursor, batch)
    elif cython.compiled and scan.out != cython.NULL:
        held = expand_area(codec, 2, p + i + 61, size - 61, scan.out, scan.room_bytes, scan.zstd)
        if held < 0:
            return TOO_SMALL if held == NO_ROOM else 0
        cursor[1] = 0
        status = pass_records(scan.out, held, cursor, batch)
    else:
        return 0
    if status != 0 or cursor[4] & 7:
        return 0
    if cursor[6] != batch[3]:  # the largest timestamp is not the one that the header tells
        return 0
    scan.records += batch[0]
    return RECORDS_RIGHT | NULL_KEYS if cursor[4] & 8 else RECORDS_RIGHT
