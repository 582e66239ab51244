/* The checksums of many frames, one beside the other and without a branch that depends on where a frame begins or ends.
 *
 * As in near_checksums.h they come out of prefix CRCs, but nothing is handed on from one to the next. Let S and E be
 * the registers of what lies before the bytes a checksum covers and through their end, each as if zeros followed up to
 * the end of its block of the prefix table, and n the bytes between these two ends. The checksum is right if E, the
 * inverse of S over n more bytes, and the inverse of the checksum over E's zeros add up to nothing: one reduction does
 * for all.
 */
#ifndef KSEG_WIDE_CHECKSUMS_H
#define KSEG_WIDE_CHECKSUMS_H

#include "wide_marks.h"

#ifdef KSEG_AVX512_BUILT
enum {
    KSEG_PARTS = KSEG_PREFIX_BLOCK / KSEG_LANES,
    KSEG_FEW = 16,
    KSEG_START_V07 = 10, /* or 9: what its checksum covers begins so far behind the beginning of a frame */
    KSEG_START_V0 = 16,
    KSEG_START_V2 = 21
};

/* What the arithmetic needs of either polynomial beside what polynomial.h has. */
struct kseg_wide_factors {
    uint64_t to_end[KSEG_PARTS][8]; /* four pairs each: move the lanes of a block's 64 bytes onto its last 16 */
    uint32_t ones[KSEG_PREFIX_BLOCK]; /* [d]: what a register of ones is d zero bytes later */
};

static struct kseg_wide_factors kseg_wide_castagnoli, kseg_wide_ieee;

/* Writes what is there already where it runs again. */
static void kseg_fill_wide(const struct kseg_polynomial *poly, struct kseg_wide_factors *factors) {
    int part, lane, d;
    for (part = 0; part < KSEG_PARTS; part++)
        for (lane = 0; lane < 4; lane++) {
            unsigned bits = 8u * (unsigned)(KSEG_PREFIX_BLOCK - 16 - KSEG_LANES * part - 16 * lane);
            /* The last lane stays where it is, which is a product too: -33 is as good as the order less 33. */
            factors->to_end[part][2 * lane + KSEG_LOW] = kseg_x_to(poly, bits + 64 - 33);
            factors->to_end[part][2 * lane + KSEG_HIGH] =
                kseg_x_to(poly, bits ? bits - 33 : (unsigned)(poly->order - 33));
        }
    for (d = 0; d < KSEG_PREFIX_BLOCK; d++) factors->ones[d] = kseg_multiply(poly, ~0u, poly->power[0][d]);
}

KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_product_512(__m512i x, __m512i factors) {
    return _mm512_xor_si512(_mm512_clmulepi64_epi128(x, factors, 0x00), _mm512_clmulepi64_epi128(x, factors, 0x11));
}

/* The first n bytes at p, of 64; no byte behind them is touched. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_load_part(const unsigned char *p, ptrdiff_t n) {
    const unsigned most = n >= KSEG_LANES ? KSEG_LANES : n < 0 ? 0 : (unsigned)n;
    return _mm512_maskz_loadu_epi8(_bzhi_u64(~(uint64_t)0, most), p);
}

/* Adds to the lanes what a further part of a block's first n bytes leaves at the block's end. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_add_part(__m512i lanes, const unsigned char *p, ptrdiff_t n, int part,
                                                   const struct kseg_wide_factors *factors) {
    const __m512i bytes = kseg_load_part(p + KSEG_LANES * part, n - KSEG_LANES * part);
    return _mm512_xor_si512(lanes, kseg_product_512(bytes, kseg_load_512(factors->to_end[part])));
}

/* The register behind a whole block. */
KSEG_WIDE KSEG_ALWAYS_INLINE uint32_t kseg_block_through(int castagnoli, uint32_t reg, const unsigned char *p) {
    const struct kseg_wide_factors *factors = castagnoli ? &kseg_wide_castagnoli : &kseg_wide_ieee;
    __m512i lanes = _mm512_xor_si512(kseg_load_512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)reg)));
    __m256i half;
    __m128i x;
    int part;
    lanes = kseg_product_512(lanes, kseg_load_512(factors->to_end[0]));
    for (part = 1; part < KSEG_PARTS; part++) lanes = kseg_add_part(lanes, p, KSEG_PREFIX_BLOCK, part, factors);
    half = _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
    x = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    if (!castagnoli) return kseg_finish_ieee(x, p, 0);
    return (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x)),
                                   (uint64_t)_mm_extract_epi64(x, 1));
}

/* Fills a prefix table through a block's entry. */
KSEG_WIDE static void kseg_fill_prefixes(int castagnoli, const unsigned char *p, int64_t block, uint32_t *table,
                                         long long *state) {
    long long *filled = state + KSEG_STATE_FILLED + (castagnoli ? 0 : 1);
    long long *near = state + KSEG_STATE_NEAR + (castagnoli ? 0 : 4);
    const unsigned char *from = p + state[KSEG_STATE_ANCHOR] + (*filled - 1) * KSEG_PREFIX_BLOCK;
    if (*filled == 0) {
        table[0] = 0;
        near[0] = near[2] = -1;
        *filled = 1;
        from += KSEG_PREFIX_BLOCK;
    }
    for (; *filled <= block; ++*filled, from += KSEG_PREFIX_BLOCK) {
        const uint32_t reg = ~table[*filled - 1];
        int part;
        for (part = 0; part < KSEG_PARTS; part++)
            _mm_prefetch((const char *)from + KSEG_AHEAD_BYTES + KSEG_LANES * part, _MM_HINT_T0);
        table[*filled] = ~kseg_block_through(castagnoli, reg, from);
    }
}

/* What the bytes of a block before each of its parts leave to be added to that part, for all blocks from the one of the
 * search's base on, as far as the table is filled. Through `last`, what no frame left in the search covers first. */
KSEG_WIDE KSEG_ALWAYS_INLINE void kseg_lay_blocks(int castagnoli, const unsigned char *p, ptrdiff_t last,
                                                  const uint32_t *table, const long long *state,
                                                  struct kseg_search *search) {
    const __m512i factors = kseg_factors_512((castagnoli ? &kseg_castagnoli : &kseg_ieee)->fold_64);
    const ptrdiff_t anchor = (ptrdiff_t)state[KSEG_STATE_ANCHOR];
    const ptrdiff_t filled = (ptrdiff_t)state[KSEG_STATE_FILLED + (castagnoli ? 0 : 1)];
    ptrdiff_t number = (search->base - anchor) / KSEG_PREFIX_BLOCK, at = anchor + number * KSEG_PREFIX_BLOCK;
    unsigned char *out = search->before[castagnoli];
    for (; at <= last && number < filled; at += KSEG_PREFIX_BLOCK, number++) {
        __m512i x = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~table[number]));
        int part;
        for (part = 0; part < KSEG_PARTS; part++, out += KSEG_LANES) {
            const ptrdiff_t part_at = at + KSEG_LANES * part;
            _mm512_storeu_si512(out, x);
            if (part_at + KSEG_LANES > last) break;
            x = kseg_product_512(_mm512_xor_si512(x, kseg_load_512(p + part_at)), factors);
        }
    }
    search->blocks[castagnoli] = (uint64_t)number;
}

/* ---- four frames at a time, each in a lane of 128 bits ---- */

/* Lane k of the sum of all lanes of x[k]. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_add_lanes_4(const __m512i x[4]) {
    enum { LOW = 0x44, HIGH = 0xEE, EVEN = 0x88, ODD = 0xDD };
    const __m512i a = _mm512_xor_si512(_mm512_shuffle_i64x2(x[0], x[1], LOW), _mm512_shuffle_i64x2(x[0], x[1], HIGH));
    const __m512i b = _mm512_xor_si512(_mm512_shuffle_i64x2(x[2], x[3], LOW), _mm512_shuffle_i64x2(x[2], x[3], HIGH));
    return _mm512_xor_si512(_mm512_shuffle_i64x2(a, b, EVEN), _mm512_shuffle_i64x2(a, b, ODD));
}

/* 128 bits of each lane down to the low 64, as kseg_finish_ieee does it. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_shorten_4(const struct kseg_polynomial *poly, __m512i x) {
    const __m512i ends = kseg_factors_512(poly->fold_ends), low = _mm512_set1_epi64(0xFFFFFFFF);
    x = _mm512_xor_si512(_mm512_clmulepi64_epi128(x, ends, 0x00), _mm512_bsrli_epi128(x, 8));
    return _mm512_xor_si512(_mm512_clmulepi64_epi128(_mm512_and_si512(x, low), ends, 0x10), _mm512_bsrli_epi128(x, 4));
}

/* These 64 down to the upper 32, as kseg_reduce_ieee does it; each polynomial has its quotient of x^64. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_reduce_4(int castagnoli, __m512i x) {
    const __m128i both =
        castagnoli ? _mm_set_epi64x(0x0DEA713F1, 0x105EC76F1) : _mm_set_epi64x(0x1F7011641, 0x1DB710641);
    const __m512i factors = _mm512_broadcast_i32x4(both), low = _mm512_set1_epi64(0xFFFFFFFF);
    const __m512i quotient = _mm512_clmulepi64_epi128(_mm512_and_si512(x, low), factors, 0x10);
    return _mm512_xor_si512(x, _mm512_clmulepi64_epi128(_mm512_and_si512(quotient, low), factors, 0x00));
}

/* Each of four numbers at the lower end of a lane. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_spread_4(__m128i x) {
    const __m512i from = _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0);
    return _mm512_maskz_permutexvar_epi32(0x1111, from, _mm512_zextsi128_si512(x));
}

KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_gather_4(const uint32_t *table, __m128i index) {
    return kseg_spread_4(_mm_i32gather_epi32((const int *)table, index, 4));
}

/* Products as reduction takes them. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_multiply_4(__m512i a, __m512i b) {
    return _mm512_slli_epi64(_mm512_clmulepi64_epi128(a, b, 0x00), 1);
}

KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_times_4(int castagnoli, __m512i a, const uint32_t *table, __m128i index) {
    const __m128i place = _mm_and_si128(index, _mm_set1_epi32(255));
    return _mm512_srli_epi64(kseg_reduce_4(castagnoli, kseg_multiply_4(a, kseg_gather_4(table, place))), 32);
}

/* 64 bits of each lane that reduction turns into the registers through places in blocks, zeros coming after them. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_endings_of_4(int castagnoli, const unsigned char *from,
                                                       const uint32_t places[4], const uint32_t *table) {
    const struct kseg_wide_factors *factors = castagnoli ? &kseg_wide_castagnoli : &kseg_wide_ieee;
    __m512i x[4];
    int k, part;
    for (k = 0; k < 4; k++) {
        const ptrdiff_t n = places[k] % KSEG_PREFIX_BLOCK + 1, block = places[k] / KSEG_PREFIX_BLOCK;
        const unsigned char *p = from + block * KSEG_PREFIX_BLOCK;
        const __m512i reg = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~table[block]));
        x[k] = kseg_product_512(_mm512_xor_si512(kseg_load_part(p, n), reg), kseg_load_512(factors->to_end[0]));
        for (part = 1; part < KSEG_PARTS; part++)
            x[k] = kseg_add_part(x[k], p, n, part, factors);
    }
    return kseg_shorten_4(castagnoli ? &kseg_castagnoli : &kseg_ieee, kseg_add_lanes_4(x));
}

/* Four frames of a search. Places count from `origin`, where that block begins, the table's number `first_block`, which
 * the search's base is in. */
struct kseg_four {
    int castagnoli;
    ptrdiff_t first_block, origin;
    __m128i before, through; /* places of the last byte before what the checksum covers, and of the last it covers */
    __m128i stored;
};

/* The next `count` frames of a search, and the first again in place of others. Behind `start` bytes of each begins what
 * its checksum covers, which stands right before. */
KSEG_WIDE KSEG_ALWAYS_INLINE struct kseg_four kseg_next_four(int castagnoli, const unsigned char *p, unsigned start,
                                                             unsigned count, ptrdiff_t anchor,
                                                             const struct kseg_search *search) {
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    const __m128i others = _mm_cmpgt_epi32(_mm_set1_epi32((int)count), _mm_set_epi32(3, 2, 1, 0));
    const uint32_t *at = search->at + search->next, *size = search->size + search->next;
    const __m128i ats = _mm_blendv_epi8(_mm_set1_epi32((int)at[0]), kseg_load_128(at), others);
    const __m128i sizes = _mm_blendv_epi8(_mm_set1_epi32((int)size[0]), kseg_load_128(size), others);
    const unsigned char *stored = p + search->base + start - 4;
    struct kseg_four four;
    __m128i places;
    four.castagnoli = castagnoli;
    four.first_block = (search->base - anchor) / KSEG_PREFIX_BLOCK;
    four.origin = anchor + four.first_block * KSEG_PREFIX_BLOCK;
    places = _mm_add_epi32(ats, _mm_set1_epi32((int)(search->base - four.origin)));
    four.before = _mm_add_epi32(places, _mm_set1_epi32((int)start - 1));
    four.through = _mm_add_epi32(_mm_add_epi32(places, sizes), _mm_set1_epi32(-1));
    four.stored = _mm_shuffle_epi8(_mm_i32gather_epi32((const int *)stored, ats, 1), swap);
    return four;
}

/* Which of the four are none by their checksums: bit 2 * k for number k. The prefix table is filled for all of them. */
KSEG_WIDE KSEG_ALWAYS_INLINE unsigned kseg_wrong_of_4(const struct kseg_four *four, const unsigned char *p,
                                                      const uint32_t *table, struct kseg_search *search) {
    const int castagnoli = four->castagnoli;
    const struct kseg_polynomial *poly = castagnoli ? &kseg_castagnoli : &kseg_ieee;
    const struct kseg_wide_factors *factors = castagnoli ? &kseg_wide_castagnoli : &kseg_wide_ieee;
    const unsigned char *from = p + four->origin;
    const __m128i within = _mm_set1_epi32(KSEG_PREFIX_BLOCK - 1);
    const __m128i blocks = _mm_sub_epi32(_mm_srli_epi32(four->through, 8), _mm_srli_epi32(four->before, 8));
    uint32_t before[4], through[4];
    __m512i x[4], sum, ending, factor, stored;
    int k;
    _mm_storeu_si128((__m128i *)before, four->before);
    _mm_storeu_si128((__m128i *)through, four->through);
    for (k = 0; k < 4; k++) {
        const uint32_t part_at = before[k] & ~(uint32_t)(KSEG_LANES - 1);
        const __m512i bytes = kseg_load_part(from + part_at, before[k] % KSEG_LANES + 1);
        const __m512i lanes = _mm512_xor_si512(bytes, kseg_load_512(search->before[castagnoli] + part_at));
        x[k] = kseg_product_512(lanes, kseg_load_512(factors->to_end[before[k] / KSEG_LANES % KSEG_PARTS]));
    }
    sum = kseg_reduce_4(castagnoli, kseg_shorten_4(poly, kseg_add_lanes_4(x)));
    sum = _mm512_xor_si512(_mm512_srli_epi64(sum, 32),
                           kseg_gather_4(factors->ones, _mm_andnot_si128(four->before, within)));
    factor = kseg_gather_4(poly->power[1], _mm_and_si128(blocks, within));
    if (!_mm_testz_si128(blocks, _mm_set1_epi32(~0xFF))) {
        factor = kseg_times_4(castagnoli, factor, poly->power[2], _mm_srli_epi32(blocks, 8));
        if (!_mm_testz_si128(blocks, _mm_set1_epi32(~0xFFFF)))
            factor = kseg_times_4(castagnoli, factor, poly->power[3], _mm_srli_epi32(blocks, 16));
    }
    stored = kseg_spread_4(_mm_xor_si128(four->stored, _mm_set1_epi32(-1)));
    stored = kseg_multiply_4(stored, kseg_gather_4(poly->power[0], _mm_andnot_si128(four->through, within)));
    if (four->origin + (ptrdiff_t)through[0] == search->ending_at[castagnoli] &&
        _mm_movemask_epi8(_mm_cmpeq_epi32(four->through, _mm_set1_epi32((int)through[0]))) == 0xFFFF) {
        ending = _mm512_set1_epi64((long long)search->ending[castagnoli]);
    } else {
        ending = kseg_endings_of_4(castagnoli, from, through, table + four->first_block);
        search->ending_at[castagnoli] = four->origin + (ptrdiff_t)through[0];
        search->ending[castagnoli] = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(ending));
    }
    sum = _mm512_xor_si512(_mm512_xor_si512(kseg_multiply_4(sum, factor), stored), ending);
    sum = kseg_reduce_4(castagnoli, sum);
    return _mm512_test_epi64_mask(sum, _mm512_set1_epi64((long long)0xFFFFFFFF00000000u)) & 0x55;
}

/* How many of the search's next `count` frames, four at most and alike in `start`, are none by their checksums, up to
 * the first that is one, or may be: a few short frames are not worth that a table is filled for them. */
KSEG_WIDE KSEG_ALWAYS_INLINE unsigned kseg_wrong_ahead(int castagnoli, const unsigned char *p, unsigned start,
                                                       unsigned count, uint32_t *table, long long *state,
                                                       struct kseg_search *search) {
    const ptrdiff_t anchor = (ptrdiff_t)state[KSEG_STATE_ANCHOR];
    const long long *filled = state + KSEG_STATE_FILLED + (castagnoli ? 0 : 1);
    struct kseg_four four;
    /* Messages of 0.7 of either magic share what is laid. */
    const unsigned most = start < KSEG_START_V0 ? KSEG_START_V07 : start;
    uint32_t before[4];
    unsigned k, right;
    for (k = 0; k < count; k++) {
        const ptrdiff_t size = (ptrdiff_t)search->size[search->next + k];
        const ptrdiff_t last = search->base + search->at[search->next + k] + size - 1;
        if ((last - anchor) / KSEG_PREFIX_BLOCK < *filled) continue;
        if (size - start <= KSEG_DIRECT_BYTES_MAX && search->count < KSEG_FEW) break;
        kseg_fill_prefixes(castagnoli, p, (last - anchor) / KSEG_PREFIX_BLOCK, table, state);
    }
    if (k == 0) return 0;
    four = kseg_next_four(castagnoli, p, start, k, anchor, search);
    _mm_storeu_si128((__m128i *)before, four.before);
    if ((uint64_t)four.first_block + before[k - 1] / KSEG_PREFIX_BLOCK >= search->blocks[castagnoli])
        kseg_lay_blocks(castagnoli, p, search->base + search->at[search->count - 1] + most - 1, table, state, search);
    right = ~kseg_wrong_of_4(&four, p, table, search) & 0x55;
    count = right ? (unsigned)kseg_first_set(right) / 2 : 4;
    return count < k ? count : k;
}
#endif

#endif
