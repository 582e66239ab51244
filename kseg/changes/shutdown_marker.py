"""The clean shutdown marker `.kafka_cleanshutdown`: if it exists, a broker skips log recovery when it starts.

It is removed before the first byte of a .log changes, and restored if no byte was changed. Source: Kafka's
CleanShutdownFileHandler and LogManager.
"""

import os
import stat
from hashlib import sha256

from kseg.changes.disk import Disk
from kseg.changes.journal import read_root_file, replace_file
from kseg.changes.lock import LOCK_NAME
from kseg.segment.files import CLEAN_SHUTDOWN, OWN_PREFIX


def remove_marker(directory: str, disk: Disk) -> None:
    """Removes the marker, so that a broker recovers all logs when it starts. Raises OSError."""
    path = os.path.join(directory, CLEAN_SHUTDOWN)
    if os.path.lexists(path):
        disk.unlink(path)
    disk.sync_directory(directory)  # a killed process may have removed it without a sync


def root_state(directory: str) -> str:
    """Returns a digest of a log directory's names, and of sizes and times of its files, without the marker, the lock
    and kseg's own files. A broker that runs there changes it; a change of kseg that is undone does not."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name not in (CLEAN_SHUTDOWN, LOCK_NAME) and not entry.name.startswith(OWN_PREFIX):
                status = entry.stat(follow_symlinks=False)
                is_file = stat.S_ISREG(status.st_mode)
                found.append((os.fsencode(entry.name), *((status.st_size, status.st_mtime_ns) if is_file else ())))
    return sha256(repr(sorted(found)).encode()).hexdigest()


class ShutdownMarker:
    """The marker of a log directory while one of its partitions is changed. ``file`` is None if it does not exist."""

    def __init__(self, directory: str, disk: Disk | None = None) -> None:
        """Raises KsegError if the marker cannot be read."""
        self._directory, self._disk = directory, disk or Disk()
        self.file = read_root_file(directory, CLEAN_SHUTDOWN)

    def remove(self) -> None:
        """Raises OSError."""
        remove_marker(self._directory, self._disk)

    def restore(self) -> None:
        """Restores the marker, if there was one. Raises OSError."""
        path = os.path.join(self._directory, CLEAN_SHUTDOWN)
        if self.file is not None and not os.path.lexists(path):
            replace_file(path, self.file.content, self._disk, self.file)
