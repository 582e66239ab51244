/* Where the next frame could begin, and how many bytes are zero: what a search goes through byte by byte.
 *
 * Plain loops over single bytes that any compiler turns into vector instructions; search.py is the interpreted twin.
 */
#ifndef KSEG_SEARCH_H
#define KSEG_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

KSEG_SEARCH_INLINE ptrdiff_t kseg_first_set(const unsigned char *marks) {
    ptrdiff_t k;
    for (k = 0; k < KSEG_LANES; k += 8) {
        uint64_t word;
        memcpy(&word, marks + k, 8);
        if (word) break;
    }
    while (!marks[k]) k++;
    return k;
}

KSEG_SEARCH_INLINE ptrdiff_t kseg_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, unsigned char most,
                                            int v07) {
    /* Where a frame could begin at one byte after the other, 64 of them at a time would be looked at 64 times over. */
    if (v07 ? kseg_could_begin_v07(p + i, most) : kseg_could_begin(p + i, most)) return i;
    for (i++; stop - i >= KSEG_LANES; i += KSEG_LANES) {
        unsigned char marks[KSEG_LANES], any = 0;
        ptrdiff_t k;
        for (k = 0; k < KSEG_LANES; k++)
            any |= marks[k] = v07 ? kseg_could_begin_v07(p + i + k, most) : kseg_could_begin(p + i + k, most);
        if (any) return i + kseg_first_set(marks);
    }
    while (i < stop && !(v07 ? kseg_could_begin_v07(p + i, most) : kseg_could_begin(p + i, most))) i++;
    return i;
}

/* The first position in [i, stop) at which a frame that fits before `end` could begin, else stop. Behind each of these
 * positions 17 bytes are there, in a file of 0.7 five. */
static inline ptrdiff_t kseg_next_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end,
                                            int v07) {
    ptrdiff_t most = (end - i - (v07 ? 4 : 12)) >> 24;
    if (i >= stop) return stop;
    if (most > 127) most = 127;
    if (v07) return kseg_candidate(p, i, stop, (unsigned char)most, 1);
    return kseg_candidate(p, i, stop, (unsigned char)most, 0);
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
