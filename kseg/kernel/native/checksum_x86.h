/* CRC-32C by the CRC32 instruction and PCLMULQDQ of x86-64, in three interleaved streams. Only checksum.h includes
 * this.
 *
 * Source: Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction" (Intel, 2011).
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

#endif
