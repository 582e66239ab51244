# Runs of plain batches with identical header fields.
cdef class UniformRun:
    cdef public long long next_offset
    cdef readonly long long kind, time, timed
