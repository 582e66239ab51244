"""The compiled and the interpreted kernel print the same lines of the same bytes, in outputs of any size."""

from pathlib import Path
from random import Random

from kernel.random_segments import segment
from kernel.rendering import batch, frames, message, real_segments, record, render, varint
from kseg.kernel.layout.rows import FRAME_STATE, FRAME_WIDTH
from kseg.kernel.render.lines import BASE64_KEYS, BASE64_VALUES, CONTENTS, DEEP, ESCAPE, LINE_ONLY, SKIP_METADATA
from kseg.kernel.render.rendering import Renderer

TEXT_FLAGS = (0, DEEP, DEEP | CONTENTS, DEEP | CONTENTS | SKIP_METADATA, DEEP | CONTENTS | ESCAPE, LINE_ONLY)
JSON_FLAGS = (0, DEEP, DEEP | CONTENTS, DEEP | CONTENTS | BASE64_KEYS, DEEP | CONTENTS | BASE64_VALUES)
CONTEXT = (b'{"type":"batch","position":', b'{"type":"record","position":', b',"topic":"t","partition":0,"offset":')
MIN_OUTPUT_BYTES = 4096
REAL = sorted({path for path, _ in real_segments(Path(__file__).resolve().parents[3] / "testdata")})
VALUES = (b"plain", b'quo"te \\ \n\r\t\x00\x1f', "é中\U0001f600".encode(), b"\xff\xfe", b"v" * 3000, b"\x01" * 900)


def odd_segment(chance: Random) -> bytes:
    """Batches whose header fields and contents are out of the ordinary."""
    records = [record(0, key=chance.choice(VALUES), value=chance.choice(VALUES))]
    records.append(
        record(1, value=chance.choice(VALUES), headers=[(chance.choice(VALUES), chance.choice((None, *VALUES)))])
    )
    marker = record(0, key=bytes([0, 0, 0, chance.randrange(4)]), value=bytes(chance.choice((2, 6, 7))))
    parts = [
        batch(records, 10, chance.choice((0, 8, 16, 64)), producer=chance.choice((-1, 5)), epoch=chance.choice((-1, 3)),
              sequence=chance.choice((-1, 0, 0x7FFFFFFF)), leader_epoch=chance.choice((-1, 7))),
        batch([marker], 20, 48, producer=5),
        message(30, chance.choice((0, 1)), chance.choice((None, *VALUES)), chance.choice((None, *VALUES))),
        batch([varint(9) + b"\0"], 40, count=chance.choice((0, 1))),
    ]  # fmt: skip
    return b"".join(chance.sample(parts, 3))


def lines(chance: Random) -> object:
    data = segment(chance) if chance.random() < 0.6 else odd_segment(chance)
    is_json = chance.random() < 0.5
    flags = chance.choice(JSON_FLAGS if is_json else TEXT_FLAGS)
    renderer = Renderer(flags, CONTEXT if is_json else None)
    renderer.origin = chance.choice((0, 10**12))
    table = frames(data)
    if chance.random() < 0.1:
        table[chance.randrange(len(table) // FRAME_WIDTH) * FRAME_WIDTH + FRAME_STATE] = 0
    sizes = {"out_bytes": chance.choice((MIN_OUTPUT_BYTES, 4500, 65536)), "row_count": chance.choice((1, 2, 64)),
             "header_count": chance.choice((1, 2, 64))}  # fmt: skip
    return [render(renderer, data, table, **sizes), renderer.batches, renderer.records]


def real_lines(chance: Random) -> object:
    """The lines of a segment that a broker wrote."""
    data, is_json = chance.choice(REAL).read_bytes(), chance.random() < 0.5
    renderer = Renderer(chance.choice(JSON_FLAGS if is_json else TEXT_FLAGS), CONTEXT if is_json else None)
    return [len(data), *render(renderer, data, frames(data))]


CASES = {"lines": (lines, 200), "real_lines": (real_lines, 100)}
