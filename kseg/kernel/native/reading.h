/* Reads a range of a file whole, as far as it reaches, into memory of the caller's. */
#ifndef KSEG_READING_H
#define KSEG_READING_H

#include <errno.h>

#if defined(_WIN32)

static inline long long kseg_read_at(int descriptor, unsigned char *out, long long size, long long position) {
    (void)descriptor, (void)out, (void)size, (void)position;
    return -ENOSYS;
}

#else

#include <unistd.h>

/* Bytes read, fewer than asked for at the end of the file alone, or the number of an error, negated. */
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

#endif
