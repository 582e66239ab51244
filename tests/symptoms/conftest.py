"""The command line as a fixture."""

from cli.conftest import kseg

__all__ = ["kseg"]
