"""Rounds of random damage to real log directories of v2 batches."""

import hashlib
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from broker import damages, loading
from broker.loading import LOG_STARTS, MARKER, RECOVERY_POINTS, Loader
from broker.scenes import TESTDATA
from kseg.changes.apply import Keeping, apply
from kseg.errors import KsegError
from kseg.node.node import Nodes
from kseg.recovery.broker.loading import plan_partition
from kseg.recovery.options import BrokerStart
from kseg.releases.release import era_of

BASE = TESTDATA / "log-directories" / "4.3.1-rounds"
RECORDED = TESTDATA / "recovery" / "rounds.json"
"""Results of Kafka's loaders: by release and by round and partition the damage, and the result of `record`. Made by
`cd tests && python -m broker.rounds 40`, with Java and Maven."""
RECORDED_SEED = "1"
REFUSED = "refused"
RELEASES = {"4.4.0": "4.4", "4.3.1": "4.3", "3.9.1": "3.9"}
DEFAULT_INTERVAL_BYTES = 4096
NOW_MS = 1_795_400_090_000
STATES = (("kill", ""), ("clean", ""), ("kill", RECOVERY_POINTS), ("clean", MARKER))
"""Log directories, and the file that is taken away before the damage is done."""


def damaged(folder: Path, seed: str, number: int, kinds: tuple[damages.Kind, ...] = damages.ALL) -> dict[Path, str]:
    """Makes the log directory of a round in ``folder``. Returns the damage done to each of its partitions."""
    name, without = STATES[number % len(STATES)]
    shutil.copytree(BASE / name, folder)
    if without:
        (folder / without).unlink()
    done = {}
    for partition in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("__")):
        if name == "kill":
            loading.with_preallocated_indexes(partition)
        done[partition] = damages.damage(random.Random(f"{seed}/{number}/{partition.name}"), partition, kinds)
    return done


def recovered(partition: Path, interval_bytes: int, release: str) -> str:
    """Recovers a partition as a broker of the release does. Returns the text of the refusal, "" if there is none."""
    root = partition.parent
    start = BrokerStart(
        was_clean=(root / MARKER).exists(),
        recovery_point=loading.offset_in(root / RECOVERY_POINTS, partition.name),
        log_start_offset=loading.offset_in(root / LOG_STARTS, partition.name),
        now_ms=NOW_MS,
        interval_bytes=interval_bytes,
        era=era_of(release),
    )
    try:
        apply(plan_partition(str(partition), start).plan, "recover", Keeping(keeps=False))
    except KsegError as error:
        return str(error)
    return ""


def digest(partition: Path) -> str:
    """Returns a digest of all of a partition that a recovery must leave as the loader leaves it."""
    return hashlib.sha256(repr(sorted(loading.state(partition).items())).encode()).hexdigest()[:16]


def record(release: str, folder: Path, count: int) -> dict[str, list[str]]:
    """Returns for each partition of ``count`` rounds its damage and a result: the digest of the loader's files; if it
    refuses the partition the digest of kseg's files, which it accepts, or "refused". Partitions with an index that kseg
    rebuilds and the loader leaves empty are left out."""
    found = {}
    with Loader(release, folder) as loader:
        for number in range(count):
            for partition, done in damaged(folder / f"{release}-{number}", RECORDED_SEED, number).items():
                theirs, ours = (folder / copy / partition.parent.name / partition.name for copy in ("loader", "kseg"))
                for copy in (theirs, ours):
                    shutil.copytree(partition.parent, copy.parent)
                result = _result(loader, theirs, ours, RELEASES[release])
                if result:
                    found[f"{number}/{partition.name}"] = [done, result]
                for copy in (theirs, ours):
                    shutil.rmtree(copy.parent)
    return found


def _result(loader: Loader, theirs: Path, ours: Path, release: str) -> str:
    interval_bytes = Nodes().partition(str(theirs)).interval_bytes[0] or DEFAULT_INTERVAL_BYTES
    answer = loader.load(theirs, NOW_MS, interval_bytes)
    refusal = recovered(ours, interval_bytes, release)
    if answer != "taken":
        found = REFUSED if refusal else digest(ours)
        assert refusal or loader.load(ours, NOW_MS, interval_bytes) == "taken", ours
        return found
    made = loading.state(ours)
    is_rebuilt = any(data == b"" and made.get(name) for name, data in loading.state(theirs).items())
    return "" if is_rebuilt else digest(theirs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        rows = {release: record(version, Path(folder), int(sys.argv[1])) for version, release in RELEASES.items()}
    RECORDED.write_text(json.dumps(rows, indent=0) + "\n")
