"""The compiled and the interpreted kernel give the same items, dumps and compactions of the same files."""

import shutil
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from fuzz.batches import out_of_place
from kseg.cli.main import main
from kseg.dump.options import DumpOptions
from kseg.dump.run import Dump
from kseg.output.sink import MemorySink
from kseg.segment.items import Damage
from segment.reading import items_at
from segment.segments import SAMPLES, TESTDATA, entries, sample

OLD = TESTDATA / "kafka-0.7.2/direct/codecs-0/00000000000000000000.kafka"
COMPACTED = [
    "kafka-0.10.2.2/codecs/rec-gzip-0", "kafka-0.10.2.2/codecs/compact-lat-snappy-0",
    "kafka-0.10.2.2/codecs/rec-snappy-0", "kafka-0.10.2.2/codecs/rec-lz4-0",
    "kafka-4.3.1/clients/kafka-python-zstd-0", "kafka-4.3.1/clients/librdkafka-lz4-0",
    "kafka-4.3.1/clients/kafka-python-snappy-0",
]  # fmt: skip


def mutated(chance: Random) -> bytes:
    """A few batches of any era but 0.7, with changes of the kinds that disks and people make."""
    pool = [part for name in SAMPLES for part in entries(sample(name))]
    return out_of_place(b"".join(chance.choices(pool, k=6)), chance)


def dumps(chance: Random) -> object:
    """Items, records and lines of changed batches."""
    is_07 = chance.random() < 0.2
    with TemporaryDirectory() as folder:
        path = Path(folder, OLD.name if is_07 else f"{0:020}.log")
        path.write_bytes(out_of_place(OLD.read_bytes()[:4000], chance) if is_07 else mutated(chance))
        found: list[object] = []
        for item in items_at(path):
            if isinstance(item, Damage):
                found.append(repr(item))
            else:
                found += [item.position, item.size, item.magic, item.is_valid, item.header, item.check(), list(item)]
        for form in ("text", "json"):
            sink = MemorySink()
            Dump(sink, DumpOptions([str(path)], contents=True, form=form, jobs=1, quiet=True)).run()
            found.append(bytes(sink.data))
        return repr(found).replace(folder, "")


def compactions(chance: Random) -> object:
    """The files after a compaction. New batches count timestamps from the delete horizon, which goes by the time."""
    name, now = chance.choice(COMPACTED), str(chance.randrange(1795300000000, 1895300000000))
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(TESTDATA / name, Path(folder, Path(name).name)))
        words = "compact -q --no-quarantine --include-active --min-cleanable-ratio 0 --force-policy --drop-null-keys"
        assert main([*words.split(), "--now", now, str(copy)], standalone_mode=False) in (None, 0)
        return [(path.name, sha256(path.read_bytes()).hexdigest()) for path in sorted(copy.iterdir())]


CASES = {"dumps": (dumps, 150), "compactions of files": (compactions, 4)}
