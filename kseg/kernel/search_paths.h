/* The search for frames, by the best path that the processor has. search.py is the interpreted twin. */
#ifndef KSEG_SEARCH_PATHS_H
#define KSEG_SEARCH_PATHS_H

#include "wide_checksums.h"

#ifdef KSEG_AVX512_BUILT
/* Where behind the beginning of a frame that begins which its checksum covers. */
KSEG_ALWAYS_INLINE unsigned kseg_covered_from(const unsigned char *p, int v07) {
    if (v07) return KSEG_START_V07 - !p[4];
    return p[16] == 2 ? KSEG_START_V2 : KSEG_START_V0;
}

/* kseg_next_avx2 with vectors of 64 bytes, and with four checksums at a time. */
KSEG_WIDE static ptrdiff_t kseg_next_wide(const unsigned char *p, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t end, int v07,
                                          struct kseg_search *search, uint32_t *table_c, uint32_t *table_ieee,
                                          long long *state) {
    enum { LEAST_BYTES = 256 };
    for (;;) {
        ptrdiff_t bytes;
        uint32_t marked;
        while (search->next < search->count) {
            const unsigned char *base = p + search->base;
            const uint32_t *at = search->at + search->next, left = search->count - search->next;
            const unsigned start = kseg_covered_from(base + at[0], v07);
            unsigned count = 1, wrong = 0;
            if (search->base + (ptrdiff_t)at[0] < i) {
                search->next++;
                continue;
            }
            while (count < 4 && count < left && kseg_covered_from(base + at[count], v07) == start) count++;
            if (state[KSEG_STATE_ANCHOR] >= 0 && search->base >= state[KSEG_STATE_ANCHOR])
                wrong = start == KSEG_START_V2
                            ? kseg_wrong_ahead(1, p, start, count, table_c, state, search)
                            : kseg_wrong_ahead(0, p, start, count, table_ieee, state, search);
            search->next += wrong;
            if (wrong < count) return search->base + search->at[search->next++];
        }
        search->base = search->ahead < i ? i : search->ahead;
        if (search->base >= stop) return stop;
        /* A frame that is found soon must not cost much more than it takes to find it. */
        bytes = search->base - search->start;
        bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes > KSEG_CHUNK_BYTES ? KSEG_CHUNK_BYTES : bytes;
        bytes = stop - search->base < bytes ? stop - search->base : bytes;
        marked = kseg_gather_marks(p, search->base + bytes, stop, end, v07, search);
        kseg_sift(p, marked, end, v07, search);
    }
}
#endif

/* ---- which of them runs ---- */

enum { KSEG_SEARCH_PATH_MAX = 3 };

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
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && kseg_best->shift == kseg_shift_sse) {
        kseg_offer_search(&count, "avx2", kseg_next_avx2);
#ifdef KSEG_AVX512_BUILT
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2") &&
            __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("bmi2") &&
            __builtin_cpu_supports("popcnt")) {
            kseg_fill_wide(&kseg_castagnoli, &kseg_wide_castagnoli);
            kseg_fill_wide(&kseg_ieee, &kseg_wide_ieee);
            kseg_offer_search(&count, "avx512", kseg_next_wide);
        }
#endif
    }
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
                                            struct kseg_search *search, uint32_t *table_c, uint32_t *table_ieee,
                                            long long *state) {
    return kseg_search_best(p, i, stop, end, v07, search, table_c, table_ieee, state);
}

#endif
