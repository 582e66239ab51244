"""Takes away from Python what Windows lacks: imported first, it shows whether reading needs any of it."""

import os
import signal
import sys
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
