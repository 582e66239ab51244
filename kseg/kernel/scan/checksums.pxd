cdef unsigned int _update(bint castagnoli, int path, const unsigned char[::1] buffer, unsigned int crc)
