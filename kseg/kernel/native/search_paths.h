/* The search for frames, by the fastest implementation for the processor. search.py is the interpreted twin. */
#ifndef KSEG_SEARCH_PATHS_H
#define KSEG_SEARCH_PATHS_H

#include "near_checksums.h"

/* ---- choice of the implementation ---- */

enum { KSEG_SEARCH_PATH_MAX = 2 };

static struct {
    const char *name;
    kseg_searching next;
} kseg_search_paths[KSEG_SEARCH_PATH_MAX]; /* those that this processor supports, the fastest last */
static int kseg_search_path_count;
static kseg_searching kseg_search_best;

static inline void kseg_offer_search(int *count, const char *name, kseg_searching next) {
    kseg_search_paths[*count].name = name;
    kseg_search_paths[(*count)++].next = next;
}

/* Called once when the module is imported, under the import lock, after kseg_native_setup. */
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

/* Selects one of the kseg_search_path_count implementations, for tests. */
static inline void kseg_search_by(int path) {
    kseg_search_best = kseg_search_paths[path].next;
}

/* The first position in [i, stop) with a plausible frame; else stop. Its checksum is verified only where that is as
 * cheap. From each position on there are at least 17 bytes (0.7: 5) before end. The frames that this search returned
 * before were not intact. */
static inline ptrdiff_t kseg_next_candidate(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                            struct kseg_search *search, struct kseg_prefixes *prefixes) {
    return kseg_search_best(p, i, stop, end, v07, search, prefixes);
}

#endif
