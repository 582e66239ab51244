/* Bytes as new String(bytes, UTF_8) prints them: well-formed UTF-8 as it is, U+FFFD for each malformed part.
 *
 * Only escape.h includes this; its rules for limits apply here too.
 */
#ifndef KSEG_JAVA_TEXT_H
#define KSEG_JAVA_TEXT_H

#ifdef KSEG_SHUFFLES
/* A bit for each of 32 bytes that is at least `least`; `least` is not ASCII. */
KSEG_WITH_AVX2 KSEG_LOCAL uint32_t kseg_from(__m256i x, uint32_t high, int least) {
    return high & (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(x, _mm256_set1_epi8((char)(least - 1))));
}

KSEG_WITH_AVX2 KSEG_LOCAL uint32_t kseg_after(__m256i x, int first) {
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, _mm256_set1_epi8((char)first))) << 1;
}

/* Bits for 32 bytes: those that are printed unchanged, and those without output, because the U+FFFD of their malformed
 * sequence comes from an earlier byte. Returns the number of bytes judged: a sequence that may continue after a full
 * block is not judged. A block with fewer bytes is the last one; it is padded with zeros, which end any sequence. */
KSEG_WITH_AVX2 KSEG_LOCAL int kseg_java_bits(__m256i x, int size, uint32_t *raw, uint32_t *gone) {
    const uint32_t high = (uint32_t)_mm256_movemask_epi8(x);
    const uint32_t from_e0 = kseg_from(x, high, 0xE0), from_f0 = kseg_from(x, high, 0xF0);
    const uint32_t from_90 = kseg_from(x, high, 0x90), from_a0 = kseg_from(x, high, 0xA0);
    const uint32_t continues = high & ~kseg_from(x, high, 0xC0);
    const uint32_t lead2 = kseg_from(x, high, 0xC2) & ~from_e0;
    const uint32_t lead3 = from_e0 & ~from_f0;
    const uint32_t lead4 = from_f0 & ~kseg_from(x, high, 0xF5);
    const uint32_t no_second = (kseg_after(x, 0xE0) & ~from_a0) | (kseg_after(x, 0xF0) & ~from_90) |
                               (kseg_after(x, 0xF4) & from_90);
    const uint32_t of_two = continues & lead2 << 1;
    const uint32_t second = continues & (lead3 | lead4) << 1 & ~no_second;
    const uint32_t third = continues & second << 1;
    const uint32_t of_four = continues & third << 1 & lead4 << 3;
    const uint32_t of_three = third & lead3 << 2 & ~((kseg_after(x, 0xED) & from_a0) << 1);
    const uint32_t cut = (lead2 & 1u << 31) | (lead3 & 3u << 30) | (lead4 & 7u << 29);
    *raw = ~high | of_two | of_two >> 1 | of_three | of_three >> 1 | of_three >> 2 | of_four | of_four >> 1 |
           of_four >> 2 | of_four >> 3;
    *gone = (second | third) & ~*raw;
    return size == KSEG_BLOCK && cut ? (int)kseg_lowest(cut) : size;
}

KSEG_WITH_AVX2 KSEG_APART static Py_ssize_t kseg_put_java_shuffled(unsigned char *out, Py_ssize_t o, Py_ssize_t limit,
                                                              const unsigned char *p, Py_ssize_t n) {
    unsigned char last[KSEG_BLOCK];
    while (n) {
        const int size = n < KSEG_BLOCK ? (int)n : KSEG_BLOCK;
        int used = size;
        uint32_t raw, gone;
        __m256i x;
        if (o > limit)
            return KSEG_OUTPUT_FULL;
        x = size < KSEG_BLOCK ? kseg_load_last(p, size) : _mm256_loadu_si256((const __m256i *)p);
        if (_mm256_movemask_epi8(x) == 0) {
            _mm256_storeu_si256((__m256i *)(out + o), x);
            o += size;
        } else {
            used = kseg_java_bits(x, size, &raw, &gone);
            if (used < KSEG_BLOCK)
                gone |= ~0u << used;
            if (size < KSEG_BLOCK) {
                _mm256_storeu_si256((__m256i *)last, x);
                o = kseg_spread(out, o, last, used, raw, gone);
            } else {
                o = kseg_spread(out, o, p, KSEG_BLOCK, raw, gone);
            }
        }
        p += used;
        n -= used;
    }
    return o;
}
#endif

/* n bytes as new String(bytes, UTF_8) prints them: well-formed UTF-8 as it is, U+FFFD for the rest. */
KSEG_LOCAL Py_ssize_t kseg_put_java(unsigned char *out, Py_ssize_t o, Py_ssize_t limit, const unsigned char *p,
                                    Py_ssize_t start, Py_ssize_t n) {
    Py_ssize_t i = 0;
    int length;
    p += start;
    if (o > limit)
        return KSEG_OUTPUT_FULL;
#ifdef KSEG_SHUFFLES
    if (kseg_can_shuffle)
        return kseg_put_java_shuffled(out, o, limit, p, n);
#endif
    while (i < n) {
        if (o > limit)
            return KSEG_OUTPUT_FULL;
        if (n - i >= 8 && kseg_ascii8(out + o, p + i)) {
            i += 8;
            o += 8;
            continue;
        }
        length = kseg_sequence(p, i, n);
        o = kseg_put_sequence(out, o, p + i, length);
        i += length < 0 ? -length : length;
    }
    return o;
}

#endif
