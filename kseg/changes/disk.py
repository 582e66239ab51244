"""Every system call that changes a directory, in one class, so that tests can let any of them fail or be the last.

No method syncs unless its name says so: what has to be lasting, and when, is decided by those who call.
"""

import errno
import os
import stat
import sys
from contextlib import suppress

_COPY_BYTES = 8 << 20
_NO_COPY_RANGE = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.ETXTBSY}
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_ATTRIBUTE = {errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_CLONE = _NO_COPY_RANGE | {errno.ENOTTY, errno.EISDIR, errno.EBADF}
_FICLONE = 0x40049409
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class Disk:
    """Changes files. Raises OSError as the system does."""

    def make_directory(self, path: str) -> None:
        """One new directory. Raises FileExistsError where something is there."""
        os.mkdir(path, 0o755)

    def create(self, path: str) -> int:
        """The descriptor of a new, empty file. Raises FileExistsError where something is there."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC, 0o600)

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def copy_range(self, source: int, position: int, length: int, target: int) -> None:
        """Appends bytes of one open file to another; holes stay holes.

        Raises OSError (EIO) where the source is shorter.
        """
        at, end = os.lseek(target, 0, os.SEEK_END), position + length
        while position < end:
            data = min(_next_data(source, position), end)
            if data > position:  # a hole
                at += data - position
                os.ftruncate(target, at)
                os.lseek(target, at, os.SEEK_SET)
                position = data
                continue
            stop = min(_next_hole(source, position), end)
            done = self._copy_some(source, position, stop - position, target)
            if done == 0:
                raise OSError(errno.EIO, "a file is shorter than it was")
            at, position = at + done, position + done

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

    def clone(self, source: int, target: int) -> bool:
        """Lets an empty file share the bytes of another until one is written to; False where that cannot be."""
        if not sys.platform.startswith("linux"):
            return False
        import fcntl

        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError as error:
            if error.errno not in _NO_CLONE:
                raise
            return False
        return True

    def link(self, path: str, name: str) -> bool:
        """Gives a file a second name; False where the file system, or its rules, have no such link."""
        try:
            os.link(path, name, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        return True

    def rename(self, path: str, target: str) -> None:
        """What is at the target is replaced."""
        os.replace(path, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def set_time(self, path: str, mtime_ns: int) -> None:
        """Sets when the file was last written."""
        os.utime(path, ns=(mtime_ns, mtime_ns), follow_symlinks=False)

    def take_after(self, path: str, model: str, as_directory: bool = False) -> None:
        """Gives a file of ours the owner and mode of a model: a file, or the directory in which ours will lie.

        A broker has to be able to open, and with its topic to remove, what kseg makes as another user. Raises
        PermissionError where that user may not give files away; a group that is not the user's own is let be.
        """
        status, own = os.stat(model), os.stat(path)
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            try:
                os.chown(path, status.st_uid, status.st_gid, follow_symlinks=False)
            except PermissionError:
                if own.st_uid != status.st_uid:
                    raise
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode) and not as_directory:
            mode &= 0o666
        os.chmod(path, mode & 0o777)

    def restore(self, path: str, uid: int, gid: int, mode: int, mtime_ns: int) -> None:
        """Gives a file of ours the owner, mode and time that another had, the owner as far as this user may."""
        own = os.stat(path)
        if (own.st_uid, own.st_gid) != (uid, gid):
            with suppress(PermissionError):
                os.chown(path, uid, gid, follow_symlinks=False)
        os.chmod(path, mode)
        os.utime(path, ns=(mtime_ns, mtime_ns), follow_symlinks=False)

    def copy_attributes(self, path: str, target: str) -> None:
        """Extended attributes (access control lists are some), as far as the system allows it."""
        if not hasattr(os, "listxattr"):
            return
        try:
            names = os.listxattr(path)
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTE:
                raise
            return
        for name in names:
            try:
                os.setxattr(target, name, os.getxattr(path, name))
            except OSError as error:
                if error.errno not in _NO_ATTRIBUTE:
                    raise

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory as lasting as what they name."""
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        os.rmdir(path)

    # What follows is made of the above.

    def write_file(self, path: str, data: bytes, model: str) -> None:
        """A new synced file with these bytes, of the owner of the model."""
        descriptor = self.create(path)
        try:
            self.write(descriptor, data)
            self.take_after(path, model)
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def copy_file(self, path: str, target: str, fallback: str, only_clone: bool = False) -> bool:
        """A new synced file with the bytes, time, owner, mode and attributes of another.

        ``fallback``: the directory whose owner it gets where that of the file cannot be given to it. ``only_clone``:
        nothing is made, and False returned, where the bytes cannot be shared.
        """
        source = open_to_read(path)
        try:
            status, descriptor = os.fstat(source), self.create(target)
            try:
                is_cloned = self.clone(source, descriptor)
                if only_clone and not is_cloned:
                    self.unlink(target)
                    return False
                if not is_cloned:
                    self.copy_range(source, 0, status.st_size, descriptor)
                try:
                    self.take_after(target, path)
                except PermissionError:
                    self.take_after(target, fallback)
                self.copy_attributes(path, target)
                self.set_time(target, status.st_mtime_ns)
                self.sync(descriptor)
            finally:
                os.close(descriptor)
        finally:
            os.close(source)
        return True

    def link_or_copy(self, path: str, target: str) -> None:
        """A second name for a file, or where there can be none a synced copy of it."""
        if not self.link(path, target):
            self.copy_file(path, target, os.path.dirname(target))

    def remove_tree(self, path: str) -> None:
        """Removes a directory of our own with all that is in it."""
        with os.scandir(path) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name, is_directory in found:
            inner = os.path.join(path, name)
            if is_directory:
                self.remove_tree(inner)
            else:
                self.unlink(inner)
        self.remove_directory(path)


def open_to_read(path: str) -> int:
    """Raises OSError, also where the last part of the path is a symbolic link."""
    return os.open(path, os.O_RDONLY | _CLOEXEC | _NOFOLLOW)


def open_to_write(path: str) -> int:
    """Raises OSError, also where the last part of the path is a symbolic link."""
    return os.open(path, os.O_RDWR | _CLOEXEC | _NOFOLLOW)


def _next_data(descriptor: int, position: int) -> int:
    """Where the next bytes lie that are stored, a very large number if there are none; holes are read as zeros."""
    if not hasattr(os, "SEEK_DATA"):
        return position
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return position if position >= os.fstat(descriptor).st_size else os.fstat(descriptor).st_size
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return position
        raise


def _next_hole(descriptor: int, position: int) -> int:
    if not hasattr(os, "SEEK_HOLE"):
        return 1 << 62
    try:
        return os.lseek(descriptor, position, os.SEEK_HOLE)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENXIO):
            return 1 << 62
        raise
