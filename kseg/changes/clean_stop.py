"""The marker of a clean stop, `.kafka_cleanshutdown`: that it exists tells a broker to look into no log when it starts.

It goes before the first byte of any partition changes, and comes back where no byte did. Rule: Kafka's
CleanShutdownFileHandler and LogManager.
"""

import os

from kseg.changes.disk import Disk
from kseg.changes.journal import MARKER, read_root_file, replace_file


def remove_marker(directory: str, disk: Disk) -> None:
    """Makes a broker look into all logs when it starts. Raises OSError."""
    path = os.path.join(directory, MARKER)
    if os.path.lexists(path):
        disk.unlink(path)
        disk.sync_directory(directory)


class CleanStop:
    """The ``marker`` of a log directory, None where there is none, during the change of one of its partitions."""

    def __init__(self, directory: str, disk: Disk | None = None) -> None:
        """Raises KsegError where the marker cannot be read."""
        self._directory, self._disk = directory, disk or Disk()
        self.marker = read_root_file(directory, MARKER)

    def remove(self) -> None:
        """Raises OSError."""
        remove_marker(self._directory, self._disk)

    def restore(self) -> None:
        """Puts the marker back as it was, if there was one. Raises OSError."""
        path = os.path.join(self._directory, MARKER)
        if self.marker is not None and not os.path.lexists(path):
            replace_file(path, self.marker.content, self._disk, self.marker)
