"""The hot loops: Cython in pure-Python mode, one source that runs compiled or interpreted.

``KSEG_KERNEL=python`` makes every kernel module load from its .py file, ``KSEG_KERNEL=compiled`` refuses to do so.
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
    """Finds the modules of sub-rooms: in the extension of the sub-room, or as .py files."""

    def find_spec(self, name, path=None, target=None):
        room, _, module = name.rpartition(".")
        if room.rpartition(".")[0] != __name__:
            return None
        extension = None if MODE == "python" else _extension_in(path[0])
        if extension is not None:
            return spec_from_file_location(name, extension, loader=ExtensionFileLoader(name, extension))
        source = os.path.join(path[0], module + ".py")
        return spec_from_file_location(name, source, loader=InterpretedLoader(name, source))


@cache
def _extension_in(folder):
    """Path of a sub-room's extension; None where nothing is compiled, or nothing is to be."""
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

# All sub-rooms are compiled, or none is: the build removes what it cannot complete.
COMPILED = MODE != "python" and _extension_in(os.path.join(__path__[0], "scan")) is not None

if MODE == "compiled" and not COMPILED:
    raise KernelError(
        "KSEG_KERNEL=compiled, but kseg's kernel is not compiled here: reinstall kseg where there is a C compiler"
    )


def description() -> str:
    """``compiled`` or ``interpreted``, as ``kseg --version`` prints it."""
    return "compiled" if COMPILED else "interpreted"
