/* Results of the decoders of compressed areas, besides the number of bytes written. */
#ifndef KSEG_EXPAND_H
#define KSEG_EXPAND_H

enum {
    /* The area is malformed, or only the Python libraries support its form. */
    KSEG_EXPAND_REFUSED = -1,
    /* The output is too small, or the codec's library or context is missing: extend the buffer and try again. */
    KSEG_EXPAND_BUFFER_FULL = -2
};

#endif
