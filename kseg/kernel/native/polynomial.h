/* The two polynomials of Kafka's checksums, CRC-32C (Castagnoli) and CRC-32 (IEEE 802.3), and arithmetic modulo either.
 *
 * A 32-bit register is a polynomial over GF(2) of degree < 32, reflected: bit 31 is x^0, bit 0 is x^31. Appending n
 * zero bytes multiplies it by x^(8n) modulo the CRC's polynomial. A carry-less product of two reflected registers has
 * its x^0 at bit 62 of 64, hence the shifts by one. "Register" means the CRC before its final inversion.
 *
 * The tables follow Kounavis and Berry, "Novel Table Lookup-Based Algorithms for High-Performance CRC Generation"
 * (2008).
 */
#ifndef KSEG_POLYNOMIAL_H
#define KSEG_POLYNOMIAL_H

#include <stddef.h>
#include <stdint.h>

#include "cpu.h"

struct kseg_polynomial {
    const uint32_t reflected;
    uint32_t table[8][256];   /* [k][b]: what byte b leaves in the register k zero bytes later */
    uint32_t power[4][256];   /* [k][d]: x^(8 * d * 256^k) */
};

static struct kseg_polynomial kseg_castagnoli = {0x82f63b78u, {{0}}, {{0}}};
static struct kseg_polynomial kseg_ieee = {0xedb88320u, {{0}}, {{0}}};

/* ---- slicing by 8 ---- */

static inline uint32_t kseg_le32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t kseg_le64(const unsigned char *p) {
    return (uint64_t)kseg_le32(p) | (uint64_t)kseg_le32(p + 4) << 32;
}

KSEG_INLINE uint32_t kseg_step4(const struct kseg_polynomial *poly, uint32_t word) {
    return poly->table[3][word & 255] ^ poly->table[2][word >> 8 & 255] ^ poly->table[1][word >> 16 & 255] ^
           poly->table[0][word >> 24];
}

KSEG_INLINE uint32_t kseg_step8(const struct kseg_polynomial *poly, uint64_t word) {
    return poly->table[7][word & 255] ^ poly->table[6][word >> 8 & 255] ^ poly->table[5][word >> 16 & 255] ^
           poly->table[4][word >> 24 & 255] ^ kseg_step4(poly, (uint32_t)(word >> 32));
}

static inline uint32_t kseg_by_table(const struct kseg_polynomial *poly, uint32_t reg, const unsigned char *p,
                                     size_t n) {
    for (; n >= 8; p += 8, n -= 8) reg = kseg_step8(poly, kseg_le64(p) ^ reg);
    if (n & 4) {
        reg = kseg_step4(poly, kseg_le32(p) ^ reg);
        p += 4;
        n -= 4;
    }
    for (; n; p++, n--) reg = poly->table[0][(reg ^ *p) & 255] ^ reg >> 8;
    return reg;
}

/* ---- arithmetic modulo the polynomial ---- */

/* a * b, four bits of b at a time; needs poly->table. */
static inline uint32_t kseg_multiply(const struct kseg_polynomial *poly, uint32_t a, uint32_t b) {
    uint64_t multiple[16], product = 0;
    int i;
    multiple[0] = 0;
    multiple[1] = (uint64_t)a << 1;
    for (i = 2; i < 16; i += 2) {
        multiple[i] = multiple[i / 2] << 1;
        multiple[i + 1] = multiple[i] ^ multiple[1];
    }
    for (i = 28; i >= 0; i -= 4) product = product << 4 ^ multiple[b >> i & 15];
    return (uint32_t)(product >> 32) ^ kseg_step4(poly, (uint32_t)product);
}

/* The register after n more zero bytes: fewer than 2^32, as a frame has. */
static inline uint32_t kseg_shift(const struct kseg_polynomial *poly, uint32_t reg, uint32_t n) {
    int k;
    for (k = 0; n; n >>= 8, k++)
        if (n & 255) reg = kseg_multiply(poly, reg, poly->power[k][n & 255]);
    return reg;
}

/* Each entry is written once, with its final value, from entries that are final: running it again changes nothing. */
static void kseg_fill(struct kseg_polynomial *poly) {
    int b, k;
    for (b = 0; b < 256; b++) {
        uint32_t reg = (uint32_t)b;
        for (k = 0; k < 8; k++) reg = reg & 1 ? reg >> 1 ^ poly->reflected : reg >> 1;
        poly->table[0][b] = reg;
    }
    for (k = 1; k < 8; k++)
        for (b = 0; b < 256; b++)
            poly->table[k][b] = poly->table[k - 1][b] >> 8 ^ poly->table[0][poly->table[k - 1][b] & 255];
    for (k = 0; k < 4; k++) {
        uint32_t unit = k ? kseg_multiply(poly, poly->power[k - 1][255], poly->power[k - 1][1]) : 1u << 23;
        poly->power[k][0] = 1u << 31;
        for (b = 1; b < 256; b++) poly->power[k][b] = kseg_multiply(poly, poly->power[k][b - 1], unit);
    }
}

#endif
