"""The clean shutdown marker `.kafka_cleanshutdown`: if it exists, a broker skips log recovery when it starts.

It is removed before the first byte of any partition changes, and restored if no byte was changed. Source: Kafka's
CleanShutdownFileHandler and LogManager.
"""

import os

from kseg.changes.disk import Disk
from kseg.changes.journal import MARKER, read_root_file, replace_file


def remove_marker(directory: str, disk: Disk) -> None:
    """Removes the marker, so that a broker recovers all logs when it starts. Raises OSError."""
    path = os.path.join(directory, MARKER)
    if os.path.lexists(path):
        disk.unlink(path)
        disk.sync_directory(directory)


class CleanStop:
    """The marker of a log directory while one of its partitions is changed. ``marker`` is None if there is none."""

    def __init__(self, directory: str, disk: Disk | None = None) -> None:
        """Raises KsegError if the marker cannot be read."""
        self._directory, self._disk = directory, disk or Disk()
        self.marker = read_root_file(directory, MARKER)

    def remove(self) -> None:
        """Raises OSError."""
        remove_marker(self._directory, self._disk)

    def restore(self) -> None:
        """Restores the marker, if there was one. Raises OSError."""
        path = os.path.join(self._directory, MARKER)
        if self.marker is not None and not os.path.lexists(path):
            replace_file(path, self.marker.content, self._disk, self.marker)
