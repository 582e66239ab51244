"""A stand-in for the ``cython`` module when the kernel runs interpreted: types and decorators without effect.

Importing the real module takes 18 ms, and as a build tool it may not be installed.
"""

import builtins
from contextlib import nullcontext

compiled = False
NULL = None


class _Type:
    """A type of C. Integers of ``bits`` bits are folded by `cast`, as in C."""

    def __init__(self, bits=0, is_signed=False):
        self._mask = (1 << bits) - 1
        self._half = 1 << bits - 1 if is_signed else 0

    def __getitem__(self, key):
        """Returns the type of an array of ``key`` elements; anything else is a view or pointer."""
        return array(self, key) if isinstance(key, builtins.int) else self

    def __call__(self, value=0):
        return value

    def fold(self, value):
        return (value + self._half & self._mask) - self._half if self._mask else value


def array(kind, count):
    """Returns the maker of an array of zeros, or of structs."""
    return lambda: bytearray(count) if kind is uchar else [kind() for _ in range(count)]


def struct(**held):
    """Returns a class for a struct, whose fields are 0 until they are set. ``held``: fields that are structs.

    Only the compiler checks the names of fields, which the .pxd declares.
    """

    class Struct:
        __class_getitem__ = classmethod(array)

        def __init__(self):
            for name, kind in held.items():
                setattr(self, name, kind())

        def __getattr__(self, name):
            return 0

    return Struct


uchar = _Type(8)
int = _Type(32, is_signed=True)  # noqa: A001
uint = _Type(32)
longlong = _Type(64, is_signed=True)
ulonglong = _Type(64)
Py_ssize_t = bint = void = pointer = const = _Type()


nogil = nullcontext()


def cast(kind, value):
    return kind.fold(value)


def address(value):
    return value


def declare(kind, value=None):
    """Returns the initial value of a variable: the given one, else zeros."""
    return kind() if value is None else value
