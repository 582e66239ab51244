"""kseg: segment forensics and repair for Apache Kafka logs.

``kseg.open(path)`` reads a segment, a partition or a log directory as an ordered stream of `Batch` and `Damage` items.
Names are resolved on first use, so that a build or ``kseg --help`` imports next to nothing.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kseg.segment import Batch, Damage, Record
    from kseg.segment import open_path as open

__all__ = ["Batch", "Damage", "Record", "__version__", "open"]

_HOMES = {"open": "open_path", "Batch": "Batch", "Damage": "Damage", "Record": "Record"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kseg' has no attribute {name!r}")
    from kseg import segment

    value = getattr(segment, home)
    globals()[name] = value
    return value
