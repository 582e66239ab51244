cpdef enum:
    # Nothing is left to read; rows are full, or the pass has come as far as it should; frames are not known to be
    # right; what is at the position is no intact frame, or does not fit into the window.
    ENDED = 0
    PAUSED = 1
    LOOK = 2
    STUCK = 3

cdef enum:
    # Of the kernel's own: there is not room enough for what is compressed.
    NEEDS_MORE = 4
