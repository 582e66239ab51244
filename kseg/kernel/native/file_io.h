/* Starts the writeback of written ranges of a file. */
#ifndef KSEG_FILE_IO_H
#define KSEG_FILE_IO_H

#if defined(__linux__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>

#endif

/* Starts the writeback of a range, so that the final fsync waits for less data. */
#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)

static inline void kseg_write_behind(int descriptor, long long position, long long size) {
    /* Only a hint: if the system refuses it, fsync writes all data and reports errors. */
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
