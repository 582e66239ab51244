# zstd_packer.h and lz4_packer.h, for recoding.py only.
cdef extern from "zstd_packer.h" nogil:
    void zstd_use "kseg_zstd_packer_use"(size_t create, size_t destroy, size_t set, size_t compress, size_t is_error)
    void* zstd_create "kseg_zstd_packer_create"(int level)
    void zstd_destroy "kseg_zstd_packer_destroy"(void* context)
    Py_ssize_t zstd_pack "kseg_zstd_pack"(
        void* context, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity
    )

cdef extern from "lz4_packer.h" nogil:
    void lz4_use "kseg_lz4_packer_use"(size_t compress, size_t is_error)
    void* lz4_create "kseg_lz4_packer_create"(int level)
    void lz4_destroy "kseg_lz4_packer_destroy"(void* preferences)
    Py_ssize_t lz4_pack "kseg_lz4_pack"(
        void* preferences, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity
    )
