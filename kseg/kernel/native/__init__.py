"""C headers, the declarations through which Cython reaches them, and their interpreted twins."""
