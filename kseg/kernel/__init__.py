"""The hot loops: Cython in pure-Python mode, one source that runs compiled or interpreted.

``KSEG_KERNEL=python`` makes every kernel module load from its .py file, ``KSEG_KERNEL=compiled`` refuses to do so.
"""

import os
import sys
from importlib.machinery import PathFinder

from kseg.errors import KernelError

MODE = os.environ.get("KSEG_KERNEL", "")


class _SourceOnly:
    """Finds kernel modules as .py files, although compiled ones stand beside them."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith(__name__ + ".") or not path:
            return None
        source = os.path.join(path[0], name.rpartition(".")[2] + ".py")
        if not os.path.exists(source):
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, source)


if MODE not in ("", "compiled", "python"):
    raise KernelError(f"KSEG_KERNEL is {MODE!r}: it may be compiled or python")
if MODE == "python":
    sys.meta_path.insert(0, _SourceOnly())

_found = PathFinder.find_spec(__name__ + ".checksum", __path__)
# All modules are compiled, or none is: the build removes what it cannot complete.
COMPILED = MODE != "python" and _found is not None and not (_found.origin or "").endswith(".py")

if MODE == "compiled" and not COMPILED:
    raise KernelError(
        "KSEG_KERNEL=compiled, but kseg's kernel is not compiled here: reinstall kseg where there is a C compiler"
    )


def description() -> str:
    """``compiled`` or ``interpreted``, as ``kseg --version`` prints it."""
    return "compiled" if COMPILED else "interpreted"
