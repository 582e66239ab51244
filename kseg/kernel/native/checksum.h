/* CRC-32C (Castagnoli; batches of magic 2) and CRC-32 (IEEE 802.3, as in zlib; older messages), by the fastest
 * instructions of the processor; and the CRC of a range from two prefix CRCs.
 */
#ifndef KSEG_CHECKSUM_H
#define KSEG_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "polynomial.h"

/* ---- implementations ---- */

/* An implementation of both CRCs; arguments and results are registers. */
typedef uint32_t (*kseg_update)(uint32_t reg, const unsigned char *p, size_t n);

struct kseg_path {
    const char *name;
    kseg_update crc32c, crc32;
};

static const struct kseg_path *kseg_best; /* set by kseg_native_setup */

static inline uint32_t kseg_crc32c_table(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_by_table(&kseg_castagnoli, reg, p, n);
}

static inline uint32_t kseg_crc32_table(uint32_t reg, const unsigned char *p, size_t n) {
    return kseg_by_table(&kseg_ieee, reg, p, n);
}

#ifdef KSEG_X86
#include "checksum_x86.h"
#endif
#ifdef KSEG_ARM
#include "checksum_arm.h"
#endif

/* ---- choice of the implementation ---- */

enum { KSEG_PATH_MAX = 2 };

static struct kseg_path kseg_paths[KSEG_PATH_MAX]; /* those that this processor supports, the fastest last */
static int kseg_path_count;

static inline void kseg_offer(int *count, const char *name, kseg_update crc32c, kseg_update crc32) {
    const struct kseg_path path = {name, crc32c, crc32};
    kseg_paths[(*count)++] = path;
}

/* Each module that computes checksums calls it once when it is imported, before any thread can compute one. */
static inline void kseg_native_setup(void) {
    int count = 0;
    kseg_fill(&kseg_castagnoli);
    kseg_fill(&kseg_ieee);
    kseg_offer(&count, "table", kseg_crc32c_table, kseg_crc32_table);
#ifdef KSEG_X86
    if (kseg_cpu_has_sse42() && kseg_cpu_has_pclmul())
        kseg_offer(&count, "sse42", kseg_crc32c_sse, kseg_crc32_table);
#endif
#ifdef KSEG_ARM
    if (kseg_cpu_has_crc32()) kseg_offer(&count, "armv8", kseg_crc32c_arm, kseg_crc32_arm);
#endif
    kseg_path_count = count;
    kseg_best = &kseg_paths[count - 1];
}

static inline const char *kseg_path_name(int path) {
    return kseg_paths[path].name;
}

/* For tests: computes the CRCs of this module by another implementation. */
static inline void kseg_use_path(int path) {
    kseg_best = &kseg_paths[path];
}

/* The CRCs below are finalised, and begin with 0, as those of zlib's crc32(). */

static inline uint32_t kseg_crc32c(uint32_t crc, const unsigned char *p, ptrdiff_t start, ptrdiff_t end) {
    return end <= start ? crc : ~kseg_best->crc32c(~crc, p + start, (size_t)(end - start));
}

static inline uint32_t kseg_crc32(uint32_t crc, const unsigned char *p, ptrdiff_t start, ptrdiff_t end) {
    return end <= start ? crc : ~kseg_best->crc32(~crc, p + start, (size_t)(end - start));
}

/* The CRC of n bytes, from the CRC of all bytes before them and the CRC of all bytes up to their end. The inversions at
 * both ends of a CRC cancel out, so finalised CRCs combine as registers do. */
static inline uint32_t kseg_crc32c_range(uint32_t before, uint32_t through, uint32_t n) {
    return through ^ kseg_shift(&kseg_castagnoli, before, n);
}

static inline uint32_t kseg_crc32_range(uint32_t before, uint32_t through, uint32_t n) {
    return through ^ kseg_shift(&kseg_ieee, before, n);
}

#endif
