"""Offset and time indexes."""

import gzip
import struct
from pathlib import Path

from verification.findings_cases.bases import INDEXED, indexed, name
from verification.findings_cases.case import Made, Section, Told
from verification.index_cases import DAMAGED, repeated_batch, set_entry

CASES = case = Section()
PLACE = "lat-gzip-0/"
LOG, INDEX, TIMES = (PLACE + name(0, suffix) for suffix in (".log", ".index", ".timeindex"))
ENTRIES = ((22, 1267), (42, 2659), (66, 4110), (85, 5302))
"""Offsets and positions of the index of `indexed`: the second batch and those behind it."""
TIME_ENTRIES = ((1795251957608, 41), (1795251957611, 65), (1795251957612, 84), (1795251957613, 89))


def told(code: str, entry: int, offset: int | None, file: str = INDEX, **options: str) -> Told:
    """A finding about one entry."""
    width = 8 if file == INDEX else 12
    return Told(code, file, entry * width, width, offset, **options)


def of_entry(
    folder: Path, code: str, number: int, first: int | None, second: int | None, offset: int, file: str = INDEX
) -> Made:
    """One entry changed."""
    set_entry(indexed(folder) / Path(file).name, number, first, second)
    return Made("lat-gzip-0", INDEXED, [told(code, number, offset, file)])


@case
def index_missing(folder: Path) -> Made:
    """The offset index removed."""
    (indexed(folder) / name(0, ".index")).unlink()
    return Made("lat-gzip-0", INDEXED, [Told("index-missing", LOG)])


@case
def index_corrupt(folder: Path) -> Made:
    """Of four entries the second has an offset below 0, the third leads into a batch, the last one is too low."""
    index = indexed(folder) / name(0, ".index")
    set_entry(index, 1, -3)
    set_entry(index, 2, second=4111)
    set_entry(index, 3, 3, 7)
    return Made("lat-gzip-0", INDEXED, [Told("index-corrupt", INDEX, 8, 24, -3)])


@case
def index_misleads(folder: Path) -> Made:
    """The position of the third entry is one byte too high."""
    return of_entry(folder, "index-misleads", 2, None, 4111, 66)


@case
def index_beyond_log(folder: Path) -> Made:
    """The log cut in front of its last batch, to which the last entry leads; the time index cut to it."""
    partition = indexed(folder)
    (partition / name(0)).write_bytes((partition / name(0)).read_bytes()[: ENTRIES[3][1]])
    times = partition / name(0, ".timeindex")
    times.write_bytes(times.read_bytes()[:36])
    return Made("lat-gzip-0", INDEXED, [told("index-beyond-log", 3, 85)])


@case
def index_unsorted(folder: Path) -> Made:
    """The third entry is the second once more."""
    return of_entry(folder, "index-unsorted", 2, *ENTRIES[1], ENTRIES[1][0])


@case
def index_below_base(folder: Path) -> Made:
    """The relative offset of the third entry is -3."""
    return of_entry(folder, "index-below-base", 2, -3, None, -3)


@case
def index_zero_tail(folder: Path) -> Made:
    """512 zeros behind the entries of a segment that is not the last."""
    index = indexed(folder, closed=True) / name(0, ".index")
    index.write_bytes(index.read_bytes() + bytes(512))
    return Made("lat-gzip-0", INDEXED, [Told("index-zero-tail", INDEX, 32, 512)])


@case
def index_bad_size(folder: Path) -> Made:
    """Three bytes behind the entries."""
    index = indexed(folder) / name(0, ".index")
    index.write_bytes(index.read_bytes() + b"\1\2\3")
    return Made("lat-gzip-0", INDEXED, [Told("index-bad-size", INDEX, 32, 3)])


@case
def index_imprecise(folder: Path) -> Made:
    """The offset of the third entry lies inside the batch that it leads to (66 to 84)."""
    return of_entry(folder, "index-imprecise", 2, 70, None, 70)


@case
def index_sparse(folder: Path) -> Made:
    """One batch again and again, up to 17 MiB with offsets that rise, and an index with an entry for the second one."""
    partition = folder / "t-0"
    partition.mkdir()
    one = repeated_batch(1, least_bytes=4000)
    step = int.from_bytes(one[23:27], "big") + 1
    data = repeated_batch((17 << 20) // len(one), least_bytes=4000)
    (partition / (name(0) + ".gz")).write_bytes(gzip.compress(data, 9, mtime=0))
    (partition / name(0, ".index")).write_bytes(struct.pack(">ii", 2 * step - 1, len(one)))
    (partition / name(0, ".timeindex")).write_bytes(b"")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    found = [Told("index-sparse", f"t-0/{name(0, '.index')}")]
    return Made("t-0", "kafka-4.3.1/codecs/codec-mix-0", found, {"packed": [f"t-0/{name(0)}"]})


@case
def time_index_missing(folder: Path) -> Made:
    """The time index removed."""
    (indexed(folder) / name(0, ".timeindex")).unlink()
    return Made("lat-gzip-0", INDEXED, [Told("time-index-missing", LOG)])


@case
def time_index_corrupt(folder: Path) -> Made:
    """Of four entries the second has an offset below 0, the third another timestamp, the last one is too low."""
    times = indexed(folder) / name(0, ".timeindex")
    set_entry(times, 1, second=-3)
    set_entry(times, 2, TIME_ENTRIES[2][0] + 1)
    set_entry(times, 3, 5, 7)
    return Made("lat-gzip-0", INDEXED, [Told("time-index-corrupt", TIMES, 12, 36, -3)])


@case
def time_index_mismatch(folder: Path) -> Made:
    """The timestamp of the second entry is one too low."""
    timestamp, offset = TIME_ENTRIES[1]
    return of_entry(folder, "time-index-mismatch", 1, timestamp - 1, None, offset, TIMES)


@case
def time_index_incomplete(folder: Path) -> Made:
    """The last entry cut off, in a segment that is not the last."""
    times = indexed(folder, closed=True) / name(0, ".timeindex")
    times.write_bytes(times.read_bytes()[:36])
    return Made("lat-gzip-0", INDEXED, [Told("time-index-incomplete", TIMES)])


@case
def time_index_beyond_log(folder: Path) -> Made:
    """The log cut in front of its last batch, to which the last entry leads; the offset index cut to it."""
    partition = indexed(folder)
    (partition / name(0)).write_bytes((partition / name(0)).read_bytes()[: ENTRIES[3][1]])
    index = partition / name(0, ".index")
    index.write_bytes(index.read_bytes()[:24])
    return Made("lat-gzip-0", INDEXED, [told("time-index-beyond-log", 3, 89, TIMES)])


@case
def time_index_unsorted(folder: Path) -> Made:
    """The offset of the third entry is below that of the second."""
    return of_entry(folder, "time-index-unsorted", 2, None, 60, 60, TIMES)


@case
def time_index_below_base(folder: Path) -> Made:
    """The relative offset of the third entry is -3."""
    return of_entry(folder, "time-index-below-base", 2, None, -3, -3, TIMES)


@case
def time_index_zero_tail(folder: Path) -> Made:
    """504 zeros behind the entries of a segment that is not the last."""
    times = indexed(folder, closed=True) / name(0, ".timeindex")
    times.write_bytes(times.read_bytes() + bytes(504))
    return Made("lat-gzip-0", INDEXED, [Told("time-index-zero-tail", TIMES, 48, 504)])


@case
def time_index_bad_size(folder: Path) -> Made:
    """Five bytes behind the entries."""
    times = indexed(folder) / name(0, ".timeindex")
    times.write_bytes(times.read_bytes() + b"\1\2\3\4\5")
    return Made("lat-gzip-0", INDEXED, [Told("time-index-bad-size", TIMES, 48, 5)])


@case
def orphan_index(folder: Path) -> Made:
    """An index beside the segments that has no .log."""
    orphan = DAMAGED / "orphan-index" / "dplain-0" / name(7777, ".index")
    (indexed(folder) / orphan.name).write_bytes(orphan.read_bytes())
    return Made("lat-gzip-0", INDEXED, [Told("orphan-index", PLACE + orphan.name)])
