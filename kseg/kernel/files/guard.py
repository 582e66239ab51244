"""Guards mapped files against truncation: lost pages read as zeros, instead of ending the process with SIGBUS.

There is one table of guarded mappings in a process (guard.h). Only a compiled kernel on a POSIX system can guard. If
`AVAILABLE` is false, read a file that may change instead of mapping it.
"""

import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.files import sigbus

from threading import Lock

AVAILABLE: bool = bool(sigbus.guard_available()) if cython.compiled else False

_lock = Lock()


def guard(buffer: cython.const[cython.uchar][::1]) -> None:
    """Guards a read-only mapping of a file until `unguard`, which must come before it is unmapped.

    Keeps no reference to it. Raises RuntimeError if not `AVAILABLE`, or if 1024 mappings are guarded already. The
    mapping must not be read then if its file may be truncated.
    """
    if cython.compiled:
        if len(buffer) == 0:
            return
        with _lock:
            status: cython.int = sigbus.guard_add(cython.address(buffer[0]), len(buffer))
        if status != 0:
            raise RuntimeError(f"cannot guard a mapping: {sigbus.KSEG_GUARD_MAX} are guarded, or no signal handler")
    else:
        raise RuntimeError("cannot guard a mapping: the kernel is not compiled")


def unguard(buffer: cython.const[cython.uchar][::1]) -> None:
    """Ends `guard` and resets `was_cut`. No effect on a mapping that is not guarded."""
    if cython.compiled:
        if len(buffer) == 0:
            return
        with _lock:
            sigbus.guard_remove(cython.address(buffer[0]))
    else:
        raise RuntimeError("cannot guard a mapping: the kernel is not compiled")


def was_cut(buffer: cython.const[cython.uchar][::1]) -> bool:
    """Whether a page of a guarded mapping was read beyond the end of its file, as zeros.

    A truncation inside the last page is not noticed: its bytes read as zeros without a fault. Compare the size of the
    file too.
    """
    if cython.compiled:
        if len(buffer) == 0:
            return False
        with _lock:
            return sigbus.guard_hit(cython.address(buffer[0])) != 0
    else:
        raise RuntimeError("cannot guard a mapping: the kernel is not compiled")


def keep_freed_memory() -> None:
    """Lets the process keep up to 16 MiB of freed memory per thread for reuse. For programs, not for libraries."""
    if cython.compiled:
        sigbus.keep_freed()
