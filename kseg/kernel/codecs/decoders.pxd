# lz4_frames.h and zstd.h, for expand.py only.
cdef extern from "lz4_frames.h" nogil:
    void lz4_use "kseg_lz4_use"(
        size_t create, size_t destroy, size_t frame_info, size_t decompress, size_t is_error
    )
    bint lz4_is_known "kseg_lz4_is_known"()
    Py_ssize_t lz4 "kseg_lz4"(
        const unsigned char* p, Py_ssize_t n, bint verify_header, unsigned char* out, Py_ssize_t capacity
    )

cdef extern from "zstd.h" nogil:
    void zstd_use "kseg_zstd_use"(
        size_t create, size_t destroy, size_t decompress, size_t frame_size, size_t is_error, size_t error_code
    )
    void* zstd_create "kseg_zstd_create"()
    void zstd_destroy "kseg_zstd_destroy"(void* context)
    Py_ssize_t zstd "kseg_zstd"(
        void* context, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity
    )
