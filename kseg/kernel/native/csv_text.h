/* Quoted texts of CSV: quotes inside are doubled. */
#ifndef KSEG_CSV_TEXT_H
#define KSEG_CSV_TEXT_H

#include "escape.h"

/* Writes n bytes of UTF-8 in quotes, at most 2n + 2 bytes; KSEG_NOT_UTF8 if they are not UTF-8. */
KSEG_LOCAL Py_ssize_t kseg_put_csv(unsigned char *out, Py_ssize_t o, const unsigned char *p,
                                   Py_ssize_t start, Py_ssize_t n) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    Py_ssize_t i = 0;
    p += start;
    out[o++] = '"';
    while (i < n) {
        uint64_t eight, quotes;
        int length;
        if (n - i >= 8) {
            memcpy(&eight, p + i, 8);
            quotes = eight ^ (ones * '"');
            if (!((eight | ((quotes - ones) & ~quotes)) & tops)) {
                memcpy(out + o, &eight, 8);
                o += 8;
                i += 8;
                continue;
            }
        }
        if (p[i] < 0x80) {
            out[o] = '"';
            o += p[i] == '"';
            out[o++] = p[i++];
            continue;
        }
        length = kseg_sequence(p, i, n);
        if (length < 0)
            return KSEG_NOT_UTF8;
        memcpy(out + o, p + i, (size_t)length);
        o += length;
        i += length;
    }
    out[o] = '"';
    return o + 1;
}

#endif
