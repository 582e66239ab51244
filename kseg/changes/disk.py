"""Every system call that changes a directory, in one class, so that tests can let any of them fail or be the last.

No method follows a symbolic link in any part of a path (`kseg.segment.no_follow`), gives a right that the model of a
file has not, or sets a set-user-id, set-group-id or sticky bit. No method syncs unless its name says so: what has to
be lasting, and when, is decided by those who call.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kseg.segment.no_follow import create_file, names_in, open_directory, open_file, parent_of, status_of

_COPY_BYTES = 8 << 20
_NO_COPY_RANGE = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.ETXTBSY}
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_ATTRIBUTE = {errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_CLONE = _NO_COPY_RANGE | {errno.ENOTTY, errno.EISDIR, errno.EBADF}
_FICLONE = 0x40049409
_ATTRIBUTES = ("user.", "system.posix_acl_", "security.selinux")
"""Extended attributes that new files get from old ones; others, such as capabilities, give rights."""
_DEPTH = 4
"""Directories within each other: kseg makes no more."""


class Disk:
    """Changes files. Raises OSError as the system does."""

    def make_directory(self, path: str) -> None:
        """One new directory. Raises FileExistsError where something is there."""
        with parent_of(path) as (at, name):
            os.mkdir(name, 0o755, dir_fd=at)

    def create(self, path: str) -> int:
        """The descriptor of a new, empty file. Raises FileExistsError where something is there."""
        return create_file(path)

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
            with parent_of(path) as (old_at, old), parent_of(name) as (new_at, new):
                os.link(old, new, src_dir_fd=old_at, dst_dir_fd=new_at, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        return True

    def rename(self, path: str, target: str) -> None:
        """What is at the target is replaced."""
        with parent_of(path) as (old_at, old), parent_of(target) as (new_at, new):
            os.replace(old, new, src_dir_fd=old_at, dst_dir_fd=new_at)

    def unlink(self, path: str) -> None:
        with parent_of(path) as (at, name):
            os.unlink(name, dir_fd=at)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def set_time(self, target: str | int, mtime_ns: int) -> None:
        """Sets when a file, or an open one, was last written."""
        if isinstance(target, int):
            os.utime(target, ns=(mtime_ns, mtime_ns))
            return
        with parent_of(target) as (at, name):
            os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=at, follow_symlinks=False)

    def take_after(
        self, path: str, model: str, as_directory: bool = False, descriptor: int = -1, mask: int = 0
    ) -> None:
        """Gives a file of ours, the open one where it is open, owner and mode of a model: a file, or the directory in
        which ours will lie. ``mask``: rights that it does not get.

        A broker has to be able to open, and with its topic to remove, what kseg makes as another user: a file that
        all may read goes to the owner of its directory, whoever owns the model. Raises PermissionError where this user
        may not give files away, it has the mode then; a group that is not the user's own is let be.
        """
        status, directory = status_of(model), status_of(os.path.dirname(os.path.abspath(path)))
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, "is a symbolic link, which kseg does not follow here", model)
        owner, mode = status, status.st_mode & 0o777
        if stat.S_ISREG(status.st_mode) and status.st_uid != directory.st_uid and mode & stat.S_IROTH:
            owner = directory
        if stat.S_ISDIR(status.st_mode) and not as_directory:
            mode &= 0o666
        with _opened(path, as_directory, descriptor) as ours:
            own = os.fstat(ours)
            os.fchmod(ours, mode & ~mask)
            if (own.st_uid, own.st_gid) != (owner.st_uid, owner.st_gid):
                try:
                    os.fchown(ours, owner.st_uid, owner.st_gid)
                except PermissionError:
                    if own.st_uid != owner.st_uid:
                        raise

    def has_other_name(self, descriptor: int) -> bool:
        """Whether an open file has another name, such as in a backup that is made of hard links."""
        return os.fstat(descriptor).st_nlink > 1

    def restore(self, descriptor: int, mode: int, mtime_ns: int) -> None:
        """Gives an open file of ours the mode and time that another had, as far as they are those of plain files."""
        os.fchmod(descriptor, mode & 0o666)
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def copy_attributes(self, path: str, target: str, descriptor: int = -1) -> None:
        """Extended attributes that give no rights but to the file (access control lists), as the system allows it."""
        if not hasattr(os, "listxattr"):
            return
        source = open_file(path)
        try:
            with _opened(target, False, descriptor) as ours:
                for name in _attributes(source):
                    try:
                        os.setxattr(ours, name, os.getxattr(source, name))
                    except OSError as error:
                        if error.errno not in _NO_ATTRIBUTE:
                            raise
        finally:
            os.close(source)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory as lasting as what they name."""
        descriptor = open_directory(path, is_read=True)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        with parent_of(path) as (at, name):
            os.rmdir(name, dir_fd=at)

    # What follows is made of the above.

    def write_file(self, path: str, data: bytes, model: str) -> None:
        """A new synced file with these bytes, of the owner of the model."""
        descriptor = self.create(path)
        try:
            self.write(descriptor, data)
            self.take_after(path, model, descriptor=descriptor)
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def copy_file(self, path: str, target: str, fallback: str, only_clone: bool = False, mask: int = 0) -> bool:
        """A new synced file with the bytes, time, owner, mode and attributes of another.

        ``fallback``: the directory whose owner it gets where that of the file cannot be given to it. ``only_clone``:
        nothing is made, and False returned, where the bytes cannot be shared. ``mask``: as in `take_after`.
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
                    self.take_after(target, path, descriptor=descriptor, mask=mask)
                except PermissionError:
                    self.take_after(target, fallback, descriptor=descriptor, mask=mask)
                self.copy_attributes(path, target, descriptor)
                self.set_time(descriptor, status.st_mtime_ns)
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

    def remove_tree(self, path: str, depth: int = _DEPTH) -> None:
        """Removes a directory of our own with all that is in it; links themselves, never what they lead to."""
        if not depth:
            raise OSError(errno.ENOTEMPTY, "holds more directories than kseg makes within each other", path)
        for name in sorted(names_in(path)):
            inner = os.path.join(path, name)
            if stat.S_ISDIR(status_of(inner).st_mode):
                self.remove_tree(inner, depth - 1)
            else:
                self.unlink(inner)
        self.remove_directory(path)


def umask() -> int:
    """Rights that new files do not get in this process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _opened(path: str, is_directory: bool, descriptor: int) -> Iterator[int]:
    """The descriptor, if it is one, or that of a file or directory of ours. Raises OSError."""
    if descriptor >= 0:
        yield descriptor
        return
    found = open_directory(path, is_read=True) if is_directory else open_file(path)
    try:
        if not is_directory and os.fstat(found).st_nlink > 1:
            raise OSError(errno.EMLINK, "has another name, so it is none that kseg has made", path)
        yield found
    finally:
        os.close(found)


def _attributes(descriptor: int) -> list[str]:
    try:
        return [name for name in os.listxattr(descriptor) if name.startswith(_ATTRIBUTES)]
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise
        return []


def open_to_read(path: str) -> int:
    """Raises OSError, also where a symbolic link leads there or no regular file lies there."""
    return open_file(path)


def open_to_write(path: str) -> int:
    """Raises OSError, also where a symbolic link leads there or no regular file lies there."""
    return open_file(path, os.O_RDWR)


def stored_end(descriptor: int, size: int) -> int:
    """Where the last bytes of an open file end that are stored: what follows is a hole."""
    position, end = 0, 0
    while position < size:
        data = _next_data(descriptor, position)
        if data >= size:
            break
        end = position = min(_next_hole(descriptor, data), size)
    return end


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
