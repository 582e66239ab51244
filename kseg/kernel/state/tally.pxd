from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.cursor cimport FrameCursor

cdef long long* distinct_out(long long[::1] distinct) except NULL

include "kseg/kernel/state/tally.pxi"
