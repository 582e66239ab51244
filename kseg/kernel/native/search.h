/* The search byte by byte: for the next position at which a frame could begin, and for zero bytes.
 *
 * Plain loops over single bytes that compilers vectorize; search.py is the interpreted twin.
 */
#ifndef KSEG_SEARCH_H
#define KSEG_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "native.h"

enum {
    KSEG_LANES = 64
};

enum {
    /* Values of the size field: of a v0 message without key and value, and of one of 0.7 with a payload of one byte. */
    KSEG_LEAST_SIZE = KSEG_V0_HEADER_BYTES + KSEG_SIZES_BYTES - KSEG_ENTRY_OVERHEAD,
    KSEG_V07_LEAST_SIZE = KSEG_V07_MIN_BYTES - KSEG_V07_SIZE_BYTES + 1,
    KSEG_V07_LAST_MAGIC = 1,
    /* Where the last byte of an int32 is. */
    KSEG_LAST_BYTE = 3
};

/* Whether four bytes hold at least `least`, which is below 256, as an int32 that is not negative. */
KSEG_INLINE unsigned char kseg_is_at_least(const unsigned char *p, unsigned char least) {
    return ((unsigned char)(p[0] | p[1] | p[2]) > 0) | (p[KSEG_LAST_BYTE] >= least);
}

/* Rules out lengths below the smallest entry or above the remaining bytes (by their first byte), negative offsets and
 * unknown magics. */
KSEG_INLINE unsigned char kseg_could_begin(const unsigned char *p, unsigned char most) {
    unsigned char fits = (p[KSEG_ENTRY_MAGIC] <= KSEG_MAGIC_V2) & (p[KSEG_ENTRY_SIZE] <= most) & (p[0] < 128);
    return fits & kseg_is_at_least(p + KSEG_ENTRY_SIZE, KSEG_LEAST_SIZE);
}

KSEG_INLINE unsigned char kseg_could_begin_v07(const unsigned char *p, unsigned char most) {
    unsigned char fits = (p[KSEG_V07_MAGIC] <= KSEG_V07_LAST_MAGIC) & (p[0] <= most);
    return fits & kseg_is_at_least(p, KSEG_V07_LEAST_SIZE);
}

/* Whether a frame could begin at any of the 64 positions from p on, by three of its bytes: most often none can. */
KSEG_INLINE int kseg_could_begin_any(const unsigned char *p, unsigned char most, unsigned char first) {
    unsigned char any = 0;
    int k;
    for (k = 0; k < KSEG_LANES; k++)
        any |= (p[k + KSEG_ENTRY_MAGIC] <= KSEG_MAGIC_V2) & (p[k + KSEG_ENTRY_SIZE] <= most) & (p[k] <= first);
    return any;
}

/* A bit for each of the 64 positions from p on at which a frame could begin; bit 0 is p. */
KSEG_INLINE uint64_t kseg_marks_of_all(const unsigned char *p, unsigned char most, unsigned char first,
                                              int v07) {
    unsigned char marks[KSEG_LANES], any = 0;
    uint64_t bits = 0;
    int k;
    if (!v07 && !kseg_could_begin_any(p, most, first)) return 0;
    for (k = 0; k < KSEG_LANES; k++)
        any |= marks[k] = v07 ? kseg_could_begin_v07(p + k, most) : kseg_could_begin(p + k, most);
    if (!any) return 0;
    /* Packs eight bytes of 0 or 1 into eight bits: the product moves each byte to its own bit from 56 on. */
    for (k = 0; k < KSEG_LANES; k += 8) bits |= kseg_le64(marks + k) * 0x0102040810204080u >> 56 << k;
    return bits;
}

/* The same for the first count positions, if there are fewer than 64. */
static inline uint64_t kseg_marks_of_few(const unsigned char *p, ptrdiff_t count, unsigned char most, int v07) {
    uint64_t bits = 0;
    ptrdiff_t k;
    for (k = 0; k < count; k++)
        bits |= (uint64_t)(v07 ? kseg_could_begin_v07(p + k, most) : kseg_could_begin(p + k, most)) << k;
    return bits;
}

KSEG_INLINE int kseg_first_set(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctzll(bits);
#else
    int k = 0;
    while (!(bits >> k & 1)) k++;
    return k;
#endif
}

/* Marks of the positions [i, i + 64) before stop; from each on there are at least 17 bytes (0.7: 5) before end. */
KSEG_INLINE uint64_t kseg_marks(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end,
                                       unsigned char first, int v07) {
    ptrdiff_t most = (end - i - (v07 ? KSEG_V07_SIZE_BYTES : KSEG_ENTRY_OVERHEAD)) >> 24;
    ptrdiff_t count = stop - i < KSEG_LANES ? stop - i : KSEG_LANES;
    uint64_t bits;
    if (most > 127) most = 127;
    if (end - i < KSEG_LANES + KSEG_V2_HEADER_BYTES) return kseg_marks_of_few(p + i, count, (unsigned char)most, v07);
    bits = kseg_marks_of_all(p + i, (unsigned char)most, first, v07);
    return count < KSEG_LANES ? bits & (((uint64_t)1 << count) - 1) : bits;
}

/* The state of a search. `marks`: remaining candidates of the 64 positions before `ahead`. `first`: the largest first
 * byte of an offset; some positions with a larger one are left out. */
struct kseg_search {
    ptrdiff_t ahead;
    uint64_t marks;
    unsigned char first;
};

/* The first position in [i, stop) at which a frame could begin; else stop. */
static inline ptrdiff_t kseg_next_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                            struct kseg_search *search) {
    for (;;) {
        ptrdiff_t ahead;
        while (search->marks) {
            ptrdiff_t at = search->ahead - KSEG_LANES + kseg_first_set(search->marks);
            search->marks &= search->marks - 1;
            if (at >= i) return at;
        }
        ahead = search->ahead < i ? i : search->ahead;
        if (ahead >= stop) return stop;
        search->marks = v07 ? kseg_marks(p, ahead, stop, end, search->first, 1)
                            : kseg_marks(p, ahead, stop, end, search->first, 0);
        search->ahead = ahead + KSEG_LANES;
    }
}

/* Begins a search at i for frames whose offset is at most largest_offset; the caller must check that. */
static inline void kseg_search_from(struct kseg_search *search, ptrdiff_t i, int64_t largest_offset) {
    search->ahead = i;
    search->marks = 0;
    search->first = (unsigned char)(largest_offset >> 56);
}

/* The number of zero bytes from i on, before end. */
KSEG_INLINE ptrdiff_t kseg_zeros_ahead(const unsigned char *p, ptrdiff_t i, ptrdiff_t end) {
    ptrdiff_t start = i;
    for (; end - i >= KSEG_LANES; i += KSEG_LANES) {
        unsigned char any = 0;
        ptrdiff_t k;
        for (k = 0; k < KSEG_LANES; k++) any |= p[i + k];
        if (any) break;
    }
    while (i < end && !p[i]) i++;
    return i - start;
}

/* The number of zero bytes in [i, end) that belong to runs of at least `least`. */
static inline ptrdiff_t kseg_zeros_in_runs(const unsigned char *p, ptrdiff_t i, ptrdiff_t end, ptrdiff_t least) {
    ptrdiff_t found = 0;
    while (end - i >= least) {
        /* A run of `least` zeros that begins in [i, i + least) covers the last of these bytes. Checking backwards from
         * there skips most other bytes. */
        ptrdiff_t back = i + least - 1, run;
        while (back >= i && !p[back]) back--;
        if (back >= i) {
            i = back + 1;
            continue;
        }
        run = kseg_zeros_ahead(p, i, end);
        found += run;
        i += run;
    }
    return found;
}

#endif
