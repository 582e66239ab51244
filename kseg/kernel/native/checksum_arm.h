/* CRC-32C and CRC-32 by the CRC instructions of ARMv8. Only checksum.h includes this.
 *
 * ARM has instructions for both polynomials, so one set of loops serves both: three interleaved streams, which
 * checksum_x86.h has for CRC-32C only. `castagnoli` is a constant wherever these functions are inlined.
 */
#ifndef KSEG_CHECKSUM_ARM_H
#define KSEG_CHECKSUM_ARM_H

#if defined(__clang__)
#define KSEG_ARM_CRC __attribute__((target("crc")))
#define kseg_arm_castagnoli_8(reg, word) __builtin_arm_crc32cd(reg, word)
#define kseg_arm_castagnoli_1(reg, byte) __builtin_arm_crc32cb(reg, byte)
#define kseg_arm_ieee_8(reg, word) __builtin_arm_crc32d(reg, word)
#define kseg_arm_ieee_1(reg, byte) __builtin_arm_crc32b(reg, byte)
#else
#define KSEG_ARM_CRC __attribute__((target("+crc")))
#define kseg_arm_castagnoli_8(reg, word) __builtin_aarch64_crc32cx(reg, word)
#define kseg_arm_castagnoli_1(reg, byte) __builtin_aarch64_crc32cb(reg, byte)
#define kseg_arm_ieee_8(reg, word) __builtin_aarch64_crc32x(reg, word)
#define kseg_arm_ieee_1(reg, byte) __builtin_aarch64_crc32b(reg, byte)
#endif

KSEG_ARM_CRC KSEG_INLINE uint32_t kseg_arm_step(int castagnoli, uint32_t reg, const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return castagnoli ? kseg_arm_castagnoli_8(reg, word) : kseg_arm_ieee_8(reg, word);
}

/* The register behind three streams of `lane` bytes side by side, which hide the latency of the instructions. */
KSEG_ARM_CRC KSEG_INLINE uint32_t kseg_arm_streams(int castagnoli, uint32_t reg, const unsigned char *p,
                                                          size_t lane, uint32_t by_one, uint32_t by_two) {
    const struct kseg_polynomial *poly = castagnoli ? &kseg_castagnoli : &kseg_ieee;
    uint32_t second = 0, third = 0;
    size_t i;
    for (i = 0; i < lane; i += 8) {
        reg = kseg_arm_step(castagnoli, reg, p + i);
        second = kseg_arm_step(castagnoli, second, p + lane + i);
        third = kseg_arm_step(castagnoli, third, p + 2 * lane + i);
    }
    return kseg_multiply(poly, reg, by_two) ^ kseg_multiply(poly, second, by_one) ^ third;
}

KSEG_ARM_CRC KSEG_INLINE uint32_t kseg_arm_crc(int castagnoli, uint32_t reg, const unsigned char *p, size_t n) {
    enum { LANE = 1024 };
    const uint32_t *power = castagnoli ? kseg_castagnoli.power[1] : kseg_ieee.power[1];
    for (; n >= 3 * LANE; p += 3 * LANE, n -= 3 * LANE)
        reg = kseg_arm_streams(castagnoli, reg, p, LANE, power[LANE / 256], power[2 * LANE / 256]);
    for (; n >= 8; p += 8, n -= 8) reg = kseg_arm_step(castagnoli, reg, p);
    for (; n; p++, n--) reg = castagnoli ? kseg_arm_castagnoli_1(reg, *p) : kseg_arm_ieee_1(reg, *p);
    return reg;
}

KSEG_ARM_CRC static inline uint32_t kseg_crc32c_arm(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_arm_crc(1, reg, p, n);
}

KSEG_ARM_CRC static inline uint32_t kseg_crc32_arm(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_arm_crc(0, reg, p, n);
}

#endif
