"""All system calls that change a directory, in one class, so that tests can make any of them fail or be the last.

No method follows a symbolic link in any part of a path (`kseg.stores.no_follow`), gives a file more permissions than
its model has, or sets a set-user-id, set-group-id or sticky bit. Only methods with "sync" in their description sync;
callers decide what must be durable, and when.
"""

import errno
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from threading import Lock, Semaphore
from typing import Any, NamedTuple

from kseg.formats.rows import BytesLike
from kseg.stores import no_follow
from kseg.stores.extent import Extent, next_data
from kseg.stores.no_follow import directory_status, status_of
from kseg.stores.place import Place

_COPY_BYTES = 8 << 20
_NO_COPY_RANGE = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.ETXTBSY}
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_ATTRIBUTE = {errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_CLONE = _NO_COPY_RANGE | {errno.ENOTTY, errno.EISDIR, errno.EBADF}
_FICLONE = 0x40049409
_PR_SET_PDEATHSIG = 1
_ATTRIBUTES = ("user.", "system.posix_acl_", "security.selinux")
"""Extended attributes that are copied to new files. Others, such as capabilities, would give privileges."""
_TEMPORARY = ".kseg-new-"
_FREEING_THREADS, _FREED_TOGETHER = 16, 16
MANY_FILES = 64
"""As many removed files are worth threads that free them."""
_DEPTH = 4
"""Largest nesting depth of directories that kseg creates."""

_umask_lock = Lock()
"""The mask can only be read by setting it."""


class Model(NamedTuple):
    """Status and extended attributes of a file, which its successor gets."""

    path: str
    status: os.stat_result
    attributes: dict[str, bytes]


class Disk:
    """Changes files. Raises OSError as the system does."""

    def make_directory(self, path: str) -> None:
        """Creates a directory. Raises FileExistsError if the path exists."""
        with no_follow.parent_of(path) as (at, name):
            os.mkdir(name, 0o755, dir_fd=at)

    def create(self, path: str) -> int:
        """Creates an empty file and returns its descriptor. Raises FileExistsError if the path exists."""
        return no_follow.create_file(path)

    def write(self, descriptor: int, data: BytesLike) -> None:
        done = os.write(descriptor, data)
        while done < len(data):
            done += os.write(descriptor, memoryview(data)[done:])

    def copy_range(self, source: Extent, position: int, length: int, target: int) -> None:
        """Appends bytes of one open file, or of a part of one, to another; holes stay holes.

        Raises OSError (EIO) if the source is shorter.
        """
        at, end = os.lseek(target, 0, os.SEEK_END), position + length
        while position < end:
            done = next_data(source, position, end) - position
            if done:  # a hole
                os.ftruncate(target, at + done)
                os.lseek(target, at + done, os.SEEK_SET)
            else:
                start = source.start + position
                stop = min(_next_hole(source.descriptor, start), source.start + end)
                done = self._copy_some(source.descriptor, start, stop - start, target)
            if done == 0 or source.current_size() < end:
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
        """Makes an empty file share the blocks of another (copy on write). Returns False if the file system cannot do
        that.
        """
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
        """Creates a hard link. Returns False if the file system or its rules do not allow it, and for a file in an
        archive."""
        if Place(path).tree is not None:
            return False
        try:
            with no_follow.parent_of(path) as (old_at, old), no_follow.parent_of(name) as (new_at, new):
                os.link(old, new, src_dir_fd=old_at, dst_dir_fd=new_at, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        return True

    def symbolic_link(self, target: str, name: str) -> None:
        """Creates a symbolic link ``name`` to ``target``."""
        with no_follow.parent_of(name) as (at, own_name):
            os.symlink(target, own_name, dir_fd=at)

    def rename(self, path: str, target: str) -> None:
        """Renames a file or directory; an existing target is replaced."""
        with no_follow.parent_of(path) as (old_at, old), no_follow.parent_of(target) as (new_at, new):
            self._keep_open(new_at, new)
            os.replace(old, new, src_dir_fd=old_at, dst_dir_fd=new_at)
        no_follow.forget_directory(path)

    def unlink(self, path: str) -> None:
        with no_follow.parent_of(path) as (at, name):
            self._keep_open(at, name)
            os.unlink(name, dir_fd=at)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def set_time(self, descriptor: int, mtime_ns: int) -> None:
        """Sets the modification time of an open file."""
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def copy_owner(
        self, path: str, model: "str | Model", as_directory: bool = False, descriptor: int = -1, mask: int = 0
    ) -> os.stat_result:
        """Gives a file created by kseg the owner and mode of ``model``: a file, or the directory that will contain it.

        ``descriptor``: the open file, or -1. ``mask``: permissions that it does not get. A broker must be able to open
        the files that kseg creates as another user, and to remove them with the topic. So a copy of a world-readable
        file gets the owner of its directory, whoever owns the model. Returns the status of the file before. Raises
        PermissionError if this user cannot change the owner; the mode is set by then. A group that cannot be set is
        ignored.
        """
        status = model.status if isinstance(model, Model) else status_of(model)
        directory = directory_status(Place(path if path.startswith(os.sep) else Place(path).absolute).parent)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, "is a symbolic link, which kseg does not follow here", model)
        owner, mode = status, status.st_mode & 0o777
        if stat.S_ISREG(status.st_mode) and status.st_uid != directory.st_uid and mode & stat.S_IROTH:
            owner = directory
        if stat.S_ISDIR(status.st_mode) and not as_directory:
            mode &= 0o666
        with _opened(path, as_directory, descriptor) as ours:
            return give(ours, owner, mode & ~mask)

    def copy_owner_if_allowed(self, path: str, model: str, as_directory: bool = False) -> None:
        """Gives a file or directory of an output owner and mode of ``model``, as far as this user may set them, without
        the permissions that the umask forbids.
        """
        with suppress(PermissionError):
            self.copy_owner(path, model, as_directory, mask=umask())

    def set_default_mode(self, descriptor: int) -> None:
        """Gives an open file created by kseg the permissions of any new file of this user."""
        os.fchmod(descriptor, 0o666 & ~umask())

    def has_second_link(self, descriptor: int) -> bool:
        """Whether an open file has a second hard link, for example in a backup made of hard links."""
        return os.fstat(descriptor).st_nlink > 1

    def restore(self, descriptor: int, mode: int, mtime_ns: int) -> None:
        """Sets mode and modification time of an open file created by kseg. Of the mode, only read and write permissions
        are set.
        """
        os.fchmod(descriptor, mode & 0o666)
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def copy_attributes(self, path: "str | Model", target: str, descriptor: int = -1) -> None:
        """Copies the extended attributes that give no privileges (such as access control lists), as far as the system
        allows.
        """
        if isinstance(path, Model):
            found = path.attributes
        elif not hasattr(os, "listxattr") or Place(path).tree is not None:
            return
        else:
            with opened(path) as source:
                found = attributes_of(source)
        if found:
            with _opened(target, False, descriptor) as ours:
                for name, value in found.items():
                    try:
                        os.setxattr(ours, name, value)
                    except OSError as error:
                        if error.errno not in _NO_ATTRIBUTE:
                            raise

    def flush(self, descriptor: int) -> None:
        """Syncs an open file or directory."""
        os.fsync(descriptor)

    def flush_all(self, descriptor: int) -> None:
        """Syncs the whole file system of an open file or directory."""
        import ctypes

        if _system().syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        with no_follow.parent_of(path) as (at, name):
            self._keep_open(at, name)
            os.rmdir(name, dir_fd=at)
        no_follow.forget_directory(path)

    _is_in_phase = False
    _free: "Callable[[int], object] | None" = None
    """Closes a descriptor in another thread."""

    @contextmanager
    def freeing_late(self, is_wanted: bool) -> Iterator[None]:
        """Within the block, other threads free the blocks of removed and replaced files: each stays open until then.

        A file system with the option ``discard`` may wait for its disk, up to some milliseconds, whenever a file is
        freed; a rename that replaces a file waits while it locks out all other renames between directories. On ext4
        without a journal a recovery that replaces 12,655 files takes 3.2 instead of 4.5 s.
        """
        if not is_wanted or not hasattr(os, "O_PATH"):
            yield
            return
        from concurrent.futures import ThreadPoolExecutor

        held, room = list[int](), Semaphore(_FREEING_THREADS + 1)  # of descriptors that are open together
        with ThreadPoolExecutor(_FREEING_THREADS) as pool:

            def free(descriptor: int) -> None:
                held.append(descriptor)
                if len(held) >= _FREED_TOGETHER:
                    room.acquire()
                    pool.submit(_close_all, held.copy(), room)
                    held.clear()

            self._free = free
            try:
                yield
            finally:
                self._free = None
                for descriptor in held:
                    os.close(descriptor)

    def _keep_open(self, at: int, name: str) -> None:
        """Keeps a file or directory open that is to be removed or replaced, if there is one and it is freed late."""
        if self._free is not None:
            with suppress(OSError):
                self._free(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at))

    @contextmanager
    def phase(self, places: Sequence[str]) -> Iterator[None]:
        """With several ``places``, the syncs of the block take place at its end, all at once.

        In such a block, the order in which changes become durable does not matter, and all are in the file systems of
        these directories.
        """
        if len(places) < 2 or not can_sync_file_systems():
            yield
            return
        with ExitStack() as held:
            # Opened first: the system reports only errors since then.
            by_device = {directory_status(place).st_dev: place for place in places}
            descriptors = [held.enter_context(no_follow.readable_directory(place)) for place in by_device.values()]
            self._is_in_phase = True
            try:
                yield
            finally:
                self._is_in_phase = False
            for descriptor in descriptors:
                self.flush_all(descriptor)

    def sync(self, descriptor: int) -> None:
        """Syncs an open file or directory, or leaves that to the end of the phase."""
        if not self._is_in_phase:
            self.flush(descriptor)

    def sync_directory(self, path: str) -> None:
        """Syncs a directory, so that creations, renames and removals in it are durable."""
        if not self._is_in_phase:
            with no_follow.readable_directory(path) as descriptor:
                self.flush(descriptor)

    # Combinations of the calls above.

    @contextmanager
    def new_file(
        self,
        path: str,
        model: "str | Model" = "",
        fallback: str | None = None,
        mask: int = 0,
        attributes: "str | Model" = "",
        mtime_ns: int | None = None,
    ) -> Iterator[int]:
        """Yields the descriptor of a new file; once the block has written it, the file is synced.

        Before that it gets owner and mode of ``model``, as in `copy_owner`, the extended attributes of a file and a
        modification time, if they are given. ``fallback``: the directory whose owner it gets if this user cannot set
        that of the model, "" for this user's, None to raise PermissionError.
        """
        descriptor = self.create(path)
        try:
            yield descriptor
            if model:
                try:
                    self.copy_owner(path, model, descriptor=descriptor, mask=mask)
                except PermissionError:
                    if fallback is None:
                        raise
                    if fallback:
                        self.copy_owner(path, fallback, descriptor=descriptor, mask=mask)
            if attributes:
                self.copy_attributes(attributes, path, descriptor)
            if mtime_ns is not None:
                self.set_time(descriptor, mtime_ns)
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def write_file(self, path: str, data: bytes, model: str, needs_owner: bool = True) -> None:
        """Creates and syncs a file with these bytes, and owner and mode of the model.

        ``needs_owner``: as `copy_owner`, which raises PermissionError; otherwise as `copy_owner_if_allowed`.
        """
        fallback, mask = (None, 0) if needs_owner else ("", umask())
        with self.new_file(path, model, fallback, mask) as descriptor:
            self.write(descriptor, data)

    def copy_file(self, path: str, target: str, fallback: str, only_clone: bool = False, mask: int = 0) -> bool:
        """Creates and syncs a copy of a file with its modification time, owner, mode and extended attributes.

        ``fallback``: the directory whose owner the copy gets if the owner of the file cannot be set. ``only_clone``: if
        the blocks cannot be shared, creates nothing and returns False. ``mask``: as in `copy_owner`.
        """
        with closing(no_follow.open_to_copy(path)) as source:
            size, modified_ns = source.current_size(), source.mtime_ns()
            try:
                with self.new_file(target, path, fallback, mask, path, modified_ns) as descriptor:
                    if source.size is not None or not self.clone(source.descriptor, descriptor):
                        if only_clone:
                            raise _NotClonedError
                        self.copy_range(source, 0, size, descriptor)
            except _NotClonedError:
                self.unlink(target)
                return False
        return True

    def link_or_copy(self, path: str, target: str) -> None:
        """Creates a hard link to a file, or a synced copy if that is not possible."""
        if not self.link(path, target):
            self.copy_file(path, target, Place(target).parent)

    def remove_tree(self, path: str, depth: int = _DEPTH) -> None:
        """Removes a directory of kseg, if there is one, with its contents; symbolic links in it are never followed."""
        if not depth:
            raise OSError(errno.ENOTEMPTY, "holds more directories than kseg makes within each other", path)
        try:
            with no_follow.readable_directory(path) as at, os.scandir(at) as entries:
                found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except FileNotFoundError:
            return
        for name, is_directory in found:
            inner = Place(path) / name
            if is_directory:
                self.remove_tree(inner, depth - 1)
            else:
                self.unlink(inner)
        self.remove_directory(path)

    @contextmanager
    def replacement(self, path: str, temporary_name: str = "") -> Iterator[str]:
        """Yields the path of a temporary file, which the block must create and sync; it then becomes the file ``path``,
        or goes if that fails.

        The rename is synced, too. A temporary file that an interrupted call left is removed first.
        """
        assert not self._is_in_phase  # the file is synced before it gets its name
        directory, name = os.path.split(path)
        temporary = Place(directory) / (temporary_name or _TEMPORARY + name.lstrip("."))
        if temporary.lexists():
            self.unlink(temporary)
        try:
            yield temporary
            self.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                self.unlink(temporary)
            raise
        self.sync_directory(directory)

    def remove_temporary_files(self, directory: str) -> None:
        """Removes the files that a killed `replacement` has left in a directory."""
        for name in filter(is_temporary, no_follow.names_in(directory)):
            self.unlink(Place(directory) / name)


class _NotClonedError(Exception):
    """The file system cannot share the blocks of a file."""


def _close_all(descriptors: list[int], done: Semaphore) -> None:
    try:
        for descriptor in descriptors:
            os.close(descriptor)
    finally:
        done.release()


def is_temporary(name: str) -> bool:
    """Whether an interrupted `Disk.replacement` left a file of this name."""
    return name.startswith(_TEMPORARY)


def umask() -> int:
    """Returns the permissions that new files of this process do not get. Threads may call it at the same time."""
    with _umask_lock:
        mask = os.umask(0)
        os.umask(mask)
    return mask


@cache
def can_sync_file_systems() -> bool:
    """Whether the system can sync a file system and says if that failed (Linux, from 5.8 on)."""
    if not sys.platform.startswith("linux"):
        return False
    major, minor = (int(part) for part in re.findall(r"\d+", os.uname().release + ".0")[:2])
    return (major, minor) >= (5, 8) and hasattr(_system(), "syncfs")


def end_with_parent(parent: int) -> None:
    """Lets the system kill this process as soon as the one that forked it, ``parent``, has ended (Linux)."""
    if sys.platform.startswith("linux"):
        _system().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


@cache
def _system() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def give(descriptor: int, owner: os.stat_result, mode: int) -> os.stat_result:
    """Sets owner and mode of an open file. Returns its status before. Raises PermissionError if this user cannot set
    the owner; a group that cannot be set is ignored.
    """
    own = os.fstat(descriptor)
    os.fchmod(descriptor, mode)
    if (own.st_uid, own.st_gid) != (owner.st_uid, owner.st_gid):
        try:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        except PermissionError:
            if own.st_uid != owner.st_uid:
                raise
    return own


@contextmanager
def _opened(path: str, is_directory: bool, descriptor: int) -> Iterator[int]:
    """Yields the descriptor, or opens a file or directory of kseg. Raises OSError."""
    if descriptor >= 0:
        yield descriptor
        return
    with no_follow.readable_directory(path) if is_directory else opened(path) as found:
        if not is_directory and os.fstat(found).st_nlink > 1:
            raise OSError(errno.EMLINK, "has another name, so it is none that kseg has made", path)
        yield found


def attributes_of(file: int | str) -> dict[str, bytes]:
    """Returns the extended attributes that `Disk.copy_attributes` copies. ``file``: an open one, or a path whose last
    name is not followed. Raises OSError.
    """
    if not hasattr(os, "listxattr"):
        return {}
    found, is_followed = {}, isinstance(file, int)
    try:
        for name in os.listxattr(file, follow_symlinks=is_followed):
            if name.startswith(_ATTRIBUTES):
                found[name] = os.getxattr(file, name, follow_symlinks=is_followed)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise
    return found


def attributes_in(directory: int, name: str) -> dict[str, bytes]:
    """As `attributes_of`, for a file in an open directory. Raises OSError."""
    with suppress(FileNotFoundError):  # the file, or this way to it
        return attributes_of(f"{no_follow.OPEN_FILES}{directory}/{name}")
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    try:
        return attributes_of(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def opened(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yields the descriptor of a regular file. Raises OSError, also for a symbolic link in the path or another kind of
    file.
    """
    descriptor = no_follow.open_file(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def stored_end(descriptor: int, size: int) -> int:
    """Returns the position after the last stored byte of an open file; a hole follows."""
    extent, end = Extent(descriptor), 0
    while (data := next_data(extent, end, size)) < size:
        end = min(_next_hole(descriptor, data), size)
    return end


def _next_hole(descriptor: int, position: int) -> int:
    if not hasattr(os, "SEEK_HOLE"):
        return 1 << 62
    try:
        return os.lseek(descriptor, position, os.SEEK_HOLE)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENXIO):
            return 1 << 62
        raise
