/* Where the next frame could begin, and how many bytes are zero: what a search goes through byte by byte.
 *
 * Plain loops over single bytes that any compiler turns into vector instructions; search.py is the interpreted twin.
 */
#ifndef KSEG_SEARCH_H
#define KSEG_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "native.h"

enum { KSEG_LANES = 64 };

#if defined(__GNUC__) || defined(__clang__)
#define KSEG_SEARCH_INLINE static inline __attribute__((always_inline))
#else
#define KSEG_SEARCH_INLINE static inline
#endif

/* A length of fewer bytes than the least entry has, or of more than are left (its first byte tells), a negative offset
 * or a magic of no format rule a position out. */
KSEG_SEARCH_INLINE unsigned char kseg_could_begin(const unsigned char *p, unsigned char most) {
    unsigned char fits = (p[16] <= 2) & (p[8] <= most) & (p[0] < 128);
    unsigned char holds_header = ((unsigned char)(p[8] | p[9] | p[10]) > 0) | (p[11] > 13);
    return fits & holds_header;
}

KSEG_SEARCH_INLINE unsigned char kseg_could_begin_v07(const unsigned char *p, unsigned char most) {
    unsigned char fits = (p[4] <= 1) & (p[0] <= most);
    unsigned char holds_header = ((unsigned char)(p[0] | p[1] | p[2]) > 0) | (p[3] > 5);
    return fits & holds_header;
}

/* One bit for each of the positions [i, i + count), count at most 64, at which a frame could begin; bit 0 is i's. */
KSEG_SEARCH_INLINE uint64_t kseg_marks(const unsigned char *p, ptrdiff_t i, ptrdiff_t count, unsigned char most,
                                       int v07) {
    unsigned char marks[KSEG_LANES], any = 0;
    uint64_t bits = 0;
    ptrdiff_t k;
    if (count < KSEG_LANES) {
        for (k = 0; k < count; k++)
            bits |= (uint64_t)(v07 ? kseg_could_begin_v07(p + i + k, most) : kseg_could_begin(p + i + k, most)) << k;
        return bits;
    }
    for (k = 0; k < KSEG_LANES; k++)
        any |= marks[k] = v07 ? kseg_could_begin_v07(p + i + k, most) : kseg_could_begin(p + i + k, most);
    if (!any) return 0;
    /* Eight bytes of 0 or 1 at a time become eight bits: the product moves each to a place of its own above bit 56. */
    for (k = 0; k < KSEG_LANES; k += 8) bits |= kseg_le64(marks + k) * 0x0102040810204080u >> 56 << k;
    return bits;
}

KSEG_SEARCH_INLINE int kseg_first_set(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctzll(bits);
#else
    int k = 0;
    while (!(bits >> k & 1)) k++;
    return k;
#endif
}

/* Bytes of the frame at i if its magic is known and its length holds a header and fits before end; else 0. */
static inline int64_t kseg_frame_bytes(const unsigned char *p, ptrdiff_t i, ptrdiff_t end, int v07) {
    int64_t size;
    int magic;
    if (v07) {
        if (end - i < 9) return 0;
        magic = p[i + 4];
        size = kseg_be32(p, i);
        return magic > 1 || size < 5 + magic || size > end - i - 4 ? 0 : size + 4;
    }
    if (end - i < 26) return 0;
    magic = p[i + 16];
    if (magic > 2) return 0;
    size = kseg_be32(p, i + 8);
    return size > end - i - 12 || size < (magic == 2 ? 49 : 14 + 8 * magic) ? 0 : size + 12;
}

/* What is cheap to tell of a frame found by search: fields that no writer ever filled so. */
static inline int kseg_could_be_frame(const unsigned char *p, ptrdiff_t i, int64_t size, int v07) {
    ptrdiff_t fields;
    int64_t key_size, value_size, room;
    if (v07) return size > 9 + p[i + 4];
    if (p[i] & 128) return 0;
    if (p[i + 16] == 2)
        return (p[i + 22] & 7) <= 4 && !(p[i + 23] & 128) && kseg_be64(p, i + 43) >= -1 && kseg_be32(p, i + 53) >= -1 &&
               !(p[i + 57] & 128);
    fields = i + 18 + 8 * p[i + 16];
    room = i + size - fields - 8;
    key_size = kseg_be32(p, fields);
    if (key_size < 0) key_size = 0;
    if (key_size > room) return 0;
    value_size = kseg_be32(p, fields + 4 + key_size);
    return key_size + (value_size < 0 ? 0 : value_size) == room;
}

/* The first position in [i, stop) at which there is a frame as far as can be told without its checksum, else stop.
 * Behind each of these positions 17 bytes are there, in a file of 0.7 five.
 *
 * *marks holds what is left of the 64 positions before *ahead: to begin with none, and *ahead is i. */
static inline ptrdiff_t kseg_next_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                            ptrdiff_t *ahead, unsigned long long *marks) {
    for (;;) {
        ptrdiff_t most, count;
        while (*marks) {
            ptrdiff_t at = *ahead - KSEG_LANES + kseg_first_set(*marks);
            int64_t size = kseg_frame_bytes(p, at, end, v07);
            *marks &= *marks - 1;
            if (size && at >= i && kseg_could_be_frame(p, at, size, v07)) return at;
        }
        if (*ahead < i) *ahead = i;
        if (*ahead >= stop) return stop;
        most = (end - *ahead - (v07 ? 4 : 12)) >> 24;
        if (most > 127) most = 127;
        count = stop - *ahead < KSEG_LANES ? stop - *ahead : KSEG_LANES;
        *marks = v07 ? kseg_marks(p, *ahead, count, (unsigned char)most, 1)
                     : kseg_marks(p, *ahead, count, (unsigned char)most, 0);
        *ahead += KSEG_LANES;
    }
}

/* Zero bytes from i on, up to end. */
KSEG_SEARCH_INLINE ptrdiff_t kseg_zeros_ahead(const unsigned char *p, ptrdiff_t i, ptrdiff_t end) {
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

/* How many of the bytes [i, end) are zeros in runs of at least `least`. */
static inline ptrdiff_t kseg_zeros_in_runs(const unsigned char *p, ptrdiff_t i, ptrdiff_t end, ptrdiff_t least) {
    ptrdiff_t found = 0;
    while (end - i >= least) {
        /* A run as long as that which begins in [i, i + least) covers the last byte of these: looked at from there,
         * most of what is not zero is jumped over. */
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
