"""The command line, for tests of whole images."""

from cli.conftest import kseg

__all__ = ["kseg"]
