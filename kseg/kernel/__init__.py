"""The hot loops, written in Cython's pure-Python mode: one source that runs compiled or interpreted.

``KSEG_KERNEL=python`` loads every kernel module from its .py file. ``KSEG_KERNEL=compiled`` raises KernelError if the
kernel is not compiled.
"""

import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import spec_from_file_location

from kseg.errors import KernelError
from kseg.kernel.interpreted import InterpretedLoader

MODE = os.environ.get("KSEG_KERNEL", "")


class _KernelFinder:
    """Finds the modules of the sub-packages, in the extension of the sub-package or as .py files."""

    def find_spec(self, name, path=None, target=None):
        package, _, module = name.rpartition(".")
        if package.rpartition(".")[0] != __name__:
            return None
        extension = None if MODE == "python" else _extension_in(path[0])
        if extension is not None:
            return spec_from_file_location(name, extension, loader=ExtensionFileLoader(name, extension))
        source = os.path.join(path[0], module + ".py")
        return spec_from_file_location(name, source, loader=InterpretedLoader(name, source))


@cache
def _extension_in(folder):
    """Returns the path of the compiled extension in a folder, None if there is none."""
    for suffix in EXTENSION_SUFFIXES:
        path = os.path.join(folder, "_compiled" + suffix)
        if os.path.exists(path):
            return path
    return None


if sys.byteorder != "little":
    raise KernelError("kseg needs a little-endian machine, and this one is big-endian")
if MODE not in ("", "compiled", "python"):
    raise KernelError(f"KSEG_KERNEL is {MODE!r}: it may be compiled or python")
sys.meta_path.insert(0, _KernelFinder())

# One sub-package stands for all: the build removes an incomplete set of extensions.
COMPILED = MODE != "python" and _extension_in(os.path.join(__path__[0], "scan")) is not None

if MODE == "compiled" and not COMPILED:
    raise KernelError(
        "KSEG_KERNEL=compiled, but kseg's kernel is not compiled here: reinstall kseg where there is a C compiler"
    )


def description() -> str:
    """Returns ``compiled`` or ``interpreted``, as ``kseg --version`` prints it."""
    return "compiled" if COMPILED else "interpreted"
