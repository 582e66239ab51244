/* A search for frames that rules out candidates whose checksum is wrong, as computed from prefix CRCs near the last
 * computed ones. Damaged data with a candidate every few bytes needs millions of these. For all other frames
 * kseg/kernel/scan/frame_checksums.py does the same.
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

/* Appends n bytes, or n zero bytes, to a register; `table` keeps a part of the computation for the next call. */
typedef uint32_t (*kseg_near_update)(int castagnoli, uint32_t reg, const unsigned char *p, size_t n);
typedef uint32_t (*kseg_near_shift)(int castagnoli, uint32_t reg, uint64_t n,
                                        struct kseg_prefix_table *table);

/* The CRC through `to`, from that through `from`. */
KSEG_ALWAYS_INLINE uint32_t kseg_crc_on(int castagnoli, uint32_t crc, const unsigned char *p, ptrdiff_t from,
                                        ptrdiff_t to, kseg_near_update update) {
    return ~update(castagnoli, ~crc, p + from, (size_t)(to - from));
}

/* Whether `stored` is not the CRC of the bytes [start, after); also 0 if no near prefix CRCs are known. */
KSEG_ALWAYS_INLINE int kseg_is_wrong(int castagnoli, const unsigned char *p, ptrdiff_t start, ptrdiff_t after,
                                     uint32_t stored, ptrdiff_t anchor, struct kseg_prefix_table *table,
                                     kseg_near_update update, kseg_near_shift shift) {
    ptrdiff_t block = (after - anchor) / KSEG_PREFIX_BLOCK;
    uint32_t before, through;
    if (table->filled == 0 || table->start < 0 || start < table->start || start - table->start > KSEG_PREFIX_BLOCK)
        return 0;
    if (table->end == after)
        through = table->end_crc;
    else if (0 <= table->end && table->end < after && after - table->end <= KSEG_PREFIX_BLOCK)
        through = kseg_crc_on(castagnoli, table->end_crc, p, (ptrdiff_t)table->end, after, update);
    else if (block < table->filled)
        through = kseg_crc_on(castagnoli, table->crcs[block], p, anchor + block * KSEG_PREFIX_BLOCK, after, update);
    else
        return 0;
    before = kseg_crc_on(castagnoli, table->start_crc, p, (ptrdiff_t)table->start, start, update);
    table->start = start;
    table->start_crc = before;
    table->end = after;
    table->end_crc = through;
    return stored != (through ^ shift(castagnoli, before, (uint64_t)(after - start), table));
}

KSEG_ALWAYS_INLINE ptrdiff_t kseg_next_not_wrong_by(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end,
                                                    int v07, struct kseg_search *search,
                                                    struct kseg_prefixes *prefixes,
                                                    kseg_near_update update, kseg_near_shift shift,
                                                    kseg_marking marks_of_all) {
    for (;; i++) {
        ptrdiff_t start, after;
        int is_v2;
        i = kseg_next_of(p, i, stop, end, v07, search, marks_of_all);
        if (i >= stop || prefixes->anchor < 0 || i < prefixes->anchor) return i;
        after = i + (ptrdiff_t)kseg_frame_bytes(p, i, end, v07);
        is_v2 = !v07 && p[i + KSEG_ENTRY_MAGIC] == KSEG_MAGIC_V2;
        start = i + (v07 ? KSEG_V07_MIN_BYTES + p[i + KSEG_V07_MAGIC] : is_v2 ? KSEG_V2_ATTRIBUTES : KSEG_ENTRY_MAGIC);
        if (after - start <= KSEG_MAX_DIRECT_BYTES) return i;
        if (is_v2) {
            if (!kseg_is_wrong(1, p, start, after, kseg_unsigned_be32(p + i + KSEG_V2_CRC), (ptrdiff_t)prefixes->anchor,
                               &prefixes->castagnoli, update, shift))
                return i;
        } else if (!kseg_is_wrong(0, p, start, after, kseg_unsigned_be32(p + start - KSEG_CRC_BYTES),
                                  (ptrdiff_t)prefixes->anchor, &prefixes->ieee, update, shift))
            return i;
    }
}

/* By the fastest implementation. */
static inline uint32_t kseg_near_update_best(int castagnoli, uint32_t reg, const unsigned char *p, size_t n) {
    return castagnoli ? kseg_best->crc32c(reg, p, n) : kseg_best->crc32(reg, p, n);
}

static inline uint32_t kseg_near_shift_best(int castagnoli, uint32_t reg, uint64_t n,
                                        struct kseg_prefix_table *table) {
    (void)table;
    return kseg_best->shift(castagnoli ? &kseg_castagnoli : &kseg_ieee, reg, n);
}

typedef ptrdiff_t (*kseg_searching)(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                    struct kseg_search *search, struct kseg_prefixes *prefixes);

static ptrdiff_t kseg_next_anywhere(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                    struct kseg_search *search, struct kseg_prefixes *prefixes) {
    return kseg_next_not_wrong_by(p, i, stop, end, v07, search, prefixes, kseg_near_update_best,
                                  kseg_near_shift_best, kseg_marks_of_all);
}

#ifdef KSEG_X86
#define KSEG_AVX2 __attribute__((target(KSEG_SSE_NAMES ",avx2,bmi")))

KSEG_AVX2 KSEG_ALWAYS_INLINE __m256i kseg_load_256(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

/* As kseg_crc32_sse, for at most some hundred bytes, with few branches that can be mispredicted. */
KSEG_SSE KSEG_ALWAYS_INLINE uint32_t kseg_near_crc32_sse(uint32_t reg, const unsigned char *p, size_t n) {
    const __m128i factors = kseg_load_128(kseg_ieee.fold_16);
    __m128i x;
    if (n < 16) return kseg_crc32_table(reg, p, n);
    x = _mm_xor_si128(kseg_load_128(p), _mm_cvtsi32_si128((int)reg));
    for (p += 16, n -= 16; n >= 16; p += 16, n -= 16) x = kseg_fold_128(x, factors, kseg_load_128(p));
    return kseg_finish_ieee(kseg_fold_tail(x, factors, p, n), p, 0);
}

/* For few bytes this is the fastest way, too, and it is inlined here. There are at least 8 bytes before p. */
KSEG_SSE KSEG_ALWAYS_INLINE uint32_t kseg_near_update_sse(int castagnoli, uint32_t reg, const unsigned char *p,
                                                          size_t n) {
    uint64_t wide = reg, word, mask;
    if (!castagnoli) return kseg_near_crc32_sse(reg, p, n);
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    /* The remaining bytes are processed after zeros, which do not change an empty register: no branch is needed. */
    memcpy(&word, p + n - 8, 8);
    mask = ((uint64_t)1 << 8 * n) - 1;
    word = (word >> (63 - 8 * n) >> 1 ^ wide) & mask;
    return (uint32_t)(wide >> 8 * n) ^ (uint32_t)_mm_crc32_u64(0, word << (63 - 8 * n) << 1);
}

/* Consecutive headers that claim the same end differ only in the last byte of n, so the factor of the other bytes is
 * reused. */
KSEG_SSE KSEG_ALWAYS_INLINE uint32_t kseg_near_shift_sse(int castagnoli, uint32_t reg, uint64_t n,
                                        struct kseg_prefix_table *table) {
    const struct kseg_polynomial *poly = castagnoli ? &kseg_castagnoli : &kseg_ieee;
    if (table->shifted != (long long)(n >> 8) + 1) {
        uint32_t high = poly->power[1][n >> 8 & 255]; /* enough for headers that claim near ends */
        if (n >> 16) high = kseg_multiply_sse(poly, high, poly->power[2][n >> 16 & 255]);
        if (n >> 24) high = kseg_multiply_sse(poly, high, poly->power[3][n >> 24 & 255]); /* no frame has 2^32 bytes */
        table->shifted = (long long)(n >> 8) + 1;
        table->factor = high;
    }
    return kseg_multiply_sse(poly, reg, kseg_multiply_sse(poly, table->factor, poly->power[0][n & 255]));
}

KSEG_AVX2 KSEG_ALWAYS_INLINE __m256i kseg_at_most_256(__m256i x, __m256i most) {
    return _mm256_cmpeq_epi8(_mm256_min_epu8(x, most), x);
}

/* Of 32 positions those that `kseg_could_be_frame` may accept, judged by first and last bytes of fields.
 * `first`: the first bytes of sizes; `is_short`: only their last bytes are not zero. In a message without a key the
 * value has all bytes that the other fields leave of the size; it is null if none are left. */
KSEG_AVX2 KSEG_ALWAYS_INLINE __m256i kseg_plausible_256(const unsigned char *p, __m256i first, __m256i magic,
                                                        __m256i is_short) {
    /* Fields that the size counts; positions of the size of the value if there is no key. */
    enum {
        V0_FIELDS = KSEG_LEAST_SIZE,
        V1_FIELDS = V0_FIELDS + KSEG_V1_TIMESTAMP_BYTES,
        V0_VALUE = KSEG_V0_HEADER_BYTES + KSEG_SIZES_BYTES / 2,
        V1_VALUE = KSEG_V1_HEADER_BYTES + KSEG_SIZES_BYTES / 2
    };
    const __m256i zero = _mm256_setzero_si256(), is_v1 = _mm256_cmpeq_epi8(magic, _mm256_set1_epi8(1));
    const __m256i key = _mm256_blendv_epi8(kseg_load_256(p + KSEG_V0_HEADER_BYTES),
                                            kseg_load_256(p + KSEG_V1_HEADER_BYTES), is_v1);
    const __m256i value = _mm256_blendv_epi8(kseg_load_256(p + V0_VALUE), kseg_load_256(p + V1_VALUE), is_v1);
    const __m256i value_last = _mm256_blendv_epi8(kseg_load_256(p + V0_VALUE + KSEG_LAST_BYTE),
                                                   kseg_load_256(p + V1_VALUE + KSEG_LAST_BYTE), is_v1);
    const __m256i fields = _mm256_blendv_epi8(_mm256_set1_epi8(V0_FIELDS), _mm256_set1_epi8(V1_FIELDS), is_v1);
    const __m256i left = _mm256_sub_epi8(kseg_load_256(p + KSEG_ENTRY_SIZE + KSEG_LAST_BYTE), fields);
    const __m256i is_null = _mm256_and_si256(is_short, _mm256_cmpgt_epi8(zero, value));
    const __m256i fills = _mm256_or_si256(_mm256_cmpeq_epi8(value_last, left), is_null);
    const __m256i message = _mm256_or_si256(kseg_at_most_256(key, first),
                                            _mm256_and_si256(_mm256_cmpgt_epi8(zero, key), fills));
    const __m256i codec = _mm256_and_si256(kseg_load_256(p + KSEG_V2_FLAGS), _mm256_set1_epi8(KSEG_CODEC));
    const __m256i negative = _mm256_or_si256(kseg_load_256(p + KSEG_V2_LAST_OFFSET_DELTA),
                                             kseg_load_256(p + KSEG_V2_COUNT));
    const __m256i batch = _mm256_andnot_si256(_mm256_cmpgt_epi8(zero, negative),
                                              kseg_at_most_256(codec, _mm256_set1_epi8(KSEG_HIGHEST_CODEC)));
    return _mm256_blendv_epi8(message, batch, _mm256_cmpeq_epi8(magic, _mm256_set1_epi8(KSEG_MAGIC_V2)));
}

/* `kseg_could_begin` of 32 positions, with further checks. */
KSEG_AVX2 KSEG_ALWAYS_INLINE uint32_t kseg_marks_of_32(const unsigned char *p, __m256i most, int v07) {
    const unsigned char *size = v07 ? p : p + KSEG_ENTRY_SIZE;
    const __m256i first = kseg_load_256(size), magic = kseg_load_256(p + (v07 ? KSEG_V07_MAGIC : KSEG_ENTRY_MAGIC));
    const __m256i is_known = kseg_at_most_256(magic, _mm256_set1_epi8(v07 ? KSEG_V07_LAST_MAGIC : KSEG_MAGIC_V2));
    const __m256i fits = _mm256_and_si256(kseg_at_most_256(first, most), is_known);
    const __m256i open = _mm256_andnot_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), kseg_load_256(p)), fits);
    const __m256i too_small = _mm256_set1_epi8((v07 ? KSEG_V07_LEAST_SIZE : KSEG_LEAST_SIZE) - 1);
    __m256i is_short, small;
    if (_mm256_testz_si256(open, open)) return 0;
    is_short = _mm256_or_si256(_mm256_or_si256(first, kseg_load_256(size + 1)), kseg_load_256(size + 2));
    is_short = _mm256_cmpeq_epi8(is_short, _mm256_setzero_si256());
    small = _mm256_and_si256(is_short, kseg_at_most_256(kseg_load_256(size + KSEG_LAST_BYTE), too_small));
    small = _mm256_andnot_si256(small, open);
    if (!v07) small = _mm256_and_si256(small, kseg_plausible_256(p, first, magic, is_short));
    return (uint32_t)_mm256_movemask_epi8(small);
}

KSEG_AVX2 KSEG_ALWAYS_INLINE uint64_t kseg_marks_avx2(const unsigned char *p, unsigned char most, int v07) {
    const __m256i each = _mm256_set1_epi8((char)most);
    return kseg_marks_of_32(p, each, v07) | (uint64_t)kseg_marks_of_32(p + 32, each, v07) << 32;
}

/* The same with vectors of 32 bytes instead of 16. */
KSEG_AVX2 static ptrdiff_t kseg_next_avx2(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                          struct kseg_search *search, struct kseg_prefixes *prefixes) {
    return kseg_next_not_wrong_by(p, i, stop, end, v07, search, prefixes, kseg_near_update_sse,
                                  kseg_near_shift_sse, kseg_marks_avx2);
}
#endif

#endif
