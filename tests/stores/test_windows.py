"""Where a pass over a part of a file can begin."""

import os
from pathlib import Path

from kseg.stores.extent import Extent
from kseg.stores.windows import next_frame


def test_a_search_for_a_cut_ends_at_its_limit(tmp_path: Path, testdata: Path) -> None:
    path = tmp_path / "late.log"
    one = (testdata / "speed" / "tiny.log").read_bytes()
    path.write_bytes(bytes(300_000) + one)
    descriptor = os.open(path, os.O_RDONLY)
    size = path.stat().st_size
    assert next_frame(Extent(descriptor), 0, size) == 300_000
    assert next_frame(Extent(descriptor), 0, size, 300_000) == -1
    assert next_frame(Extent(descriptor), 0, size, 300_001) == 300_000
    os.close(descriptor)
