"""What the lines of one batch's records have in common: the flags and the structs of lines.pxd."""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

COMPILED = cython.compiled

if not cython.compiled:
    from kseg.kernel.native.escape import Counters

    globals().update(cython.constants(__name__))
    globals().update(cython.structs(__name__, Counters=Counters))
