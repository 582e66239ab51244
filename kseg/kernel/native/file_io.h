/* Reads ranges of a file, and starts the writeback of written ranges. */
#ifndef KSEG_FILE_IO_H
#define KSEG_FILE_IO_H

#if defined(__linux__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>

#endif

#include <errno.h>

/* kseg_read_at returns the number of bytes read (fewer than requested only at the end of the file), or a negative error
 * number. */
#if defined(_WIN32)

#include <io.h>
#include <string.h>
#include <windows.h>

static inline long long kseg_read_at(int descriptor, unsigned char *out, long long size, long long position) {
    const HANDLE file = (HANDLE)_get_osfhandle(descriptor);
    long long done = 0;
    while (done < size) {
        const DWORD most = size - done < (1 << 30) ? (DWORD)(size - done) : (DWORD)1 << 30;
        DWORD got = 0;
        OVERLAPPED at;
        memset(&at, 0, sizeof at);
        at.Offset = (DWORD)(position + done);
        at.OffsetHigh = (DWORD)((position + done) >> 32);
        if (!ReadFile(file, out + done, most, &got, &at)) return GetLastError() == ERROR_HANDLE_EOF ? done : -EIO;
        if (got == 0) break;
        done += got;
    }
    return done;
}

#else

#include <unistd.h>

static inline long long kseg_read_at(int descriptor, unsigned char *out, long long size, long long position) {
    long long done = 0;
    while (done < size) {
        ssize_t got = pread(descriptor, out + done, (size_t)(size - done), (off_t)(position + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -(long long)errno;
        if (got == 0) break;
        done += got;
    }
    return done;
}

#endif

/* Starts the writeback of a range, so that the final fsync waits for less data. */
static inline void kseg_write_behind(int descriptor, long long position, long long size) {
#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)
    /* Only a hint: if the system refuses it, fsync writes all data and reports errors. */
    (void)!sync_file_range(descriptor, position, size, SYNC_FILE_RANGE_WRITE);
#else
    (void)descriptor;
    (void)position;
    (void)size;
#endif
}

#endif
