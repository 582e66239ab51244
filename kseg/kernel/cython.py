"""Stands in for the ``cython`` module where a kernel file runs interpreted: nothing here does anything.

Importing the real one takes 18 ms, and it is a build tool that need not be installed.
"""

import builtins
from os.path import dirname, join
from re import MULTILINE, findall

compiled = False
NULL = None


def _definitions(module):
    """The text of the .pxd of a kernel module, by its full name."""
    below = module.removeprefix("kseg.kernel.").split(".")
    with open(join(dirname(__file__), *below) + ".pxd", encoding="ascii") as file:
        return file.read()


def constants(module):
    """The constants that the enums of a module's .pxd define: there they stand once for both kernels."""
    found = findall(r"^    ([A-Z]\w*) = (-?\w+)$", _definitions(module), MULTILINE)
    return {name: builtins.int(value, 0) for name, value in found}


def structs(module, **known):
    """Classes that stand for the structs that a module's .pxd defines. Fields are 0 at first; those that are structs,
    of the .pxd or ``known``, are made anew."""
    text = _definitions(module)
    found = {}
    for name, body in findall(r"^cdef struct (\w+):\n((?:    .+\n)+)", text, MULTILINE):
        fields = findall(r"^    (.*?)\b(\w+)$", body, MULTILINE)
        found[name] = _struct(name, {field: (known | found).get(kind.strip(), builtins.int) for kind, field in fields})
    return found


def _struct(name, fields):
    def clear(self):
        for field, make in fields.items():
            setattr(self, field, make())

    return type(name, (), {"__slots__": tuple(fields), "__init__": clear})


class _Type:
    def __getitem__(self, _key):
        return self

    def __call__(self, value=None):
        return value


uchar = uint = ulong = longlong = ulonglong = Py_ssize_t = bint = int = char = double = _Type()  # noqa: A001
void = p_void = _Type()


pointer = const = _Type()


def _decorator(function=None, **_options):
    return function if function is not None else _decorator


cfunc = inline = ccall = cclass = final = _decorator


def exceptval(*_values, **_options):
    return _decorator


class _NoGil:
    def __call__(self, function):
        return function

    def __enter__(self):
        return None

    def __exit__(self, *_error):
        return False


nogil = _NoGil()


def cast(_type, value):
    return value


def address(value):
    return value


def declare(_type=None, value=0, visibility=None):
    """Of an attribute of a class the value that it has until it is set."""
    return value
