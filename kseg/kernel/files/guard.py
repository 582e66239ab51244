"""Keeps a mapped file that is cut while it is read from ending the process with SIGBUS: the lost pages read as zeros.

Holds the process's one table of guarded mappings (guard.h). Only a compiled kernel on a POSIX system can do it; where
`AVAILABLE` is false, don't map a file that may change: read it.
"""

import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.files import sigbus

from threading import Lock

AVAILABLE: bool = bool(sigbus.guard_available()) if cython.compiled else False

_lock = Lock()


def guard(buffer: cython.const[cython.uchar][::1]) -> None:
    """Guards a read-only mapping of a file until `unguard`, which must come before it is unmapped.

    Keeps no reference to it. Raises RuntimeError where that is not possible (not `AVAILABLE`, or 1024 mappings are
    guarded already): then nothing may be read from this mapping that could be cut.
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
    """Ends `guard`, and forgets whether the mapping was cut; without effect for one that is not guarded."""
    if cython.compiled:
        if len(buffer) == 0:
            return
        with _lock:
            sigbus.guard_remove(cython.address(buffer[0]))
    else:
        raise RuntimeError("cannot guard a mapping: the kernel is not compiled")


def was_cut(buffer: cython.const[cython.uchar][::1]) -> bool:
    """Whether a page of a guarded mapping was read that its file no longer holds, so that zeros were seen for it.

    A cut inside the file's last page leaves no page missing, and its bytes read as zeros with no fault: compare the
    file's size too.
    """
    if cython.compiled:
        if len(buffer) == 0:
            return False
        with _lock:
            return sigbus.guard_hit(cython.address(buffer[0])) != 0
    else:
        raise RuntimeError("cannot guard a mapping: the kernel is not compiled")


def keep_freed_memory() -> None:
    """Lets the process keep up to 16 MiB of freed memory a thread for reuse; for programs, not for libraries."""
    if cython.compiled:
        sigbus.keep_freed()
