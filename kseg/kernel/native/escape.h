/* The values in the renderers' lines: integers, and bytes as text or as JSON strings.
 *
 * Every function writes at out[o] and returns the position after its output. Functions with a limit check before each
 * step that o has not passed it, and write less than KSEG_STEP bytes beyond it. If it is passed, they return
 * KSEG_OUTPUT_FULL, and the output from the given o on is undefined. Other functions write less than KSEG_STEP bytes,
 * only kseg_put and kseg_put_raw as many as their text has.
 */
#ifndef KSEG_ESCAPE_H
#define KSEG_ESCAPE_H

#include <stdint.h>
#include <string.h>

#include "constants.h"
#include "cpu.h"

#if defined(__SSE2__) || defined(_M_X64)
#define KSEG_SSE2 1
#include <emmintrin.h>
#ifdef _MSC_VER
#include <intrin.h>
static __forceinline unsigned kseg_lowest(unsigned bits) {
    unsigned long k;
    _BitScanForward(&k, bits);
    return (unsigned)k;
}
#else
#define kseg_lowest(bits) ((unsigned)__builtin_ctz(bits))
#endif
#endif

#if defined(__GNUC__) || defined(__clang__)
#define KSEG_APART __attribute__((noinline, unused))
#define KSEG_LOCAL static inline __attribute__((unused))
#else
#define KSEG_APART
#define KSEG_LOCAL static inline
#endif

#include "shuffle.h"

enum {
    KSEG_STEP = 128
};

KSEG_LOCAL Py_ssize_t kseg_put_raw(unsigned char *out, Py_ssize_t o, const unsigned char *text, Py_ssize_t size) {
    memcpy(out + o, text, (size_t)size);
    return o + size;
}

/* Of a literal, whose length the compiler knows if it is inlined. */
KSEG_INLINE Py_ssize_t kseg_put(unsigned char *out, Py_ssize_t o, const char *text) {
    return kseg_put_raw(out, o, (const unsigned char *)text, (Py_ssize_t)strlen(text));
}

/* ---- integers ---- */

/* Two digits at a time, the last ones first. */
KSEG_LOCAL Py_ssize_t kseg_put_int(unsigned char *out, Py_ssize_t o, long long value) {
    enum { MOST_DIGITS = 20 };
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    uint64_t left = (uint64_t)value;
    char digits[MOST_DIGITS];
    int at = MOST_DIGITS;
    if (value < 0) {
        out[o++] = '-';
        left = 0 - left;
    }
    for (; left >= 10; left /= 100) memcpy(digits + (at -= 2), pairs + 2 * (left % 100), 2);
    if (left || at == MOST_DIGITS) digits[--at] = (char)('0' + left);
    memcpy(out + o, digits + at, (size_t)(MOST_DIGITS - at));
    return o + MOST_DIGITS - at;
}

/* A number behind a literal. */
KSEG_INLINE Py_ssize_t kseg_put_number(unsigned char *out, Py_ssize_t o, const char *text, long long value) {
    return kseg_put_int(out, kseg_put(out, o, text), value);
}

/* A number behind its name in the text or in JSON, where an unset one, -1, is null. */
KSEG_INLINE Py_ssize_t kseg_put_field(
    unsigned char *out, Py_ssize_t o, int is_json, const char *text, const char *name, long long value, int may_be_unset
) {
    if (!is_json) return kseg_put_number(out, o, text, value);
    if (may_be_unset && value == -1) return kseg_put(out, kseg_put(out, o, name), "null");
    return kseg_put_number(out, o, name, value);
}

/* ---- UTF-8 ---- */

#define KSEG_CONTINUES(byte) (((byte) & 0xC0) == 0x80)

/* The length of the sequence at p[i] if it is well-formed, else minus the number of bytes that the JDK's decoder (17)
 * replaces by one U+FFFD: all three of a surrogate, each single byte of an over-long form. */
KSEG_LOCAL int kseg_sequence(const unsigned char *p, Py_ssize_t i, Py_ssize_t n) {
    unsigned first = p[i], second;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4 || i + 1 >= n)
        return -1;
    second = p[i + 1];
    if (!KSEG_CONTINUES(second))
        return -1;
    if (first < 0xE0)
        return 2;
    if (first < 0xF0) {
        if (first == 0xE0 && second < 0xA0)
            return -1;
        if (i + 2 >= n || !KSEG_CONTINUES(p[i + 2]))
            return -2;
        return first == 0xED && second >= 0xA0 ? -3 : 3;
    }
    if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
        return -1;
    if (i + 2 >= n || !KSEG_CONTINUES(p[i + 2]))
        return -2;
    if (i + 3 >= n || !KSEG_CONTINUES(p[i + 3]))
        return -3;
    return 4;
}

/* Copies 8 bytes; true if all are ASCII. */
KSEG_LOCAL int kseg_ascii8(unsigned char *out, const unsigned char *p) {
    uint64_t w;
    memcpy(&w, p, 8);
    memcpy(out, &w, 8);
    return (w & UINT64_C(0x8080808080808080)) == 0;
}

KSEG_LOCAL Py_ssize_t kseg_put_sequence(unsigned char *out, Py_ssize_t o, const unsigned char *p, int length) {
    int k;
    if (length < 0) {
        out[o] = 0xEF;
        out[o + 1] = 0xBF;
        out[o + 2] = 0xBD;
        return o + 3;
    }
    for (k = 0; k < length; k++)
        out[o + k] = p[k];
    return o + length;
}

#include "java_text.h"

/* The same for terminals: control characters (C0, DEL, C1) are written as \n, \r, \t or \xNN. */
KSEG_APART static Py_ssize_t kseg_put_visible(unsigned char *out, Py_ssize_t o, Py_ssize_t limit,
                                              const unsigned char *p,
                                    Py_ssize_t start, Py_ssize_t n) {
    static const char hex[] = "0123456789abcdef";
    Py_ssize_t i = 0;
    p += start;
    while (i <= n) {
        int length, control = -1;
        if (o > limit)
            return KSEG_OUTPUT_FULL;
        if (i == n)
            break;
        length = kseg_sequence(p, i, n);
        if (length == 1 && (p[i] < 0x20 || p[i] == 0x7F))
            control = p[i];
        else if (length == 2 && p[i] == 0xC2 && p[i + 1] < 0xA0)
            control = p[i + 1];
        if (control < 0) {
            o = kseg_put_sequence(out, o, p + i, length);
        } else {
            const char letter = control == '\n' ? 'n' : control == '\r' ? 'r' : control == '\t' ? 't' : 0;
            out[o++] = '\\';
            if (letter) {
                out[o++] = (unsigned char)letter;
            } else {
                out[o++] = 'x';
                out[o++] = (unsigned char)hex[control >> 4];
                out[o++] = (unsigned char)hex[control & 15];
            }
        }
        i += length < 0 ? -length : length;
    }
    return o;
}

/* ---- JSON ---- */

/* Writes an ASCII byte of a JSON string. */
KSEG_LOCAL Py_ssize_t kseg_put_json_byte(unsigned char *out, Py_ssize_t o, unsigned char byte) {
    static const char hex[] = "0123456789abcdef";
    static const char letters[] = "uuuuuuuubtnufruuuuuuuuuuuuuuuuuu";
    if (byte >= 0x20) {
        out[o] = '\\';
        o += byte == '"' || byte == '\\';
        out[o] = byte;
        return o + 1;
    }
    out[o] = '\\';
    out[o + 1] = (unsigned char)letters[byte];
    if (letters[byte] != 'u')
        return o + 2;
    out[o + 2] = '0';
    out[o + 3] = '0';
    out[o + 4] = (unsigned char)hex[byte >> 4];
    out[o + 5] = (unsigned char)hex[byte & 15];
    return o + 6;
}

#ifdef KSEG_SSE2
/* Writes the next 16 bytes up to the first that is a control character or not ASCII; returns the number of bytes used.
 * `wide`: 32 bytes can be read, so the bytes after an escape are copied directly from the input. */
KSEG_LOCAL int kseg_json16(unsigned char *out, Py_ssize_t *o, const unsigned char *p, int wide) {
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    const __m128i last_control = _mm_set1_epi8(0x1F);
    const __m128i escaped = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\\')));
    const __m128i stops = _mm_or_si128(x, _mm_cmpeq_epi8(_mm_max_epu8(x, last_control), last_control));
    unsigned escapes = (unsigned)_mm_movemask_epi8(escaped);
    const unsigned stop = (unsigned)_mm_movemask_epi8(stops);
    int used = 16, from = 0;
    Py_ssize_t at = *o;
    if (stop) {
        used = (int)kseg_lowest(stop);
        escapes &= (1u << used) - 1;
    }
    _mm_storeu_si128((__m128i *)(out + at), x);
    while (escapes) {
        const int k = (int)kseg_lowest(escapes);
        escapes &= escapes - 1;
        at += k - from;
        out[at++] = '\\';
        if (wide)
            _mm_storeu_si128((__m128i *)(out + at), _mm_loadu_si128((const __m128i *)(p + k)));
        else
            memcpy(out + at, p + k, (size_t)(16 - k));
        from = k;
    }
    *o = at + used - from;
    return used;
}
#endif

/* Writes n bytes as a JSON string; KSEG_NOT_UTF8 if they are not UTF-8. */
KSEG_LOCAL Py_ssize_t kseg_put_json(unsigned char *out, Py_ssize_t o, Py_ssize_t limit, const unsigned char *p,
                                    Py_ssize_t start, Py_ssize_t n) {
    Py_ssize_t i = 0;
    int length;
    p += start;
    if (o > limit)
        return KSEG_OUTPUT_FULL;
    out[o++] = '"';
    while (i < n) {
        if (o > limit)
            return KSEG_OUTPUT_FULL;
#ifdef KSEG_SSE2
        if (n - i >= 16) {
            int used = kseg_json16(out, &o, p + i, n - i >= 32);
            i += used;
            if (used == 16)
                continue;
        }
#endif
        if (p[i] < 0x80) {
            o = kseg_put_json_byte(out, o, p[i]);
            i += 1;
            continue;
        }
        do {
            length = kseg_sequence(p, i, n);
            if (length < 0)
                return KSEG_NOT_UTF8;
            o = kseg_put_sequence(out, o, p + i, length);
            i += length;
        } while (i < n && p[i] >= 0x80 && o <= limit);
    }
    out[o] = '"';
    return o + 1;
}

/* Writes n bytes as base64 with padding, without quotes. */
KSEG_LOCAL Py_ssize_t kseg_put_base64(unsigned char *out, Py_ssize_t o, Py_ssize_t limit, const unsigned char *p,
                                    Py_ssize_t start, Py_ssize_t n) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    Py_ssize_t i = 0;
    p += start;
    if (o > limit)
        return KSEG_OUTPUT_FULL;
#ifdef KSEG_SHUFFLES
    while (kseg_can_shuffle && n - i >= 16) {
        const Py_ssize_t groups = (limit - o) / 16 + 1, bytes = n - i - 4 < 12 * groups ? n - i : 12 * groups + 4;
        const Py_ssize_t used = kseg_base64_groups(out + o, p + i, bytes);
        i += used;
        o += used / 3 * 4;
        if (o > limit)
            return KSEG_OUTPUT_FULL;
    }
#endif
    for (; n - i >= 3; i += 3, o += 4) {
        const unsigned bits = (unsigned)p[i] << 16 | (unsigned)p[i + 1] << 8 | p[i + 2];
        if (o > limit)
            return KSEG_OUTPUT_FULL;
        out[o] = (unsigned char)letters[bits >> 18];
        out[o + 1] = (unsigned char)letters[bits >> 12 & 63];
        out[o + 2] = (unsigned char)letters[bits >> 6 & 63];
        out[o + 3] = (unsigned char)letters[bits & 63];
    }
    if (i < n) {
        const unsigned bits = (unsigned)p[i] << 16 | (n - i == 2 ? (unsigned)p[i + 1] << 8 : 0);
        out[o] = (unsigned char)letters[bits >> 18];
        out[o + 1] = (unsigned char)letters[bits >> 12 & 63];
        out[o + 2] = n - i == 2 ? (unsigned char)letters[bits >> 6 & 63] : '=';
        out[o + 3] = '=';
        o += 4;
    }
    return o;
}

#endif
