/* What decoders that expand a compressed area answer where they have no bytes to give. */
#ifndef KSEG_EXPAND_H
#define KSEG_EXPAND_H

enum {
    KSEG_EXPAND_REFUSED = -1, /* bad, or a form that only a library reads */
    KSEG_EXPAND_NO_ROOM = -2  /* may well be good: try again with more room */
};

#endif
