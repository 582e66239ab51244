"""Takes away from Python what Windows lacks: imported first, it shows whether reading needs any of it."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
FUNCTIONS = (
    "chown", "copy_file_range", "fchmod", "fchown", "fork", "getegid", "geteuid", "getuid", "lchown", "listxattr",
    "mkfifo", "posix_fadvise", "posix_fallocate", "pread", "preadv", "pwrite", "pwritev", "sched_getaffinity",
    "sendfile", "statvfs", "sysconf", "uname",
)  # fmt: skip
FLAGS = ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "SEEK_DATA", "SEEK_HOLE")
SIGNALS = ("SIGHUP", "SIGBUS", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGWINCH", "pthread_sigmask")
_MISSING = -1
_statvfs = os.statvfs

for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]
for holder, names in ((os, (*FUNCTIONS, *FLAGS)), (signal, SIGNALS)):
    for name in names:
        if hasattr(holder, name):
            delattr(holder, name)
os.supports_dir_fd = set()


def _without_descriptors(name: str) -> None:
    """No call takes a directory's descriptor, and none opens a directory."""
    call = getattr(os, name)

    def refusing(path: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("dir_fd", _MISSING) not in (None, _MISSING):
            raise NotImplementedError("dir_fd unavailable on this platform")
        if name == "open" and os.path.isdir(path):
            raise PermissionError(13, "Permission denied", path)
        return call(path, *arguments, **options)

    setattr(os, name, refusing)


for name in ("open", "stat", "mkdir", "unlink", "rename", "replace", "link", "rmdir"):
    _without_descriptors(name)


def _is_open(path: Any) -> bool:
    """Whether this process has opened a file."""
    with suppress(OSError):
        found = os.stat(path)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):
                if os.path.samestat(found, os.fstat(descriptor)):
                    return True
    return False


def _only_closed(name: str) -> None:
    """No open file is renamed or removed, but those of two standard modules that take other ways on Windows."""
    call = getattr(os, name)

    def refusing(path: Any, *arguments: Any, **options: Any) -> Any:
        if Path(path).is_file() and _is_open(path) and not Path(path).name.startswith(("pym-", "tmp")):
            raise PermissionError(13, "The process cannot access the file because it is being used", path)
        return call(path, *arguments, **options)

    setattr(os, name, refusing)


for name in ("unlink", "remove", "rename", "replace"):
    _only_closed(name)


# These are imported here, so that they find what is left.
import multiprocessing  # noqa: E402
import multiprocessing.heap  # noqa: E402
import shutil  # noqa: E402

_get_context = multiprocessing.get_context


def _disk_usage(path: Any) -> Any:
    """Takes no descriptor."""
    status = _statvfs(os.fspath(path))
    return SimpleNamespace(free=status.f_bavail * status.f_frsize)


shutil.disk_usage = _disk_usage
multiprocessing.heap.Arena._dir_candidates = []  # type: ignore[attr-defined]
multiprocessing.get_context = lambda _method=None: _get_context("spawn")
