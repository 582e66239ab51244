from kseg.kernel.records.records cimport RecordCursor, RecordsHeader, RecordTable

cdef class RecordWalk:
    cdef RecordsHeader header
    cdef RecordCursor cursor
    cdef RecordTable table
