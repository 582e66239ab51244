"""Random damage of many kinds to one partition directory of v2 batches: what disks, crashes, brokers and people do.

A kind is a function of a random generator and the directory; it says what it did, or raises `UnfitError` before it has
changed anything. The checkpoints of the log directory above are left alone, but for the recovery point.
"""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from broker.wrecks import PAGE_BYTES, Entry, entries, logs
from segment.segments import sealed

Kind = Callable[[random.Random, Path], str]
FIELDS = (
    (21, "h", (1, 8, 16, 32, 64)), (23, "i", (-1, 0, 1000, -(1 << 31))), (27, "q", (-1, 0, 1 << 62)),
    (35, "q", (-1, 0, -5)), (43, "q", (-1, -5, 0, 1 << 40)), (51, "h", (-1, 32767)), (53, "i", (-1, 0, (1 << 31) - 1)),
    (57, "i", (-1, 0, 3)),
)  # fmt: skip
"""Position, form and wrong values of fields that the checksum covers; of attributes the bits that are turned."""
UNSEALED = (
    (0, "q", (0, -1, 1 << 62)),
    (8, "i", (0, -1, 14, 48, (1 << 31) - 1)),
    (12, "i", (-1, 0, 50)),
    (16, "b", (0, 1, 3)),
)
STRAYS = ("x.log", "1.log", "-1.log", "9" * 20 + ".log", "abc.snapshot", "12.snapshot", "foo.swap", f"{3:020d}.index",
          f"{0:020d}.log.tmp")  # fmt: skip


class UnfitError(Exception):
    """The partition has nothing that this kind could damage."""


def name_of(base: int, suffix: str) -> str:
    return f"{base:020d}{suffix}"


def base_of(path: Path) -> int:
    return int(path.name.partition(".")[0])


def some_log(rng: random.Random, partition: Path) -> Path:
    filled = [path for path in logs(partition) if path.stat().st_size]
    if not filled:
        raise UnfitError
    return rng.choice([filled[-1], rng.choice(filled)])


def some_batch(rng: random.Random, partition: Path) -> tuple[Path, bytes, Entry]:
    path = some_log(rng, partition)
    data = path.read_bytes()
    return path, data, rng.choice(entries(data))


def bit_turned(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    at = entry.position + rng.choice([rng.randrange(61), rng.randrange(entry.size)])
    path.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
    return f"{path.name}: a bit at {at}"


def cut_short(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    at = entry.position + rng.randrange(entry.size)
    path.write_bytes(data[:at])
    return f"{path.name} cut to {at} of {len(data)}"


def page_zeroed(rng: random.Random, partition: Path) -> str:
    path = some_log(rng, partition)
    data = path.read_bytes()
    at = rng.randrange(len(data)) // PAGE_BYTES * PAGE_BYTES
    end = rng.choice([len(data), min(at + PAGE_BYTES, len(data))])
    path.write_bytes(data[:at] + bytes(end - at) + data[end:])
    return f"{path.name}: zeros from {at} to {end}"


def tail_added(rng: random.Random, partition: Path) -> str:
    path, size = some_log(rng, partition), rng.choice((1, 12, 17, 18, 61, 300, PAGE_BYTES))
    tail = rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])
    path.write_bytes(path.read_bytes() + tail)
    return f"{path.name}: {size} bytes more, the first {tail[0]}"


def bytes_put_in(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    new = rng.choice([bytes, rng.randbytes])(rng.choice((1, 7, 61, 500)))
    path.write_bytes(data[: entry.position] + new + data[entry.position :])
    return f"{path.name}: {len(new)} bytes at {entry.position}"


def bytes_lost(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    at, count = entry.position + rng.randrange(entry.size), rng.randrange(1, entry.size)
    path.write_bytes(data[:at] + data[at + count :])
    return f"{path.name}: {count} bytes out at {at}"


def batch_lost(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    path.write_bytes(data[: entry.position] + data[entry.end :])
    return f"{path.name}: the batch at {entry.position} out"


def batch_doubled(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    other, rest, place = some_batch(rng, partition)
    if rng.random() < 0.5 or other == path:
        path.write_bytes(data[: entry.end] + data[entry.position :])
        return f"{path.name}: the batch at {entry.position} twice"
    other.write_bytes(rest[: place.position] + data[entry.position : entry.end] + rest[place.position :])
    return f"{path.name}: the batch at {entry.position} in {other.name} too"


def batches_swapped(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    after = next((one for one in entries(data) if one.position == entry.end), None)
    if after is None:
        raise UnfitError
    first, second = data[entry.position : entry.end], data[after.position : after.end]
    path.write_bytes(data[: entry.position] + second + first + data[after.end :])
    return f"{path.name}: the batches at {entry.position} and {after.position} swapped"


def field_changed(rng: random.Random, partition: Path) -> str:
    """Outside of what the checksum covers."""
    path, data, entry = some_batch(rng, partition)
    at, form, values = rng.choice(UNSEALED)
    place, value = entry.position + at, rng.choice(values)
    path.write_bytes(data[:place] + struct.pack(">" + form, value) + data[place + struct.calcsize(form) :])
    return f"{path.name}: {value} at {at} of the batch at {entry.position}"


def field_changed_under_checksum(rng: random.Random, partition: Path) -> str:
    path, data, entry = some_batch(rng, partition)
    at, form, values = rng.choice(FIELDS)
    batch, value = data[entry.position : entry.end], rng.choice(values)
    if at == 21:
        value ^= struct.unpack_from(">h", batch, at)[0]
    batch = sealed(batch[:at] + struct.pack(">" + form, value) + batch[at + struct.calcsize(form) :])
    path.write_bytes(data[: entry.position] + batch + data[entry.end :])
    return f"{path.name}: {value} at {at} of the batch at {entry.position}, sealed"


def marker_changed(rng: random.Random, partition: Path) -> str:
    for path in logs(partition):
        data = path.read_bytes()
        markers = [entry for entry in entries(data) if entry.is_control]
        if markers:
            entry, at = rng.choice(markers), rng.randrange(61, 78)
            batch = bytearray(data[entry.position : entry.end])
            batch[at] ^= 1 << rng.randrange(8)
            path.write_bytes(data[: entry.position] + sealed(bytes(batch)) + data[entry.end :])
            return f"{path.name}: byte {at} of the marker at {entry.position}, sealed"
    raise UnfitError


def segment_lost(rng: random.Random, partition: Path) -> str:
    path = some_log(rng, partition)
    gone = [path] if rng.random() < 0.5 else list(partition.glob(path.stem + ".*"))
    for each in gone:
        each.unlink()
    return f"gone: {sorted(each.name for each in gone)}"


def segment_renamed(rng: random.Random, partition: Path) -> str:
    path = some_log(rng, partition)
    base = max(0, base_of(path) + rng.choice((-3, -1, 1, 3)))
    if (partition / name_of(base, ".log")).exists():
        raise UnfitError
    for each in partition.glob(path.stem + ".*"):
        if not each.name.endswith(".snapshot"):
            each.rename(partition / name_of(base, each.suffix))
    return f"{path.name} is {base} now"


def segment_made(rng: random.Random, partition: Path) -> str:
    """An empty one or a copy, a little above the base of another or far above the end."""
    path = some_log(rng, partition)
    base = rng.choice([base_of(path) + rng.randint(1, 5), base_of(logs(partition)[-1]) + 5000])
    data = rng.choice([b"", path.read_bytes()])
    (partition / name_of(base, ".log")).write_bytes(data)
    return f"{len(data)} bytes of {path.name} as segment {base}"


def side_file_changed(rng: random.Random, partition: Path) -> str:
    found = [
        path for path in sorted(partition.iterdir()) if path.suffix.endswith("index") or path.suffix == ".snapshot"
    ]
    if not found:
        raise UnfitError
    path, other = rng.choice(found), rng.choice(found)
    data = path.read_bytes()
    kinds: dict[str, Callable[[], object]] = {
        "gone": path.unlink,
        "empty": lambda: path.write_bytes(b""),
        "zeros": lambda: path.write_bytes(bytes(len(data) or 96)),
        "garbage": lambda: path.write_bytes(rng.randbytes(max(24, len(data)))),
        "too long": lambda: path.write_bytes(data + rng.randbytes(rng.choice((5, 12, 1000)))),
        "too short": lambda: path.write_bytes(data[:-3]),
        f"that of {other.name}": lambda: path.write_bytes(other.read_bytes()),
    }
    kind = rng.choice(list(kinds))
    kinds[kind]()
    return f"{path.name}: {kind}"


def side_files_lost(rng: random.Random, partition: Path) -> str:
    for path in [*partition.glob("*index"), *partition.glob("*.snapshot")]:
        path.unlink()
    return "no side files"


def snapshot_copied(rng: random.Random, partition: Path) -> str:
    found = sorted(partition.glob("*.snapshot"))
    if not found:
        raise UnfitError
    path, last = rng.choice(found), base_of(logs(partition)[-1])
    offset = rng.choice([last + 100000, max(1, last - 3), max(1, last // 2)])
    shutil.copyfile(path, partition / "copy")
    (partition / "copy").rename(partition / name_of(offset, ".snapshot"))
    return f"{path.name} also at {offset}"


def epochs_changed(rng: random.Random, partition: Path) -> str:
    path = partition / "leader-epoch-checkpoint"
    rows = path.read_text().splitlines()[2:]
    texts = {
        "none": "", "garbage": "\1\2", "stale": f"0\n1\n{rows[0]}\n" if rows else "0\n0\n",
        "ahead": f"0\n{len(rows) + 1}\n" + "".join(f"{row}\n" for row in [*rows, "99 99999999"]),
        "wrong count": f"0\n{len(rows) + 1}\n" + "".join(f"{row}\n" for row in rows),
    }  # fmt: skip
    kind = rng.choice(list(texts))
    path.write_text(texts[kind])
    return f"leader epochs: {kind}"


def recovery_point_moved(rng: random.Random, partition: Path) -> str:
    path, bases = partition.parent / "recovery-point-offset-checkpoint", [base_of(log) for log in logs(partition)]
    topic, _, number = partition.name.rpartition("-")
    rows = (
        [row for row in path.read_text().splitlines()[2:] if row.split()[:2] != [topic, number]]
        if path.exists()
        else []
    )
    point = rng.choice([0, bases[-1], bases[-1] + 3, bases[len(bases) // 2] + 1, bases[-1] + 1_000_000])
    rows.append(f"{topic} {number} {point}")
    path.write_text(f"0\n{len(rows)}\n" + "".join(f"{row}\n" for row in rows))
    return f"recovery point {point}"


def swap_left(rng: random.Random, partition: Path) -> str:
    """Of the segments before the last one, whole or cut, with indexes or without; or of an index alone."""
    found = logs(partition)
    if rng.random() < 0.25:
        path = partition / name_of(base_of(found[0]), rng.choice((".index", ".timeindex", ".txnindex")) + ".swap")
        path.write_bytes(rng.randbytes(48))
        return f"{path.name} of garbage"
    if len(found) < 2:
        raise UnfitError
    first, data = found[0], b"".join(path.read_bytes() for path in found[:-1])
    data = data[: len(data) - rng.choice((0, 0, 40))]
    (partition / (first.name + ".swap")).write_bytes(data)
    if rng.random() < 0.5:
        (partition / (first.stem + ".index.swap")).write_bytes(b"")
        (partition / (first.stem + ".timeindex.swap")).write_bytes(b"")
    return f"{first.name}.swap of {len(data)} bytes"


def leftovers(rng: random.Random, partition: Path) -> str:
    path = some_log(rng, partition)
    suffix = rng.choice((".cleaned", ".deleted"))
    (partition / (path.name + suffix)).write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])
    return f"{path.name}{suffix}"


def stray_put_in(rng: random.Random, partition: Path) -> str:
    name = rng.choice(STRAYS)
    shutil.copyfile(some_log(rng, partition), partition / name)
    return f"a copy of a log is {name}"


def two(rng: random.Random, partition: Path) -> str:
    first = rng.choice([bit_turned, cut_short, page_zeroed, batch_doubled])(rng, partition)
    return first + "; " + rng.choice([side_file_changed, epochs_changed, recovery_point_moved])(rng, partition)


def nothing(_rng: random.Random, _partition: Path) -> str:
    return "nothing"


OF_BYTES: tuple[Kind, ...] = (
    bit_turned, cut_short, page_zeroed, tail_added, bytes_put_in, bytes_lost, batch_lost, batch_doubled,
    batches_swapped,
)  # fmt: skip
"""What leaves each batch that is still whole as its broker wrote it."""
ALL: tuple[Kind, ...] = (
    *OF_BYTES, field_changed, field_changed_under_checksum, marker_changed, segment_lost, segment_renamed, segment_made,
    side_file_changed, side_files_lost, snapshot_copied, epochs_changed, recovery_point_moved, swap_left, leftovers,
    stray_put_in, two, nothing,
)  # fmt: skip


def damage(rng: random.Random, partition: Path, kinds: tuple[Kind, ...] = ALL) -> str:
    """Does damage of a kind drawn at random that fits; what was done."""
    while True:
        try:
            return rng.choice(kinds)(rng, partition)
        except UnfitError:
            continue
