/* The renderers' two densest loops for x86-64 processors that can shuffle bytes (SSSE3), or take single ones out of 64
 * (AVX-512 VBMI2), chosen at run time.
 *
 * Bytes that are no text make up most of many logs. As text nearly every second of them becomes three, as JSON all of
 * them become base64. Only escape.h includes this.
 */
#ifndef KSEG_SHUFFLE_H
#define KSEG_SHUFFLE_H

#if defined(KSEG_SSE2) && (defined(__GNUC__) || defined(__clang__))
#define KSEG_SHUFFLES 1
#include <tmmintrin.h>
#define KSEG_SSSE3 __attribute__((target("ssse3")))

#define KSEG_WITH_SSSE3 1
#define KSEG_WITH_VBMI2 2
#if defined(__x86_64__) && (__GNUC__ >= 8 || defined(__clang__))
#define KSEG_COMPRESSES 1
#include <immintrin.h>
#define KSEG_VBMI2 __attribute__((target("ssse3,bmi,bmi2,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi2")))
#endif

static int kseg_can_shuffle; /* one of these; set by kseg_shuffle_setup, and by tests of the loops that do without */
static __m128i kseg_spread_table[16];

/* Entry m spreads four bytes: bit k says that byte k stays, else U+FFFD (source bytes 4 to 6) takes its place. */
static inline void kseg_shuffle_setup(void) {
    int m, k;
    for (m = 0; m < 16; m++) {
        unsigned char lanes[16] = {0};
        int at = 0;
        for (k = 0; k < 4; k++) {
            if (m >> k & 1) {
                lanes[at++] = (unsigned char)k;
            } else {
                lanes[at++] = 4;
                lanes[at++] = 5;
                lanes[at++] = 6;
            }
        }
        memcpy(&kseg_spread_table[m], lanes, 16);
    }
    __builtin_cpu_init();
    kseg_can_shuffle = __builtin_cpu_supports("ssse3") ? KSEG_WITH_SSSE3 : 0;
#ifdef KSEG_COMPRESSES
    if (kseg_can_shuffle && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi2"))
        kseg_can_shuffle = KSEG_WITH_VBMI2;
#endif
}

static inline int kseg_ones16(unsigned bits) {
    bits = bits - (bits >> 1 & 0x5555u);
    bits = (bits & 0x3333u) + (bits >> 2 & 0x3333u);
    bits = (bits + (bits >> 4)) & 0x0F0Fu;
    return (int)((bits + (bits >> 8)) & 31);
}

/* Writes the 16 bytes at p where `raw` has a bit, else U+FFFD, 64 bytes at most; the place behind the first `used`. */
KSEG_SSSE3 KSEG_LOCAL Py_ssize_t kseg_spread16(unsigned char *out, Py_ssize_t o, const unsigned char *p, unsigned raw,
                                                int used) {
    const __m128i replacement = _mm_cvtsi32_si128(0xBDBFEF);
    const Py_ssize_t end = o + used + 2 * kseg_ones16(~raw & ((1u << used) - 1));
    int k;
    for (k = 0; k < 4; k++) {
        const unsigned m = raw >> (4 * k) & 15;
        int four;
        __m128i x;
        memcpy(&four, p + 4 * k, 4);
        x = _mm_unpacklo_epi32(_mm_cvtsi32_si128(four), replacement);
        _mm_storeu_si128((__m128i *)(out + o), _mm_shuffle_epi8(x, kseg_spread_table[m]));
        o += 12 - 2 * (Py_ssize_t)(UINT64_C(0x4332322132212110) >> (4 * m) & 15);
    }
    return end;
}

#ifdef KSEG_COMPRESSES
/* The same of the first `used` bytes in x, but for those that are `gone`: each is widened to four, of which one, three
 * or none stay. */
KSEG_VBMI2 KSEG_LOCAL Py_ssize_t kseg_compress16(unsigned char *out, Py_ssize_t o, __m128i x, unsigned raw,
                                                  unsigned gone, int used) {
    const unsigned first = ~gone & ((1u << used) - 1), others = ~raw & first;
    const uint64_t ones = UINT64_C(0x1111111111111111);
    const __m512i wide = _mm512_mask_cvtepu8_epi32(_mm512_set1_epi32(0xBDBFEF), (__mmask16)raw, x);
    const uint64_t kept = _pdep_u64(first, ones) | _pdep_u64(others, ones) * 6;
    _mm512_storeu_si512(out + o, _mm512_maskz_compress_epi8(kept, wide));
    return o + (Py_ssize_t)_mm_popcnt_u32(first) + 2 * (Py_ssize_t)_mm_popcnt_u32(others);
}
#endif

/* Whole groups of twelve bytes as base64, sixteen letters each; the number of bytes used. Four bytes more than those
 * are read, so at least the last four are left. */
KSEG_SSSE3 KSEG_APART static Py_ssize_t kseg_base64_groups(unsigned char *out, const unsigned char *p, Py_ssize_t n) {
    const __m128i thirds = _mm_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    /* What to add to a six-bit number: by 0 for 26 to 51, 1 to 12 for 52 to 63, 13 for 0 to 25. */
    const __m128i distances =
        _mm_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
                      '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0);
    Py_ssize_t i = 0;
    for (; n - i >= 16; i += 12, out += 16) {
        const __m128i x = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + i)), thirds);
        /* Multiplying by a power of two shifts each 16-bit lane by its own distance. */
        const __m128i odd = _mm_mulhi_epu16(_mm_and_si128(x, _mm_set1_epi32(0x0FC0FC00)), _mm_set1_epi32(0x04000040));
        const __m128i even = _mm_mullo_epi16(_mm_and_si128(x, _mm_set1_epi32(0x003F03F0)), _mm_set1_epi32(0x01000010));
        const __m128i sextets = _mm_or_si128(odd, even);
        const __m128i upper_case = _mm_cmpgt_epi8(_mm_set1_epi8(26), sextets);
        const __m128i rows = _mm_or_si128(_mm_subs_epu8(sextets, _mm_set1_epi8(51)),
                                          _mm_and_si128(upper_case, _mm_set1_epi8(13)));
        _mm_storeu_si128((__m128i *)out, _mm_add_epi8(sextets, _mm_shuffle_epi8(distances, rows)));
    }
    return i;
}
#else
static int kseg_can_shuffle;

static inline void kseg_shuffle_setup(void) {
}
#endif

#endif
