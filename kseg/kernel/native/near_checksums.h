/* A search for frames that rules out candidates whose checksum is wrong, as computed from prefix CRCs near the last
 * computed ones. Damaged data with a candidate every few bytes needs millions of these. For all other frames
 * kseg/kernel/scan/frame_scan.py does the same.
 */
#ifndef KSEG_NEAR_CHECKSUMS_H
#define KSEG_NEAR_CHECKSUMS_H

#include "checksum.h"
#include "prefixes.h"
#include "search.h"

enum { KSEG_MAX_DIRECT_BYTES = 1024 };

#ifndef KSEG_ALWAYS_INLINE
#define KSEG_ALWAYS_INLINE static inline
#endif

/* The CRC through `to`, from that through `from`. */
KSEG_ALWAYS_INLINE uint32_t kseg_crc_on(int castagnoli, uint32_t crc, const unsigned char *p, ptrdiff_t from,
                                        ptrdiff_t to) {
    const unsigned char *start = p + from;
    size_t n = (size_t)(to - from);
    return ~(castagnoli ? kseg_best->crc32c(~crc, start, n) : kseg_best->crc32(~crc, start, n));
}

/* Whether `stored` is not the CRC of the bytes [start, after); also 0 if no near prefix CRCs are known. */
KSEG_ALWAYS_INLINE int kseg_is_wrong(int castagnoli, const unsigned char *p, ptrdiff_t start, ptrdiff_t after,
                                     uint32_t stored, ptrdiff_t anchor, struct kseg_prefix_table *table) {
    ptrdiff_t block = (after - anchor) / KSEG_PREFIX_BLOCK;
    uint32_t before, through;
    if (table->filled == 0 || table->start < 0 || start < table->start || start - table->start > KSEG_PREFIX_BLOCK)
        return 0;
    if (table->end == after)
        through = table->end_crc;
    else if (0 <= table->end && table->end < after && after - table->end <= KSEG_PREFIX_BLOCK)
        through = kseg_crc_on(castagnoli, table->end_crc, p, (ptrdiff_t)table->end, after);
    else if (block < table->filled)
        through = kseg_crc_on(castagnoli, table->crcs[block], p, anchor + block * KSEG_PREFIX_BLOCK, after);
    else
        return 0;
    before = kseg_crc_on(castagnoli, table->start_crc, p, (ptrdiff_t)table->start, start);
    table->start = start;
    table->start_crc = before;
    table->end = after;
    table->end_crc = through;
    before = kseg_best->shift(castagnoli ? &kseg_castagnoli : &kseg_ieee, before, (uint64_t)(after - start));
    return stored != (through ^ before);
}

/* The first position in [i, stop) with a plausible frame; else stop. Its checksum is verified only where that is as
 * cheap. From each position on there are at least 17 bytes (0.7: 5) before end. The frames that this search returned
 * before were not intact. */
static inline ptrdiff_t kseg_next_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                            struct kseg_search *search, struct kseg_prefixes *prefixes) {
    for (;; i++) {
        ptrdiff_t start, after;
        int is_v2;
        i = kseg_next_of(p, i, stop, end, v07, search);
        if (i >= stop || prefixes->anchor < 0 || i < prefixes->anchor) return i;
        after = i + (ptrdiff_t)kseg_frame_bytes(p, i, end, v07);
        is_v2 = !v07 && p[i + KSEG_ENTRY_MAGIC] == KSEG_MAGIC_V2;
        start = i + (v07 ? KSEG_V07_MIN_BYTES + p[i + KSEG_V07_MAGIC] : is_v2 ? KSEG_V2_ATTRIBUTES : KSEG_ENTRY_MAGIC);
        if (after - start <= KSEG_MAX_DIRECT_BYTES) return i;
        if (is_v2) {
            if (!kseg_is_wrong(1, p, start, after, kseg_unsigned_be32(p + i + KSEG_V2_CRC), (ptrdiff_t)prefixes->anchor,
                               &prefixes->castagnoli))
                return i;
        } else if (!kseg_is_wrong(0, p, start, after, kseg_unsigned_be32(p + start - KSEG_CRC_BYTES),
                                  (ptrdiff_t)prefixes->anchor, &prefixes->ieee))
            return i;
    }
}

#endif
