/* Has the system begin to write what a file was given, so that an fsync at its end need not wait for all of it. */
#ifndef KSEG_WRITING_H
#define KSEG_WRITING_H

#if defined(__linux__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>

#endif

#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)

static inline void kseg_write_behind(int descriptor, long long position, long long size) {
    /* Advice alone: where the system refuses it, the fsync does all, and reports what failed. */
    (void)!sync_file_range(descriptor, position, size, SYNC_FILE_RANGE_WRITE);
}

#else

static inline void kseg_write_behind(int descriptor, long long position, long long size) {
    (void)descriptor;
    (void)position;
    (void)size;
}

#endif

#endif
