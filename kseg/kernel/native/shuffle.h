/* The renderers' two most frequent loops, for x86-64 processors with AVX2; chosen at run time.
 *
 * Many logs consist mostly of binary data. In text, nearly every second byte of it becomes three bytes; in JSON it
 * becomes base64. Only escape.h includes this.
 */
#ifndef KSEG_SHUFFLE_H
#define KSEG_SHUFFLE_H

#if defined(KSEG_SSE2) && defined(KSEG_X86)
#define KSEG_SHUFFLES 1
#include <immintrin.h>
#define KSEG_WITH_AVX2 __attribute__((target("avx2")))

enum { KSEG_BLOCK = 32, KSEG_REMOVED = 0x80 /* as an index it shuffles in a zero */ };

static int kseg_can_shuffle; /* set by kseg_shuffle_setup, and by tests of the other loops */

/* The output of four bytes: entry m keeps byte k if bit k of m is set, drops it if bit 4 + k is set, and else replaces
 * it by U+FFFD (source bytes 4 to 6). */
static struct {
    unsigned char lanes[16];
} kseg_spread_table[256];
static unsigned char kseg_spread_bytes[256];

static inline void kseg_shuffle_setup(void) {
    int m, k;
    for (m = 0; m < 256; m++) {
        unsigned char *lanes = kseg_spread_table[m].lanes;
        int at = 0;
        memset(lanes, KSEG_REMOVED, 16);
        for (k = 0; k < 4; k++) {
            if (m >> (4 + k) & 1) continue;
            if (m >> k & 1) {
                lanes[at++] = (unsigned char)k;
            } else {
                lanes[at++] = 4;
                lanes[at++] = 5;
                lanes[at++] = 6;
            }
        }
        kseg_spread_bytes[m] = (unsigned char)at;
    }
    kseg_can_shuffle = kseg_cpu_has_avx2();
}

/* The last `size` < 32 bytes at p, padded with zeros; no byte after them is read. */
KSEG_WITH_AVX2 KSEG_LOCAL __m256i kseg_load_last(const unsigned char *p, int size) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), whole = _mm256_set1_epi32(size / 4);
    const __m256i x = _mm256_maskload_epi32((const int *)p, _mm256_cmpgt_epi32(whole, lanes));
    const int left = size % 4;
    unsigned bytes;
    if (!left) return x;
    p += size - left;
    bytes = (unsigned)p[0] | (unsigned)p[left / 2] << 8 * (left / 2) | (unsigned)p[left - 1] << 8 * (left - 1);
    return _mm256_or_si256(x, _mm256_and_si256(_mm256_cmpeq_epi32(whole, lanes), _mm256_set1_epi32((int)bytes)));
}

/* Writes the first `used` bytes at p: unchanged for a bit in `raw`, nothing for a bit in `gone`, else U+FFFD. Returns
 * the position after the output. Reads up to three more bytes, which are `gone`, and touches 16 bytes after the
 * output. */
KSEG_WITH_AVX2 KSEG_LOCAL Py_ssize_t kseg_spread(unsigned char *out, Py_ssize_t o, const unsigned char *p, int used,
                                                 uint32_t raw, uint32_t gone) {
    const __m128i replacement = _mm_cvtsi32_si128(0xBDBFEF);
    int k;
#pragma GCC unroll 8
    for (k = 0; k < used; k += 4) {
        const unsigned m = (raw >> k & 15) | (gone >> k & 15) << 4;
        int four;
        __m128i x;
        memcpy(&four, p + k, 4);
        x = _mm_unpacklo_epi32(_mm_cvtsi32_si128(four), replacement);
        x = _mm_shuffle_epi8(x, _mm_loadu_si128((const __m128i *)kseg_spread_table[m].lanes));
        _mm_storeu_si128((__m128i *)(out + o), x);
        o += kseg_spread_bytes[m];
    }
    return o;
}

/* Writes groups of twelve bytes as base64, sixteen letters each. Returns the number of bytes used. Four bytes after a
 * group are read too, so at least the last four bytes remain. */
KSEG_WITH_AVX2 KSEG_APART static Py_ssize_t kseg_base64_groups(unsigned char *out, const unsigned char *p,
                                                               Py_ssize_t n) {
    const __m128i thirds = _mm_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    /* The summand of a six-bit number: index 0 for 26 to 51, 1 to 12 for 52 to 63, 13 for 0 to 25. */
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
