"""Loads kernel modules as Python, and provides ``cython``, the cimports and the names of the module's .pxd.

The constants and structs of a .pxd are thus defined once, for both kernels, and `cimport *` includes those of another.
"""

import builtins
import errno
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader

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
    found, cimported, header, number = {}, {}, "", -1
    blocks, fields, inside = [], [], ""  # structs and classes; kinds and names of fields of the last one, its indent
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "from" and words[3] == "*":
            found |= {name: value for name, value in vars(import_module(words[1])).items() if name[0] != "_"}
        elif words[0] == "from":
            cimported |= dict.fromkeys((name.rstrip(",") for name in words[3:]), words[1])
        elif words[:3] == ["cdef", "extern", "from"]:
            header = words[3].strip(':"')
        elif "struct" in words[:3] or words[:2] == ["cdef", "class"]:
            fields, inside = [], line[: line.index("c")] + "    "
            blocks.append((words[1] == "class", words[2].partition("(")[0].rstrip(":"), fields))
        elif len(words) == 2 and words[1].startswith('"KSEG_'):
            found[words[0]] = _enumerators(header)[words[1].strip('"')]
        elif words[-1] == "enum:":
            inside, number = "", -1
        elif line[4:5].isupper() and words[0].rstrip(",").isupper():
            for item in line.strip().rstrip(",").split(","):
                name, _, value = item.partition("=")
                number = int(value, 0) if value else number + 1
                found[name.strip()] = number
        elif not inside or not line.startswith(inside):
            inside = ""  # the block has ended: a function follows
        elif len(words) > 1 and words[-1].isidentifier():
            fields.append((words[-2], words[-1]))
    held = {}
    for is_class, name, fields in blocks:
        makers = {field: _maker(kind, found, cimported) for kind, field in fields}
        if not is_class:
            found[name] = _struct(name, makers)
        elif structs := {field: make for field, make in makers.items() if hasattr(make, "__slots__")}:
            held[name] = structs
    return found | {"": held} if held else found


def _maker(kind, found, cimported):
    """Returns the factory of a field's first value: its struct, from this .pxd or a cimported one, or int."""
    return getattr(import_module(cimported[kind]), kind) if kind in cimported else found.get(kind, int)


@cache
def _enumerators(header):
    """Values of the enumerators that a C header of kseg/kernel/native defines by a number."""
    lines = __loader__.get_data(_HEADER_PATH.format(header)).decode("ascii").splitlines()
    split = [line.split() for line in lines if line.startswith("    KSEG_") and " = " in line]
    return {words[0]: int(words[2].rstrip(","), 0) for words in split if words[2].rstrip(",").lstrip("-")[:1].isdigit()}


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
