"""Several compressed batches decompressed by one call."""

import pytest

from kernel.rendering import int64s
from kseg.kernel import COMPILED
from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.codecs.recoding import expand_batches
from kseg.kernel.layout.rows import FRAME_POSITION, FRAME_SIZE, FRAME_WIDTH


@pytest.mark.skipif(not COMPILED, reason="an interpreted kernel expands none")
@pytest.mark.parametrize(("position", "size"), [(61, 40), (200, 1)])
def test_frames_must_lie_within_the_buffer(position: int, size: int) -> None:
    frames = int64s(3 * FRAME_WIDTH)
    for at in (0, FRAME_WIDTH):
        frames[at + FRAME_SIZE] = 61
    frames[2 * FRAME_WIDTH + FRAME_POSITION], frames[2 * FRAME_WIDTH + FRAME_SIZE] = position, size
    expansion, expanded = ExpansionBuffer(1 << 20, lambda _: None), int64s(3 * FRAME_WIDTH)
    for stop, message in ((3, "reach beyond the buffer"), (4, "no such frames")):
        with pytest.raises(ValueError, match=message):
            expand_batches(bytes(100), frames, 0, stop, int64s(4), expansion, expanded)
