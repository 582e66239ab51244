"""The error of packed bytes that cannot be decompressed."""


class UnpackError(Exception):
    """The packed bytes end or are not valid at ``position`` of the packed file."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position

    @classmethod
    def cut(cls, compression: str, position: int) -> "UnpackError":
        """A frame that the end of the file cuts."""
        return cls(position, f"{compression}: it ends in the middle of a compressed frame")

    @classmethod
    def of_library(cls, compression: str, position: int, error: Exception) -> "UnpackError":
        """A frame that its library refuses."""
        return cls(position, f"{compression}: {str(error) or type(error).__name__}")
