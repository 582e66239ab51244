/* Features of the processor, queried at run time. __builtin_cpu_supports() is not used: in the runtime library of zig
 * it returns false for every feature.
 */
#ifndef KSEG_CPU_H
#define KSEG_CPU_H

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kseg's kernel needs a little-endian machine"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define KSEG_INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define KSEG_X86 1
#elif defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__))
#define KSEG_ARM 1
#endif
#else
#define KSEG_INLINE static inline
#endif

#ifdef KSEG_X86
#include <cpuid.h>

/* Registers of CPUID with feature bits: ECX of leaf 1, EBX of leaf 7. */
static inline unsigned kseg_cpuid_1_ecx(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) ? c : 0;
}

static inline unsigned kseg_cpuid_7_ebx(void) {
    unsigned a, b = 0, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) ? b : 0;
}

static inline int kseg_cpu_has_sse42(void) {
    return (kseg_cpuid_1_ecx() & bit_SSE4_2) != 0;
}

static inline int kseg_cpu_has_pclmul(void) {
    return (kseg_cpuid_1_ecx() & bit_PCLMUL) != 0;
}

/* The processor has AVX2, and the system saves the upper halves of its registers (XCR0). */
static inline int kseg_cpu_has_avx2(void) {
    enum { VECTORS_SAVED = 6 };
    unsigned low, high;
    if (!(kseg_cpuid_1_ecx() & bit_OSXSAVE) || !(kseg_cpuid_7_ebx() & bit_AVX2)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & VECTORS_SAVED) == VECTORS_SAVED;
}

#endif

#ifdef KSEG_ARM
#if defined(__linux__)
#include <sys/auxv.h>

/* A bit of <asm/hwcap.h>, a header that some C libraries lack. */
enum { KSEG_HWCAP_CRC32 = 1 << 7 };

static inline int kseg_cpu_has_crc32(void) {
    return (getauxval(AT_HWCAP) & KSEG_HWCAP_CRC32) != 0;
}
#else
/* All ARM processors supported by macOS have it. */
static inline int kseg_cpu_has_crc32(void) {
    return 1;
}
#endif
#endif

#endif
