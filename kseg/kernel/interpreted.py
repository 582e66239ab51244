"""Loads kernel modules as Python, and provides ``cython``, the cimports and the names of `kseg.kernel.layout`."""

import builtins
from importlib import import_module
from importlib.machinery import SourceFileLoader

import kseg.kernel.cython as cython


class InterpretedLoader(SourceFileLoader):
    """Runs a kernel module from its .py file."""

    def exec_module(self, module):
        module.__builtins__ = _BUILTINS
        if ".layout." not in module.__name__:  # compiled, each .pxd includes these names
            for layout in ("headers", "rows"):
                found = vars(import_module(f"kseg.kernel.layout.{layout}"))
                module.__dict__.update((name, value) for name, value in found.items() if name[0] != "_")
        super().exec_module(module)

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
