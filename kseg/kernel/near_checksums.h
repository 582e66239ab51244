/* A search for frames that passes over those whose checksum is told to be wrong by prefix CRCs that are near the ones
 * computed last: wreckage that seems to begin a frame every few bytes asks for millions of these. For all other frames
 * kseg/kernel/frame_checksums.py does the same, and tells what state and tables hold.
 */
#ifndef KSEG_NEAR_CHECKSUMS_H
#define KSEG_NEAR_CHECKSUMS_H

#include "checksum.h"
#include "search.h"

enum {
    KSEG_STATE_ANCHOR = 2,
    KSEG_STATE_FILLED = 3,
    KSEG_STATE_NEAR = 10,
    KSEG_STATE_SHIFT = 18,
    KSEG_PREFIX_BLOCK = 256,
    KSEG_DIRECT_BYTES_MAX = 1024
};

#ifndef KSEG_ALWAYS_INLINE
#define KSEG_ALWAYS_INLINE static inline
#endif

/* How a register goes on over n bytes, and over n zero bytes; `factor` remembers part of that for the next. */
typedef uint32_t (*kseg_near_update)(int castagnoli, uint32_t reg, const unsigned char *p, size_t n);
typedef uint32_t (*kseg_near_shift)(int castagnoli, uint32_t reg, uint64_t n, long long *factor);

/* The CRC through `to`, from that through `from`. */
KSEG_ALWAYS_INLINE uint32_t kseg_crc_on(int castagnoli, int64_t crc, const unsigned char *p, ptrdiff_t from,
                                        ptrdiff_t to, kseg_near_update update) {
    return ~update(castagnoli, ~(uint32_t)crc, p + from, (size_t)(to - from));
}

/* Whether `stored` is not the CRC of the bytes [start, after); 0 too where prefix CRCs for them are not near. */
KSEG_ALWAYS_INLINE int kseg_is_wrong(int castagnoli, const unsigned char *p, ptrdiff_t start, ptrdiff_t after,
                                     uint32_t stored, const uint32_t *table, long long *state, kseg_near_update update,
                                     kseg_near_shift shift) {
    long long *near = state + KSEG_STATE_NEAR + (castagnoli ? 0 : 4);
    ptrdiff_t anchor = (ptrdiff_t)state[KSEG_STATE_ANCHOR], block = (after - anchor) / KSEG_PREFIX_BLOCK;
    int64_t filled = state[KSEG_STATE_FILLED + (castagnoli ? 0 : 1)];
    uint32_t before, through;
    if (filled == 0 || near[0] < 0 || start < near[0] || start - near[0] > KSEG_PREFIX_BLOCK) return 0;
    if (near[2] == after)
        through = (uint32_t)near[3];
    else if (0 <= near[2] && near[2] < after && after - near[2] <= KSEG_PREFIX_BLOCK)
        through = kseg_crc_on(castagnoli, near[3], p, (ptrdiff_t)near[2], after, update);
    else if (block < filled)
        through = kseg_crc_on(castagnoli, table[block], p, anchor + block * KSEG_PREFIX_BLOCK, after, update);
    else
        return 0;
    before = kseg_crc_on(castagnoli, near[1], p, (ptrdiff_t)near[0], start, update);
    near[0] = start;
    near[1] = before;
    near[2] = after;
    near[3] = through;
    return stored != (through ^ shift(castagnoli, before, (uint64_t)(after - start),
                                      state + KSEG_STATE_SHIFT + (castagnoli ? 0 : 2)));
}

KSEG_ALWAYS_INLINE ptrdiff_t kseg_next_not_wrong_by(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end,
                                                    int v07, struct kseg_search *search, const uint32_t *table_c,
                                                    const uint32_t *table_ieee, long long *state,
                                                    kseg_near_update update, kseg_near_shift shift) {
    for (;; i++) {
        ptrdiff_t start, after;
        i = kseg_next_of(p, i, stop, end, v07, search);
        if (i >= stop || state[KSEG_STATE_ANCHOR] < 0 || i < state[KSEG_STATE_ANCHOR]) return i;
        after = i + (ptrdiff_t)kseg_frame_bytes(p, i, end, v07);
        start = v07 ? i + 9 + p[i + 4] : p[i + 16] == 2 ? i + 21 : i + 16;
        if (after - start <= KSEG_DIRECT_BYTES_MAX) return i;
        if (!v07 && p[i + 16] == 2) {
            if (!kseg_is_wrong(1, p, start, after, kseg_unsigned_be32(p + i + 17), table_c, state, update, shift))
                return i;
        } else if (!kseg_is_wrong(0, p, start, after, kseg_unsigned_be32(p + start - 4), table_ieee, state, update,
                                  shift))
            return i;
    }
}

/* By whichever path is the best. */
static inline uint32_t kseg_near_update_best(int castagnoli, uint32_t reg, const unsigned char *p, size_t n) {
    return castagnoli ? kseg_best->crc32c(reg, p, n) : kseg_best->crc32(reg, p, n);
}

static inline uint32_t kseg_near_shift_best(int castagnoli, uint32_t reg, uint64_t n, long long *factor) {
    (void)factor;
    return kseg_best->shift(castagnoli ? &kseg_castagnoli : &kseg_ieee, reg, n);
}

typedef ptrdiff_t (*kseg_searching)(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                    struct kseg_search *search, const uint32_t *table_c, const uint32_t *table_ieee,
                                    long long *state);

static ptrdiff_t kseg_next_anywhere(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                    struct kseg_search *search, const uint32_t *table_c, const uint32_t *table_ieee,
                                    long long *state) {
    return kseg_next_not_wrong_by(p, i, stop, end, v07, search, table_c, table_ieee, state, kseg_near_update_best,
                                  kseg_near_shift_best);
}

#ifdef KSEG_X86
#define KSEG_AVX2 __attribute__((target(KSEG_SSE_NAMES ",avx2,bmi")))

/* For so few bytes this is the best path too, and here no call is left of it. */
KSEG_SSE KSEG_ALWAYS_INLINE uint32_t kseg_near_update_sse(int castagnoli, uint32_t reg, const unsigned char *p,
                                                          size_t n) {
    return castagnoli ? kseg_serial_sse(reg, p, n) : kseg_crc32_sse(reg, p, n);
}

/* Headers that follow each other and claim the same end differ in the last byte of n: the factor for the others stays,
 * and factor[0], n / 256 + 1, says whose it is. */
KSEG_SSE KSEG_ALWAYS_INLINE uint32_t kseg_near_shift_sse(int castagnoli, uint32_t reg, uint64_t n, long long *factor) {
    const struct kseg_polynomial *poly = castagnoli ? &kseg_castagnoli : &kseg_ieee;
    if (factor[0] != (long long)(n >> 8) + 1) {
        uint32_t high = poly->power[1][n >> 8 & 255]; /* headers that claim ends near them need no more than this */
        if (n >> 16) high = kseg_multiply_sse(poly, high, poly->power[2][n >> 16 & 255]);
        if (n >> 24) high = kseg_multiply_sse(poly, high, poly->power[3][n >> 24 & 255]); /* no frame has 2^32 bytes */
        factor[0] = (long long)(n >> 8) + 1;
        factor[1] = high;
    }
    return kseg_multiply_sse(poly, reg, kseg_multiply_sse(poly, (uint32_t)factor[1], poly->power[0][n & 255]));
}

/* The same with vectors of 32 bytes instead of 16. */
KSEG_AVX2 static ptrdiff_t kseg_next_avx2(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                          struct kseg_search *search, const uint32_t *table_c,
                                          const uint32_t *table_ieee, long long *state) {
    return kseg_next_not_wrong_by(p, i, stop, end, v07, search, table_c, table_ieee, state, kseg_near_update_sse,
                                  kseg_near_shift_sse);
}
#endif

/* Whichever of them this processor can run. */
static inline kseg_searching kseg_search_path(void) {
#ifdef KSEG_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && kseg_best->shift == kseg_shift_sse)
        return kseg_next_avx2;
#endif
    return kseg_next_anywhere;
}

/* The first position in [i, stop) at which there is a frame as far as can be told without its checksum, or where that
 * is told as cheaply, with it; else stop. Behind each of these positions 17 bytes are there, in a file of 0.7 five.
 * What the search has given before i is no intact frame. */
static inline ptrdiff_t kseg_next_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                            struct kseg_search *search, const uint32_t *table_c,
                                            const uint32_t *table_ieee, long long *state) {
    static kseg_searching best;
    if (!best) best = kseg_search_path(); /* whichever thread writes it, it is the same */
    return best(p, i, stop, end, v07, search, table_c, table_ieee, state);
}

#endif
