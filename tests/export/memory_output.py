"""What the tests of tables write to."""

from typing import Any


class Output:
    """Bytes as they came."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    def write_view(self, view: Any) -> None:
        self.data += view
