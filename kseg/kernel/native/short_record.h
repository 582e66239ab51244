/* A fast path for the most frequent kind of records: without headers, without varints of more than 3 bytes, and with
 * fields that end exactly at the record's length. read_fields of records.py reads all other records and reports
 * errors. The interpreted kernel has no such path.
 */
#ifndef KSEG_SHORT_RECORD_H
#define KSEG_SHORT_RECORD_H

#include "native.h"

/* The fields of a record. A negative size of a key or value means null; headers: position of the first header. */
struct kseg_record_fields {
    long long after; /* the position after the record */
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

/* The largest size of length, attributes and the three numbers before the key of a short record. If fewer bytes are
 * left, the general reader takes the record, so that these fields need no further checks of the end. */
enum { KSEG_BEFORE_KEY = 13 };

/* The position after the zigzag varint at p; NULL if it has more than 3 bytes. At most 3 bytes are read. */
static inline const unsigned char *kseg_short_varint(const unsigned char *p, int64_t *value) {
    int64_t raw = p[0];
    if (raw > 127) {
        raw += ((int64_t)p[1] - 1) * 128; /* minus the highest bit of the previous byte */
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

/* Reads the fields of the record at i up to its value. Returns the position after it; 0 if it is of another kind. */
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
