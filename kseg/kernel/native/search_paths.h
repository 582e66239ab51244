/* The search for frames, by the best path that the processor has. search.py is the interpreted twin. */
#ifndef KSEG_SEARCH_PATHS_H
#define KSEG_SEARCH_PATHS_H

#include "near_checksums.h"

/* ---- which of them runs ---- */

enum { KSEG_SEARCH_PATH_MAX = 2 };

static struct {
    const char *name;
    kseg_searching next;
} kseg_search_paths[KSEG_SEARCH_PATH_MAX]; /* what this processor can run, the best last */
static int kseg_search_path_count;
static kseg_searching kseg_search_best;

static inline void kseg_offer_search(int *count, const char *name, kseg_searching next) {
    kseg_search_paths[*count].name = name;
    kseg_search_paths[(*count)++].next = next;
}

/* Run once when the module is imported, under the import lock, behind kseg_native_setup. */
static inline void kseg_search_setup(void) {
    int count = 0;
    kseg_offer_search(&count, "plain", kseg_next_anywhere);
#ifdef KSEG_X86
    if (kseg_cpu_has_avx2() && kseg_cpu_has_bmi() && kseg_best->shift == kseg_shift_sse)
        kseg_offer_search(&count, "avx2", kseg_next_avx2);
#endif
    kseg_search_path_count = count;
    kseg_search_best = kseg_search_paths[count - 1].next;
}

static inline const char *kseg_search_path_name(int path) {
    return kseg_search_paths[path].name;
}

/* From now on by one of the kseg_search_path_count paths, for tests. */
static inline void kseg_search_by(int path) {
    kseg_search_best = kseg_search_paths[path].next;
}

/* The first position in [i, stop) at which there is a frame as far as can be told without its checksum, or where that
 * is told as cheaply, with it; else stop. Behind each of these positions 17 bytes are there, in a file of 0.7 five.
 * What the search has given before i is no intact frame. */
static inline ptrdiff_t kseg_next_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                            struct kseg_search *search, struct kseg_prefixes *prefixes) {
    return kseg_search_best(p, i, stop, end, v07, search, prefixes);
}

#endif
