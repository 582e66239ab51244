# What packing.py, and no other module, reaches in zstd_packer.h.
cdef extern from "zstd_packer.h" nogil:
    void use "kseg_packer_use"(size_t create, size_t destroy, size_t set, size_t compress, size_t is_error)
    void* create "kseg_packer_create"(int level)
    void destroy "kseg_packer_destroy"(void* context)
    Py_ssize_t pack "kseg_pack"(
        void* context, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity
    )
