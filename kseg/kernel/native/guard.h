/* Protects against SIGBUS when a mapped file is truncated while it is read: pages that are no longer in the file read
 * as zeros, and their range is marked as hit. Without this the system would end the process.
 *
 * A process must have only one table, so only files/system.py includes this header. Ranges are added and removed under
 * a lock (the GIL, or files/system.py's own); the handler runs in any thread at any time, and only reads them.
 */
#ifndef KSEG_GUARD_H
#define KSEG_GUARD_H

#include <stddef.h>
#include <stdint.h>

enum { KSEG_GUARD_MAX = 1024 };

#if !defined(_WIN32) && (defined(__GNUC__) || defined(__clang__))

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_ANONYMOUS) && defined(MAP_ANON)
#define MAP_ANONYMOUS MAP_ANON
#endif

struct kseg_guarded {
    uintptr_t start, end; /* end 0: free. Set last and cleared first, so the handler never sees half a range. */
    int hit;
};

static struct kseg_guarded kseg_guarded[KSEG_GUARD_MAX];
static int kseg_guard_count, kseg_guard_installed;
static uintptr_t kseg_guard_page;
static struct sigaction kseg_guard_previous;

static inline int kseg_guard_available(void) {
    return 1;
}

/* Handles a fault outside all ranges as if this handler were not installed. */
static void kseg_guard_pass_on(int number, siginfo_t *info, void *context) {
    if (kseg_guard_previous.sa_flags & SA_SIGINFO) {
        kseg_guard_previous.sa_sigaction(number, info, context);
    } else if (kseg_guard_previous.sa_handler != SIG_DFL && kseg_guard_previous.sa_handler != SIG_IGN) {
        kseg_guard_previous.sa_handler(number);
    } else if (kseg_guard_previous.sa_handler == SIG_DFL || info->si_code > 0) {
        /* A fault cannot be ignored: the instruction would fault again. SIGBUS is blocked until the handler returns;
         * then it ends the process. */
        signal(number, SIG_DFL);
        raise(number);
    }
}

static int kseg_guard_mark(uintptr_t address) {
    int i, found = 0;
    for (i = 0; i < KSEG_GUARD_MAX; i++) {
        uintptr_t end = __atomic_load_n(&kseg_guarded[i].end, __ATOMIC_ACQUIRE);
        if (address < end && address >= __atomic_load_n(&kseg_guarded[i].start, __ATOMIC_RELAXED)) {
            __atomic_store_n(&kseg_guarded[i].hit, 1, __ATOMIC_RELAXED);
            found = 1;
        }
    }
    return found;
}

static void kseg_guard_on_fault(int number, siginfo_t *info, void *context) {
    const int saved = errno;
    const uintptr_t address = (uintptr_t)info->si_addr;
    /* A SIGBUS sent by a process has no address; the same bytes have its sender. */
    if (info->si_code > 0 && kseg_guard_mark(address)) {
        void *page = (void *)(address & ~(kseg_guard_page - 1));
        if (mmap(page, kseg_guard_page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
            errno = saved;
            return;
        }
    }
    errno = saved;
    kseg_guard_pass_on(number, info, context);
}

static inline int kseg_guard_install(void) {
    struct sigaction action;
    if (kseg_guard_installed) return 0;
    kseg_guard_page = (uintptr_t)sysconf(_SC_PAGESIZE);
    action.sa_sigaction = kseg_guard_on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    kseg_guard_installed = sigaction(SIGBUS, &action, &kseg_guard_previous) == 0;
    return kseg_guard_installed ? 0 : -1;
}

/* Another handler may have been installed later, which calls this one. In that case this handler stays, without ranges,
 * and is not installed a second time, as it would call itself. */
static inline void kseg_guard_uninstall(void) {
    struct sigaction current;
    if (sigaction(SIGBUS, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
        current.sa_sigaction == kseg_guard_on_fault && sigaction(SIGBUS, &kseg_guard_previous, NULL) == 0)
        kseg_guard_installed = 0;
}

static inline struct kseg_guarded *kseg_guard_find(uintptr_t start) {
    int i;
    for (i = 0; i < KSEG_GUARD_MAX; i++)
        if (kseg_guarded[i].end && kseg_guarded[i].start == start) return &kseg_guarded[i];
    return NULL;
}

/* 0, or -1 if the table is full or the handler cannot be installed: the mapping must not be read then. */
static inline int kseg_guard_add(const void *start, size_t length) {
    int i;
    for (i = 0; i < KSEG_GUARD_MAX && kseg_guarded[i].end; i++) continue;
    if (i == KSEG_GUARD_MAX || (kseg_guard_count == 0 && kseg_guard_install() != 0)) return -1;
    kseg_guard_count++;
    __atomic_store_n(&kseg_guarded[i].hit, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&kseg_guarded[i].start, (uintptr_t)start, __ATOMIC_RELAXED);
    __atomic_store_n(&kseg_guarded[i].end, (uintptr_t)start + length, __ATOMIC_RELEASE);
    return 0;
}

static inline void kseg_guard_remove(const void *start) {
    struct kseg_guarded *range = kseg_guard_find((uintptr_t)start);
    if (range == NULL) return;
    __atomic_store_n(&range->end, 0, __ATOMIC_RELEASE);
    if (--kseg_guard_count == 0) kseg_guard_uninstall();
}

static inline int kseg_guard_hit(const void *start) {
    const struct kseg_guarded *range = kseg_guard_find((uintptr_t)start);
    return range != NULL && __atomic_load_n(&range->hit, __ATOMIC_RELAXED);
}

#else

static inline int kseg_guard_available(void) {
    return 0;
}

static inline int kseg_guard_add(const void *start, size_t length) {
    (void)start;
    (void)length;
    return -1;
}

static inline void kseg_guard_remove(const void *start) {
    (void)start;
}

static inline int kseg_guard_hit(const void *start) {
    (void)start;
    return 0;
}

#endif
/* glibc returns the pages of each freed large block to the system, and the next output of a codec faults them in again:
 * up to a sixth of the time of stats and conversions. Up to this size they are kept. */
#if defined(__GLIBC__)
#include <malloc.h>
#endif
static inline void kseg_keep_freed(void) {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
}

#endif
