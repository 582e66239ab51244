/* CRC-32C and CRC-32 by the CRC instructions of ARMv8, and by PMULL, the product of polynomials, where the processor
 * has it. Only checksum.h includes this.
 *
 * ARM has instructions for both polynomials, so one set of loops serves both: three interleaved streams, which
 * checksum_x86.h has for CRC-32C only. `castagnoli` is a constant wherever these functions are inlined.
 */
#ifndef KSEG_CHECKSUM_ARM_H
#define KSEG_CHECKSUM_ARM_H

#include <arm_neon.h>

#if defined(__clang__)
#define KSEG_ARM_CRC __attribute__((target("crc")))
#define KSEG_ARM_PMULL __attribute__((target("crc,aes")))
#define kseg_arm_castagnoli_8(reg, word) __builtin_arm_crc32cd(reg, word)
#define kseg_arm_castagnoli_4(reg, word) __builtin_arm_crc32cw(reg, word)
#define kseg_arm_castagnoli_1(reg, byte) __builtin_arm_crc32cb(reg, byte)
#define kseg_arm_ieee_8(reg, word) __builtin_arm_crc32d(reg, word)
#define kseg_arm_ieee_4(reg, word) __builtin_arm_crc32w(reg, word)
#define kseg_arm_ieee_1(reg, byte) __builtin_arm_crc32b(reg, byte)
#else
#define KSEG_ARM_CRC __attribute__((target("+crc")))
#define KSEG_ARM_PMULL __attribute__((target("+crc+crypto")))
#define kseg_arm_castagnoli_8(reg, word) __builtin_aarch64_crc32cx(reg, word)
#define kseg_arm_castagnoli_4(reg, word) __builtin_aarch64_crc32cw(reg, word)
#define kseg_arm_castagnoli_1(reg, byte) __builtin_aarch64_crc32cb(reg, byte)
#define kseg_arm_ieee_8(reg, word) __builtin_aarch64_crc32x(reg, word)
#define kseg_arm_ieee_4(reg, word) __builtin_aarch64_crc32w(reg, word)
#define kseg_arm_ieee_1(reg, byte) __builtin_aarch64_crc32b(reg, byte)
#endif

/* The product of two registers, one of the two functions below. */
typedef uint32_t (*kseg_arm_product)(int castagnoli, uint32_t a, uint32_t b);

KSEG_ARM_CRC KSEG_ALWAYS_INLINE uint32_t kseg_arm_step(int castagnoli, uint32_t reg, const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return castagnoli ? kseg_arm_castagnoli_8(reg, word) : kseg_arm_ieee_8(reg, word);
}

KSEG_ALWAYS_INLINE uint32_t kseg_arm_by_table(int castagnoli, uint32_t a, uint32_t b) {
    return kseg_multiply(castagnoli ? &kseg_castagnoli : &kseg_ieee, a, b);
}

/* A step over the lower half of a product divides it by the polynomial. */
KSEG_ARM_PMULL KSEG_ALWAYS_INLINE uint32_t kseg_arm_by_pmull(int castagnoli, uint32_t a, uint32_t b) {
    const uint64_t product = vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64((poly64_t)a, (poly64_t)b)), 0) << 1;
    const uint32_t low = (uint32_t)product;
    return (uint32_t)(product >> 32) ^ (castagnoli ? kseg_arm_castagnoli_4(0, low) : kseg_arm_ieee_4(0, low));
}

/* The register behind three streams of `lane` bytes side by side, which hide the latency of the instructions. */
KSEG_ARM_CRC KSEG_ALWAYS_INLINE uint32_t kseg_arm_streams(int castagnoli, uint32_t reg, const unsigned char *p,
                                                          size_t lane, uint32_t by_one, uint32_t by_two,
                                                          kseg_arm_product product) {
    uint32_t second = 0, third = 0;
    size_t i;
    for (i = 0; i < lane; i += 8) {
        reg = kseg_arm_step(castagnoli, reg, p + i);
        second = kseg_arm_step(castagnoli, second, p + lane + i);
        third = kseg_arm_step(castagnoli, third, p + 2 * lane + i);
    }
    return product(castagnoli, reg, by_two) ^ product(castagnoli, second, by_one) ^ third;
}

/* `is_quick`: a product costs less than what streams of 128 bytes save. */
KSEG_ARM_CRC KSEG_ALWAYS_INLINE uint32_t kseg_arm_crc(int castagnoli, uint32_t reg, const unsigned char *p, size_t n,
                                                      int is_quick, kseg_arm_product product) {
    enum { LONG = 1024, SHORT = 128 };
    const struct kseg_polynomial *poly = castagnoli ? &kseg_castagnoli : &kseg_ieee;
    for (; n >= 3 * LONG; p += 3 * LONG, n -= 3 * LONG)
        reg = kseg_arm_streams(castagnoli, reg, p, LONG, poly->power[1][LONG / 256], poly->power[1][2 * LONG / 256],
                               product);
    for (; is_quick && n >= 3 * SHORT; p += 3 * SHORT, n -= 3 * SHORT)
        reg = kseg_arm_streams(castagnoli, reg, p, SHORT, poly->power[0][SHORT], poly->power[1][2 * SHORT / 256],
                               product);
    for (; n >= 8; p += 8, n -= 8) reg = kseg_arm_step(castagnoli, reg, p);
    for (; n; p++, n--) reg = castagnoli ? kseg_arm_castagnoli_1(reg, *p) : kseg_arm_ieee_1(reg, *p);
    return reg;
}

KSEG_ARM_CRC static inline uint32_t kseg_crc32c_arm(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_arm_crc(1, reg, p, n, 0, kseg_arm_by_table);
}

KSEG_ARM_CRC static inline uint32_t kseg_crc32_arm(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_arm_crc(0, reg, p, n, 0, kseg_arm_by_table);
}

KSEG_ARM_PMULL static inline uint32_t kseg_crc32c_pmull(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_arm_crc(1, reg, p, n, 1, kseg_arm_by_pmull);
}

KSEG_ARM_PMULL static inline uint32_t kseg_crc32_pmull(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_arm_crc(0, reg, p, n, 1, kseg_arm_by_pmull);
}

/* kseg_shift_table with one instruction for a product. */
KSEG_ARM_PMULL static inline uint32_t kseg_shift_pmull(const struct kseg_polynomial *poly, uint32_t reg, uint64_t n) {
    const int castagnoli = poly == &kseg_castagnoli;
    int k;
    if (n >= poly->order) n %= poly->order;
    for (k = 0; n; n >>= 8, k++)
        if (n & 255) reg = kseg_arm_by_pmull(castagnoli, reg, poly->power[k][n & 255]);
    return reg;
}

#endif
