/* CRC-32C and CRC-32 by the CRC32 instruction and PCLMULQDQ of x86-64. Only checksum.h includes this.
 *
 * The folding follows Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"
 * (Intel, 2009); three interleaved streams follow Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
 * Instruction" (Intel, 2011).
 */
#ifndef KSEG_CHECKSUM_X86_H
#define KSEG_CHECKSUM_X86_H

#include <immintrin.h>

#if defined(__clang__) && __clang_major__ >= 14
#define KSEG_SSE_NAMES "sse4.2,pclmul,crc32" /* a feature apart there, and off where the command line says so */
#else
#define KSEG_SSE_NAMES "sse4.2,pclmul"
#endif
#define KSEG_SSE __attribute__((target(KSEG_SSE_NAMES)))

KSEG_SSE KSEG_INLINE uint32_t kseg_serial_sse(uint64_t reg, const unsigned char *p, size_t n) {
    uint64_t word = 0;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        reg = _mm_crc32_u64(reg, word);
    }
    if (n & 4) {
        uint32_t half;
        memcpy(&half, p, 4);
        reg = _mm_crc32_u32((uint32_t)reg, half);
        p += 4;
    }
    if (n & 2) {
        uint16_t quarter;
        memcpy(&quarter, p, 2);
        reg = _mm_crc32_u16((uint32_t)reg, quarter);
        p += 2;
    }
    if (n & 1) reg = _mm_crc32_u8((uint32_t)reg, *p);
    return (uint32_t)reg;
}

KSEG_SSE KSEG_INLINE uint64_t kseg_product_sse(uint64_t a, uint32_t b) {
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi32_si128((int)b), 0x00);
    return (uint64_t)_mm_cvtsi128_si64(product) << 1;
}

enum { KSEG_LONGEST_LANE = 1024, KSEG_CACHE_LINE = 64 };

/* Three streams of `lane` bytes side by side hide the latency of the CRC32 instruction. The hardware prefetcher does
 * not follow streams this short. So bytes further ahead are prefetched by hand, which doubles the speed on uncached
 * data; a prefetch beyond the end of the buffer does no harm. */
KSEG_SSE KSEG_INLINE uint64_t kseg_streams_sse(uint64_t reg, const unsigned char *p, size_t lane,
                                                      uint32_t by_one, uint32_t by_two) {
    uint64_t second = 0, third = 0, merged;
    size_t i, line;
    for (line = 0; line < lane; line += KSEG_CACHE_LINE) {
        const char *ahead = (const char *)p + 3 * KSEG_LONGEST_LANE + line;
        _mm_prefetch(ahead, _MM_HINT_T0);
        _mm_prefetch(ahead + lane, _MM_HINT_T0);
        _mm_prefetch(ahead + 2 * lane, _MM_HINT_T0);
        for (i = line; i < line + KSEG_CACHE_LINE; i += 8) {
            uint64_t a, b, c;
            memcpy(&a, p + i, 8);
            memcpy(&b, p + lane + i, 8);
            memcpy(&c, p + 2 * lane + i, 8);
            reg = _mm_crc32_u64(reg, a);
            second = _mm_crc32_u64(second, b);
            third = _mm_crc32_u64(third, c);
        }
    }
    merged = kseg_product_sse(reg, by_two) ^ kseg_product_sse(second, by_one);
    return merged >> 32 ^ _mm_crc32_u32(0, (uint32_t)merged) ^ third;
}

KSEG_SSE static inline uint32_t kseg_crc32c_sse(uint32_t reg, const unsigned char *p, size_t n) {
    enum { LONG = KSEG_LONGEST_LANE, MIDDLE = 256, SHORT = KSEG_CACHE_LINE };
    const uint32_t *bytes = kseg_castagnoli.power[0], *blocks = kseg_castagnoli.power[1];
    uint64_t wide = reg;
    for (; n >= 3 * LONG; p += 3 * LONG, n -= 3 * LONG)
        wide = kseg_streams_sse(wide, p, LONG, blocks[LONG / 256], blocks[2 * LONG / 256]);
    for (; n >= 3 * MIDDLE; p += 3 * MIDDLE, n -= 3 * MIDDLE)
        wide = kseg_streams_sse(wide, p, MIDDLE, blocks[MIDDLE / 256], blocks[2 * MIDDLE / 256]);
    for (; n >= 3 * SHORT; p += 3 * SHORT, n -= 3 * SHORT)
        wide = kseg_streams_sse(wide, p, SHORT, bytes[SHORT], bytes[2 * SHORT]);
    return kseg_serial_sse(wide, p, n);
}

KSEG_SSE KSEG_INLINE __m128i kseg_fold_128(__m128i x, __m128i factors, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(x, factors, 0x00), high = _mm_clmulepi64_si128(x, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

KSEG_SSE KSEG_INLINE __m128i kseg_load_128(const void *p) {
    return _mm_loadu_si128((const __m128i *)p);
}

/* Folds on to the end. 128 folded bits are a message of 16 bytes that begins with an empty register. */
KSEG_SSE KSEG_INLINE uint32_t kseg_finish_ieee(__m128i x, const unsigned char *p, size_t n) {
    const __m128i factors = kseg_load_128(kseg_ieee.fold_16);
    unsigned char folded[16];
    for (; n >= 16; p += 16, n -= 16) x = kseg_fold_128(x, factors, kseg_load_128(p));
    _mm_storeu_si128((__m128i *)folded, x);
    return kseg_crc32_table(kseg_crc32_table(0, folded, 16), p, n);
}

/* Always inline: where the upper halves of AVX's registers are in use, a call from code compiled for it is slow. */
KSEG_SSE KSEG_INLINE uint32_t kseg_crc32_sse(uint32_t reg, const unsigned char *p, size_t n) {
    __m128i x0;
    if (n < 16) return kseg_crc32_table(reg, p, n);
    x0 = _mm_xor_si128(kseg_load_128(p), _mm_cvtsi32_si128((int)reg));
    if (n >= 128) {
        const __m128i ahead = kseg_load_128(kseg_ieee.fold_64), beside = kseg_load_128(kseg_ieee.fold_16);
        __m128i x1 = kseg_load_128(p + 16), x2 = kseg_load_128(p + 32), x3 = kseg_load_128(p + 48);
        for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
            x0 = kseg_fold_128(x0, ahead, kseg_load_128(p));
            x1 = kseg_fold_128(x1, ahead, kseg_load_128(p + 16));
            x2 = kseg_fold_128(x2, ahead, kseg_load_128(p + 32));
            x3 = kseg_fold_128(x3, ahead, kseg_load_128(p + 48));
        }
        x0 = kseg_fold_128(kseg_fold_128(kseg_fold_128(x0, beside, x1), beside, x2), beside, x3);
        return kseg_finish_ieee(x0, p, n);
    }
    return kseg_finish_ieee(x0, p + 16, n - 16);
}

#endif
