"""Loads kernel modules as Python, and provides ``cython``, the cimports and the names of the module's .pxd.

The constants and structs of a .pxd are thus defined once, for both kernels.
"""

import builtins
import errno
from importlib import import_module
from importlib.machinery import SourceFileLoader
from re import MULTILINE, findall

import kseg.kernel.cython as cython

_ABSENT = (errno.ENOENT, 0)
"""The zip importer has no errno for a missing file."""
_HEADER_PATH = __file__.replace("interpreted.py", "native/{}")


class InterpretedLoader(SourceFileLoader):
    """Runs a kernel module from its .py file."""

    def exec_module(self, module):
        module.__builtins__ = _BUILTINS
        found = definitions(self.path.removesuffix(".py") + ".pxd")
        module.__dict__.update(found)
        super().exec_module(module)
        for name, fields in found.get("", {}).items():
            _give_fields(getattr(module, name), fields)

    def get_data(self, path):
        """Returns the bytes of a file beside this one, which may be in a zip file, such as Spark's --py-files."""
        return __loader__.get_data(path)


class _OnlyInC:
    """Stands for a module of the C library, whose functions are called only when compiled."""

    def __getattr__(self, name):
        return None


def _import(name, *scope):
    """Imports `kseg.kernel.cython` for ``cython``, and the Python module for a cimport."""
    if name.startswith(("cython.cimports.libc.", "cython.cimports.cpython.")):
        return _OnlyInC()
    return cython if name == "cython" else __import__(name.removeprefix("cython.cimports."), *scope)


_BUILTINS = vars(builtins) | {"__import__": _import}


def definitions(path):
    """Returns the definitions of the .pxd at a path by name: the constants of its enums, a class for each struct.

    Under "": for each class that holds structs, their makers by field.
    """
    try:
        text = __loader__.get_data(path).decode("ascii")
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return {}
    found = {name: int(value, 0) for name, value in findall(r"^    ([A-Z]\w*) = (-?\w+)$", text, MULTILINE)}
    for header, body in findall(r'^cdef extern from "(\S+)".*:\n((?:    .*\n|\n)+)', text, MULTILINE):
        found |= _enumerators(header, dict(findall(r'^        ([A-Z]\w*) "(\w+)"$', body, MULTILINE)))
    for _, name, body in findall(r'^( *)\w+ struct (\w+)(?: ".+")?:\n((?:\1    .+\n)+)', text, MULTILINE):
        fields = findall(r"^ *(.*?) ?\b(\w+)$", body, MULTILINE)
        found[name] = _struct(name, {field: _maker(kind, found, text) for kind, field in fields})
    held = {}
    for name, body in findall(r"^cdef class (\w+).*:\n((?:    .+\n|\n)+)", text, MULTILINE):
        fields = findall(r"^    cdef (?:readonly |public )?(\w+) (\w+)$", body, MULTILINE)
        makers = {field: _maker(kind, found, text) for kind, field in fields}
        if structs := {field: make for field, make in makers.items() if hasattr(make, "__slots__")}:
            held[name] = structs
    return found | {"": held} if held else found


def _enumerators(header, names):
    """Values of the enumerators that a C header of kseg/kernel/native has under other ``names``."""
    if not names:
        return {}
    text = __loader__.get_data(_HEADER_PATH.format(header)).decode("ascii")
    values = dict(findall(r"^    (KSEG_\w+) = (-?\w+)\b", text, MULTILINE))
    return {name: int(values[in_c], 0) for name, in_c in names.items()}


def _maker(kind, found, text):
    """Returns the factory of a field's first value: its struct, from this .pxd or a cimported one, or int."""
    for module, names in findall(r"^from (\S+) cimport (.+)$", text, MULTILINE):
        if kind in names.split(", "):
            return getattr(import_module(module), kind)
    return found.get(kind, int)


def _struct(name, fields):
    def clear(self):
        for field, make in fields.items():
            setattr(self, field, make())

    return type(
        name, (), {"__slots__": tuple(fields), "__init__": clear, "__class_getitem__": classmethod(cython.array)}
    )


def _give_fields(made, fields):
    """Lets new objects of a class hold the structs that they have when compiled."""

    def create(cls, *_arguments, **_options):
        found = super(made, cls).__new__(cls)
        for field, make in fields.items():
            setattr(found, field, make())
        return found

    made.__new__ = create
