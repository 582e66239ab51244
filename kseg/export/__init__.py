"""Records of segments as columns in the Apache Arrow layout; pyarrow, imported at its first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["fs", "pa", "pc", "pq"]


class _Later:
    """A module that is imported when one of its names is used: pyarrow takes long, and need not be installed."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(import_module(self._module), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.fs as fs
    import pyarrow.parquet as pq
else:
    pa, pc, fs, pq = map(_Later, ("pyarrow", "pyarrow.compute", "pyarrow.fs", "pyarrow.parquet"))
