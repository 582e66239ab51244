"""Fixtures for tests of output; batches built field by field are shared with the tests of verify."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "verify"))
