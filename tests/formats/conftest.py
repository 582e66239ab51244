"""Shares the builder of batches, field by field, with the tests of verify."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "verify"))
