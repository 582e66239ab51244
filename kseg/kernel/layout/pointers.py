"""Buffers as pointers for C; interpreted, a buffer is indexed as it is."""


def bytes_in(buffer):
    return buffer


bytes_out = int64s_in = int64s_out = int32s_in = int32s_out = uint32s_out = bytes_in
