"""The hot loops: Cython in pure-Python mode, one source that runs compiled or interpreted.

``KSEG_KERNEL=python`` makes every kernel module load from its .py file, ``KSEG_KERNEL=compiled`` refuses to do so.
"""

import os
import sys

from kseg.errors import KernelError

MODE = os.environ.get("KSEG_KERNEL", "")


class _SourceOnly:
    """Finds kernel modules as .py files, past the compiled ones that lie beside them."""

    def find_spec(self, name, path=None, target=None):
        package, _, module = name.rpartition(".")
        if package != __name__:
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, os.path.join(os.path.dirname(__file__), module + ".py"))


if MODE not in ("", "compiled", "python"):
    raise KernelError(f"KSEG_KERNEL is {MODE!r}: it may be compiled or python")
if MODE == "python":
    sys.meta_path.insert(0, _SourceOnly())

from kseg.kernel.checksum import COMPILED

if MODE == "compiled" and not COMPILED:
    raise KernelError(
        "KSEG_KERNEL=compiled, but kseg's kernel is not compiled here: reinstall kseg where there is a C compiler"
    )


def description() -> str:
    """``compiled`` or ``interpreted``, as ``kseg --version`` prints it."""
    return "compiled" if COMPILED else "interpreted"
