"""The clean shutdown marker `.kafka_cleanshutdown`: if it exists, a broker skips log recovery when it starts.

It is removed before the first byte of a .log changes, and restored if no byte was changed. Source: Kafka's
CleanShutdownFileHandler and LogManager.
"""

import os

from kseg.changes.disk import Disk
from kseg.changes.journal import read_root_file, replace_file
from kseg.segment.files import CLEAN_SHUTDOWN


def remove_marker(directory: str, disk: Disk) -> None:
    """Removes the marker, so that a broker recovers all logs when it starts. Raises OSError."""
    path = os.path.join(directory, CLEAN_SHUTDOWN)
    if os.path.lexists(path):
        disk.unlink(path)
    disk.sync_directory(directory)  # a killed process may have removed it without a sync


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
