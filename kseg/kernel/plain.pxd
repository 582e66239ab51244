# What the renderers share, and what the walk over frames takes from it.
cdef bint has_plain_header(const unsigned char* p, const long long* frame) noexcept nogil
cdef int is_legacy_plain(const unsigned char* p, Py_ssize_t position, Py_ssize_t size, int magic) noexcept nogil
cdef void legacy_row(const unsigned char* p, Py_ssize_t position, int magic, long long* row) noexcept nogil
cdef void read_header(const unsigned char* p, Py_ssize_t at, long long* batch) noexcept nogil
cdef long long offset_after(long long base, long long delta) noexcept nogil
cpdef long long sequence_after(long long base, long long delta) noexcept nogil
cdef int enter(const unsigned char* p, const long long* frame, const long long* state, long long* batch,
               long long* cursor, long long* rows, Py_ssize_t row_capacity,
               long long* headers, Py_ssize_t header_capacity, Py_ssize_t room) noexcept nogil
cdef int enter_any(const unsigned char* p, const long long* frame, const long long* state, long long* batch,
                   long long* cursor, long long* rows, Py_ssize_t row_capacity, long long* headers,
                   Py_ssize_t header_capacity, Py_ssize_t room, int refused) noexcept nogil
cdef bint leave(const unsigned char* p, const long long* frame, long long* state, const long long* batch,
                long long* cursor, long long written, const long long* rows, const long long* headers) noexcept nogil
cdef long long room_for(const long long* rows, Py_ssize_t row, const long long* headers,
                        Py_ssize_t capacity) noexcept nogil
