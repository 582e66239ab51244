"""Pointers to buffers for C. Interpreted, each function returns the buffer itself, which is indexed."""


def bytes_in(buffer):
    return buffer


bytes_out = int64s_in = int64s_out = int32s_out = uint32s_out = bytes_in
