/* A record of the shape that nearly all have, read at once: no headers, no number of more than 3 bytes, filled exactly
 * as its length says. Whatever else there is, right or wrong, is for read_fields of records.py, which alone tells what
 * is wrong; so interpreted nothing takes this way.
 */
#ifndef KSEG_SHORT_RECORD_H
#define KSEG_SHORT_RECORD_H

#include "native.h"

/* A record's fields as they lie there. A negative size of a key or value means null; headers begins at the first. */
struct kseg_record_fields {
    long long after; /* the position behind the record */
    long long attributes;
    long long timestamp_delta;
    long long offset_delta;
    long long key;
    long long key_size;
    long long value;
    long long value_size;
    long long headers;
    long long header_count;
};

/* Its length, attributes and three numbers before the key. */
enum { KSEG_BEFORE_KEY = 13 };

/* The position behind the zigzag varint at p; NULL where it has more than 3 bytes, of which no more are read. */
static inline const unsigned char *kseg_short_varint(const unsigned char *p, int64_t *value) {
    int64_t raw = p[0];
    if (raw > 127) {
        raw += ((int64_t)p[1] - 1) * 128; /* less what the highest bit of the byte before has added */
        if (p[1] > 127) {
            raw += ((int64_t)p[2] - 1) * 16384;
            if (p[2] > 127) return NULL;
            p++;
        }
        p++;
    }
    *value = raw >> 1 ^ -(raw & 1);
    return p + 1;
}

/* The position behind the record at i, whose fields up to its value are written; 0 where it has another shape. */
static inline ptrdiff_t kseg_read_short_record(
    const unsigned char *p, ptrdiff_t i, ptrdiff_t end, struct kseg_record_fields *fields
) {
    const unsigned char *at = p + i, *const stop = p + end, *after;
    int64_t size;
    if (end - i < KSEG_BEFORE_KEY) return 0;
    at = kseg_short_varint(at, &size);
    if (!at || size < 6 || size > stop - at) return 0;
    after = at + size;
    fields->attributes = *at++;
    at = kseg_short_varint(at, &size);
    if (!at) return 0;
    fields->timestamp_delta = size;
    at = kseg_short_varint(at, &size);
    if (!at) return 0;
    fields->offset_delta = size;
    at = kseg_short_varint(at, &size);
    if (!at) return 0;
    fields->key = at - p;
    fields->key_size = size;
    if (size > 0) {
        if (size > after - at) return 0;
        at += size;
    }
    if (after - at < 2 || stop - at < 3) return 0;
    at = kseg_short_varint(at, &size);
    if (!at) return 0;
    fields->value = at - p;
    fields->value_size = size;
    if (size > 0) {
        if (size > after - at) return 0;
        at += size;
    }
    return at + 1 == after && *at == 0 ? after - p : 0;
}

#endif
