/* Where frames could begin, told with vectors of 64 bytes for some thousand positions at a time, and without a branch
 * for each of them: what search.h tells of one.
 */
#ifndef KSEG_WIDE_MARKS_H
#define KSEG_WIDE_MARKS_H

#include "near_checksums.h"

#ifdef KSEG_AVX512_BUILT
#define KSEG_WIDE \
    __attribute__((target(KSEG_SSE_NAMES ",popcnt,avx2,bmi,bmi2,avx512f,avx512vl,avx512bw,avx512vbmi2,vpclmulqdq")))

enum { KSEG_AHEAD_BYTES = 4096 /* a processor by itself stops at the end of a page */ };

KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_load_512(const void *p) {
    return _mm512_loadu_si512(p);
}

KSEG_WIDE KSEG_ALWAYS_INLINE uint64_t kseg_at_most_512(__m512i x, unsigned char most) {
    return _mm512_cmple_epu8_mask(x, _mm512_set1_epi8((char)most));
}

/* kseg_marks_of_32 for 64 positions. */
KSEG_WIDE KSEG_ALWAYS_INLINE uint64_t kseg_marks_512(const unsigned char *p, unsigned char most, int v07) {
    enum { V0_FIELDS = 14, V1_FIELDS = 22 };
    const unsigned char *size = v07 ? p : p + 8;
    const __m512i first = kseg_load_512(size), magic = kseg_load_512(v07 ? p + 4 : p + 16);
    uint64_t open = kseg_at_most_512(first, most) & kseg_at_most_512(magic, v07 ? 1 : 2), is_short, v1, v2;
    __m512i key, value, value_last, fields;
    uint64_t fills, message, batch;
    if (!v07) open &= ~_mm512_movepi8_mask(kseg_load_512(p));
    if (!open) return 0;
    is_short = _mm512_testn_epi8_mask(first, first);
    is_short &= kseg_at_most_512(_mm512_or_si512(kseg_load_512(size + 1), kseg_load_512(size + 2)), 0);
    open &= ~(is_short & kseg_at_most_512(kseg_load_512(size + 3), v07 ? 5 : 13));
    if (v07) return open;
    v1 = _mm512_cmpeq_epi8_mask(magic, _mm512_set1_epi8(1));
    v2 = _mm512_cmpeq_epi8_mask(magic, _mm512_set1_epi8(2));
    key = _mm512_mask_blend_epi8(v1, kseg_load_512(p + 18), kseg_load_512(p + 26));
    value = _mm512_mask_blend_epi8(v1, kseg_load_512(p + 22), kseg_load_512(p + 30));
    value_last = _mm512_mask_blend_epi8(v1, kseg_load_512(p + 25), kseg_load_512(p + 33));
    fields = _mm512_mask_blend_epi8(v1, _mm512_set1_epi8(V0_FIELDS), _mm512_set1_epi8(V1_FIELDS));
    fills = _mm512_cmpeq_epi8_mask(value_last, _mm512_sub_epi8(kseg_load_512(p + 11), fields));
    fills |= is_short & _mm512_movepi8_mask(value);
    message = _mm512_cmple_epu8_mask(key, first) | (_mm512_movepi8_mask(key) & fills);
    batch = kseg_at_most_512(_mm512_and_si512(kseg_load_512(p + 22), _mm512_set1_epi8(7)), 4);
    batch &= ~_mm512_movepi8_mask(_mm512_or_si512(kseg_load_512(p + 23), kseg_load_512(p + 57)));
    return open & ((message & ~v2) | (batch & v2));
}

KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_swap_512(__m512i x) {
    const __m128i order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order));
}

/* Big-endian int32s at p + index. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_be32_512(__mmask16 which, __m512i index, const unsigned char *p) {
    return kseg_swap_512(_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), which, index, p, 1));
}

/* Those at p + index + more, a sum that need not be an int32. */
KSEG_WIDE KSEG_ALWAYS_INLINE __m512i kseg_be32_far_512(__mmask16 which, __m512i index, __m512i more,
                                                       const unsigned char *p) {
    const __m256i none = _mm256_setzero_si256();
    __m512i low = _mm512_add_epi64(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(index)),
                                   _mm512_cvtepu32_epi64(_mm512_castsi512_si256(more)));
    __m512i high = _mm512_add_epi64(_mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(index, 1)),
                                    _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(more, 1)));
    __m256i first = _mm512_mask_i64gather_epi32(none, (__mmask8)which, low, p, 1);
    __m256i second = _mm512_mask_i64gather_epi32(none, (__mmask8)(which >> 8), high, p, 1);
    return kseg_swap_512(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
}

/* 16 positions p + index: the `sizes` of the frames there, and which of them are frames for all that is near. Of
 * `messages` the size of a value is not looked at yet, which lies behind a key that goes from `key_at` on. */
struct kseg_sixteen {
    __m512i index, sizes, key_at, key, room;
    __mmask16 messages, batches;
};

enum { KSEG_FAR_KEY = 1024, KSEG_SIXTEENS_AHEAD = 3 };

/* Those out of `which` that are as kseg_frame_bytes and kseg_could_be_frame tell. `left`: bytes from p on. What is far
 * from there is asked for ahead. */
KSEG_WIDE KSEG_ALWAYS_INLINE void kseg_look_at_16(const unsigned char *p, __m512i index, __mmask16 which,
                                                  ptrdiff_t left, struct kseg_sixteen *found) {
    const __m512i zero = _mm512_setzero_si512(), minus_one = _mm512_set1_epi32(-1);
    const uint32_t room_here = left - 12 > (ptrdiff_t)0xFFFFFFFF ? 0xFFFFFFFFu : (uint32_t)(left - 12);
    const __m512i most = _mm512_sub_epi32(_mm512_set1_epi32((int)room_here), index);
    const __m512i size = kseg_be32_512(which, index, p + 8);
    const __m512i magic = _mm512_srli_epi32(_mm512_mask_i32gather_epi32(zero, which, index, p + 13, 1), 24);
    const __mmask16 v2 = _mm512_cmpeq_epi32_mask(magic, _mm512_set1_epi32(2));
    const __m512i stamps = _mm512_slli_epi32(magic, 3); /* the bytes of a timestamp, if there is one */
    const __m512i fields = _mm512_add_epi32(stamps, _mm512_set1_epi32(14));
    const __m512i least = _mm512_mask_mov_epi32(fields, v2, _mm512_set1_epi32(49));
    __mmask16 messages, batches;
    which &= _mm512_cmpge_epi32_mask(size, least) & _mm512_cmple_epu32_mask(size, most);
    messages = which & ~v2;
    batches = which & v2;
    found->index = index;
    found->sizes = _mm512_add_epi32(size, _mm512_set1_epi32(12));
    if (messages) {
        __mmask16 far;
        found->room = _mm512_sub_epi32(size, fields);
        found->key_at = _mm512_add_epi32(index, stamps);
        found->key = _mm512_max_epi32(kseg_be32_512(messages, found->key_at, p + 18), zero);
        messages &= _mm512_cmple_epi32_mask(found->key, found->room);
        far = messages & _mm512_cmpgt_epi32_mask(found->key, _mm512_set1_epi32(KSEG_FAR_KEY));
        if (far) {
            uint32_t at[16], key[16];
            _mm512_storeu_si512(at, found->key_at);
            _mm512_storeu_si512(key, found->key);
            for (; far; far &= far - 1) {
                const int k = (int)_tzcnt_u32(far);
                _mm_prefetch((const char *)p + at[k] + 22 + key[k], _MM_HINT_T0);
            }
        }
    }
    if (batches) {
        const __m512i attributes = kseg_be32_512(batches, index, p + 20), id = kseg_be32_512(batches, index, p + 43);
        const __m512i count = kseg_be32_512(batches, index, p + 57);
        const __m512i codec = _mm512_and_si512(_mm512_srli_epi32(attributes, 8), _mm512_set1_epi32(7));
        const __mmask16 no_id = _mm512_cmpeq_epi32_mask(id, minus_one);
        batches &= _mm512_cmple_epi32_mask(codec, _mm512_set1_epi32(4));
        batches &= _mm512_testn_epi32_mask(attributes, _mm512_set1_epi32(0x80));
        batches &= _mm512_cmpge_epi32_mask(count, zero);
        batches &= _mm512_cmpge_epi32_mask(kseg_be32_512(batches, index, p + 53), minus_one);
        batches &= _mm512_cmpge_epi32_mask(id, zero) |
                   (no_id & _mm512_cmpeq_epi32_mask(kseg_be32_512(batches & no_id, index, p + 47), minus_one));
    }
    found->messages = messages;
    found->batches = batches;
}

/* Which of them are frames. */
KSEG_WIDE KSEG_ALWAYS_INLINE __mmask16 kseg_judge_16(const unsigned char *p, const struct kseg_sixteen *found) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i value;
    if (!found->messages) return found->batches;
    value = _mm512_max_epi32(kseg_be32_far_512(found->messages, found->key_at, found->key, p + 22), zero);
    return found->batches | (found->messages &
                             _mm512_cmpeq_epi32_mask(_mm512_add_epi32(found->key, value), found->room));
}

/* The positions from `base` on that are marked, written to `at`; how many there are. It ends at `until`, or earlier
 * where bytes that repeat themselves are passed over: `ahead` is where to go on. */
KSEG_WIDE KSEG_ALWAYS_INLINE uint32_t kseg_gather_marks(const unsigned char *p, ptrdiff_t until, ptrdiff_t stop,
                                                        ptrdiff_t end, int v07, struct kseg_search *search) {
    const __m512i places = _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45,
                                           44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26,
                                           25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6,
                                           5, 4, 3, 2, 1, 0);
    uint32_t n = 0, k;
    ptrdiff_t ahead = search->base;
    for (; ahead < until; ahead += KSEG_LANES) {
        uint64_t marks = kseg_marks(p, ahead, stop, end, v07, kseg_marks_512);
        __m512i origin, found;
        _mm_prefetch((const char *)p + ahead + KSEG_AHEAD_BYTES, _MM_HINT_T0);
        if (!marks) continue;
        if (kseg_repeats_here(p, ahead, stop, search->start)) {
            ptrdiff_t next = kseg_behind_repeats(p, ahead, stop, end, v07, marks, &search->repeats);
            if (next > ahead) {
                search->start = next;
                ahead = next;
                break;
            }
        }
        origin = _mm512_set1_epi32((int)(ahead - search->base));
        found = _mm512_maskz_compress_epi8(marks, places);
        for (k = (uint32_t)_mm_popcnt_u64(marks);; k -= 16) {
            const __m512i positions = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(found));
            _mm512_storeu_si512(search->at + n, _mm512_add_epi32(positions, origin));
            if (k <= 16) break;
            n += 16;
            found = _mm512_shuffle_i64x2(found, found, 0x39); /* the next 16 of them come first */
        }
        n += k;
    }
    search->ahead = ahead;
    return n;
}

/* Of the first n positions of a search those that kseg_could_be_frame leaves. */
KSEG_WIDE KSEG_ALWAYS_INLINE void kseg_sift(const unsigned char *p, uint32_t n, ptrdiff_t end, int v07,
                                            struct kseg_search *search) {
    const unsigned char *base = p + search->base;
    uint32_t k, left = 0;
    if (v07) {
        for (k = 0; k < n; k++) {
            ptrdiff_t at = search->base + search->at[k];
            int64_t size = kseg_frame_bytes(p, at, end, 1);
            search->at[left] = search->at[k];
            search->size[left] = (uint32_t)size;
            left += size && kseg_could_be_frame(p, at, size, 1);
        }
    } else {
        struct kseg_sixteen some[KSEG_SIXTEENS_AHEAD + 1];
        const uint32_t groups = (n + 15) / 16;
        for (k = 0; k < groups + KSEG_SIXTEENS_AHEAD; k++) {
            const struct kseg_sixteen *before;
            __mmask16 found;
            if (k < groups) {
                const __mmask16 all = n - 16 * k < 16 ? (__mmask16)((1u << (n - 16 * k)) - 1) : (__mmask16)0xFFFF;
                kseg_look_at_16(base, kseg_load_512(search->at + 16 * k), all, end - search->base,
                                &some[k % (KSEG_SIXTEENS_AHEAD + 1)]);
            }
            if (k < KSEG_SIXTEENS_AHEAD) continue;
            before = &some[(k - KSEG_SIXTEENS_AHEAD) % (KSEG_SIXTEENS_AHEAD + 1)];
            found = kseg_judge_16(base, before);
            _mm512_storeu_si512(search->at + left, _mm512_maskz_compress_epi32(found, before->index));
            _mm512_storeu_si512(search->size + left, _mm512_maskz_compress_epi32(found, before->sizes));
            left += (uint32_t)_mm_popcnt_u32(found);
        }
    }
    /* Its end is what a checksum waits for: wherever that is, it is asked for ahead. */
    for (k = 0; k < left; k++) {
        const char *last = (const char *)base + search->at[k] + search->size[k] - 1;
        int back;
        for (back = 0; back < KSEG_PREFIX_BLOCK; back += KSEG_LANES) _mm_prefetch(last - back, _MM_HINT_T0);
    }
    search->next = 0;
    search->count = left;
    search->blocks[0] = search->blocks[1] = 0;
}
#endif

#endif
