"""Every system call that changes a directory, in one class, so that tests can let any of them fail or be the last."""

import errno
import os
import shutil
from typing import Any

_COPY_BYTES = 8 << 20
_NO_COPY_RANGE = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM}
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP}


class Disk:
    """Changes files so that what a call did has reached the disk when `sync` of the file or directory returns."""

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def write_file(self, path: str, data: bytes) -> None:
        """A new file with these bytes, synced."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            self.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write(self, descriptor: int, data: Any) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def copy_range(self, source: int, position: int, length: int, target: int) -> None:
        """Appends bytes of one open file to another. Raises OSError (EIO) where the source is shorter."""
        while length > 0:
            done = self._copy_some(source, position, length, target)
            if done == 0:
                raise OSError(errno.EIO, "a file is shorter than it was")
            position, length = position + done, length - done

    def _copy_some(self, source: int, position: int, length: int, target: int) -> int:
        if hasattr(os, "copy_file_range"):
            try:
                return os.copy_file_range(source, target, length, position)
            except OSError as error:
                if error.errno not in _NO_COPY_RANGE:
                    raise
        data = os.pread(source, min(length, _COPY_BYTES), position)
        self.write(target, data)
        return len(data)

    def keep(self, path: str, kept: str) -> None:
        """Makes the file reachable as ``kept`` too: by a hard link, else by a synced copy."""
        try:
            os.link(path, kept, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            shutil.copy2(path, kept)
            self.sync_file(kept)

    def rename(self, path: str, target: str) -> None:
        os.replace(path, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def truncate(self, path: str, size: int) -> None:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_file(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory as lasting as what they name."""
        self.sync_file(path)

    def remove_tree(self, path: str) -> None:
        """Removes a directory of our own with all that is in it."""
        for name in sorted(os.listdir(path)):
            inner = os.path.join(path, name)
            if os.path.isdir(inner) and not os.path.islink(inner):
                self.remove_tree(inner)
            else:
                self.unlink(inner)
        os.rmdir(path)
