"""Prints in sections what differs between two releases of Kafka for a tool that reads files.

    PYTHONPATH=.ci:tests python -m release_differences 4.4.0 4.3.1

Java and Maven are needed; the jars of both releases are fetched. CONTRIBUTING.md leads from each section to the files
to change.
"""

import argparse
import difflib
import shutil
import struct
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from broker import jars, loading, rounds
from broker.client import Client
from broker.loading import LOGGING, Loader
from broker.nodes import wait_until
from broker.scenes import Scene, files, put
from broker.test_compacted import PAIR_OF, TOPIC, CleaningNode
from broker.test_dump_log_segments import told_by_kafka
from cleaner.partitions import checkpoint
from cli.command import TESTDATA, truths
from kseg.sidefiles.indexes import TransactionIndex, build_transaction_index
from kseg.symptoms.matching import symptom_of

TOOLS = ("org.apache.kafka", "kafka-tools")
ROUNDS = 8
_KAFKA = "org/apache/kafka"
TALKING = (
    f"{_KAFKA}/storage/internals/", f"{_KAFKA}/common/record/", f"{_KAFKA}/raft/", f"{_KAFKA}/snapshot/",
    f"{_KAFKA}/metadata/properties/", f"{_KAFKA}/tools/DumpLogSegments", "kafka/log/", "kafka/cluster/",
)  # fmt: skip
"""Packages and classes whose messages are compared."""
LONGEST_MESSAGE = 240
"""Longer texts describe settings."""

Section = Iterator[str]


class Releases:
    """The newer release and the older one, with a folder for temporary files."""

    def __init__(self, newer: str, older: str, folder: Path) -> None:
        self.names = (newer, older)
        self.folder = folder

    def class_path(self, release: str) -> str:
        return jars.class_path("kafka_2.13", release, LOGGING, (*TOOLS, release))

    def java(self, release: str, *arguments: str) -> str:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", self.class_path(release), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout or done.stderr

    def differences(self, texts: Iterable[Iterable[str]], shown: int | None = None) -> Section:
        """Lines of the older release with -, of the newer one with +."""
        new, old = (list(each) for each in texts)
        lines = difflib.unified_diff(old, new, lineterm="", n=0)
        found = [line for line in lines if not line.startswith(("--- ", "+++ ", "@@"))]
        yield from found[:shown]
        if shown and len(found) > shown:
            yield f"... {len(found) - shown} lines more"


@cache
def facts(releases: Releases) -> dict[str, list[list[str]]]:
    """Returns the lines of ReleaseFacts.java of both releases, by kind."""
    source = str(Path(__file__).with_name("ReleaseFacts.java"))
    found: dict[str, list[list[str]]] = {}
    for i, release in enumerate(releases.names):
        for line in releases.java(release, source).splitlines():
            kind, _, rest = line.partition("\t")
            found.setdefault(kind, [[], []])[i].append(rest.replace("\t", ": "))
    return found


def dump_help(releases: Releases) -> Section:
    places = [f"{package}.tools.DumpLogSegments" for package in ("org.apache.kafka", "kafka")]

    def lines(release: str) -> list[str]:
        found = (releases.java(release, place, "--help").splitlines() for place in places)
        return next(each for each in found if "ClassNotFoundException" not in each[-1])

    yield from releases.differences(map(lines, releases.names))


def dump_lines(releases: Releases) -> Section:
    """All files of testdata of which there is a dump, with the same flags, and their side files."""
    runs = [(*truth.flags, "--files", str(truth.folder / truth.segment)) for truth in truths()]
    sides = (path for suffix in loading.INDEXES for path in sorted(TESTDATA.glob(f"kafka-4*/*/*-[0-9]/*{suffix}")))
    runs += [("--files", str(path)) for path in [*sides, *sorted(TESTDATA.glob("kafka-4*/*/*-[0-9]/*.snapshot"))]]
    told = []
    for release in releases.names:
        folder = releases.folder / f"dumps-{release}"
        folder.mkdir()
        told.append(told_by_kafka(runs, releases.class_path(release), folder))
    yield f"{len(runs)} dumps"
    for run, *both in zip(runs, *told, strict=True):
        if both[0] != both[1]:
            yield f"{Path(run[-1]).relative_to(TESTDATA)} {' '.join(run[:-2])}"
            texts = ((printed.decode(errors="replace") + thrown).splitlines() for printed, thrown in both)
            yield from releases.differences(texts, 4)


def loaded(releases: Releases) -> Section:
    """Rounds of random damage, and transaction indexes of other versions, which no round has."""
    newer, older = (Loader(release, releases.folder) for release in releases.names)
    with newer, older:
        for number in range(ROUNDS):
            root = releases.folder / f"round-{number}"
            for partition, done in rounds.damaged(root, rounds.RECORDED_SEED, number).items():
                yield from _loaded_twice(partition, done, newer, older, releases.folder)
            shutil.rmtree(root)
        for version in (1, -1, 256):
            root = releases.folder / f"version-{version}"
            shutil.copytree(rounds.BASE / "clean", root)
            for partition in sorted(root.glob("txn-*")):
                if with_version(partition, version):
                    yield from _loaded_twice(partition, f"version {version}", newer, older, releases.folder)
            shutil.rmtree(root)


def with_version(partition: Path, version: int) -> bool:
    """Changes the version of the last entry of the first transaction index; returns whether there is one."""
    for path in sorted(partition.glob("*.txnindex")):
        entries = list(TransactionIndex(path.read_bytes()))
        if entries:
            path.write_bytes(build_transaction_index([*entries[:-1], entries[-1]._replace(version=version)]))
            return True
    return False


def _loaded_twice(partition: Path, done: str, newer: Loader, older: Loader, folder: Path) -> Section:
    answers, states = [], []
    for loader in (newer, older):
        copy = folder / "copy" / partition.name
        shutil.copytree(partition.parent, copy.parent)
        answers.append(loader.load(copy, rounds.NOW_MS, rounds.DEFAULT_INTERVAL_BYTES).replace(str(copy.parent), ""))
        states.append(loading.state(copy))
        shutil.rmtree(copy.parent)
    if answers[0] != answers[1]:
        yield from (f"{partition.name} [{done}]", f"-{answers[1]}", f"+{answers[0]}")
    elif answers[0] == "taken" and states[0] != states[1]:
        new, old = states
        yield f"{partition.name} [{done}]: {[name for name in sorted({*new, *old}) if new.get(name) != old.get(name)]}"


def cleaned(releases: Releases) -> Section:
    """The partitions of testdata/compaction of 4.x, cleaned by a broker of each release."""
    found = [_cleaned_by(release, releases.folder / f"cleaner-{release}") for release in releases.names]
    for topic in PAIR_OF:
        new, old = (each[topic] for each in found)
        differing = [name for name in sorted({*new, *old}) if new.get(name) != old.get(name)]
        if differing:
            sizes = ", ".join(f"{name} {len(old.get(name, b''))} -> {len(new.get(name, b''))} B" for name in differing)
            yield f"{topic}: {sizes}"


def _cleaned_by(release: str, folder: Path) -> dict[str, dict[str, bytes]]:
    folder.mkdir()
    has_internal_size = tuple(map(int, release.split("."))) >= (4, 1)
    topic_settings = [each if has_internal_size else each.replace("internal.segment", "segment") for each in TOPIC]
    with Client(folder) as client, CleaningNode(folder / "node", client, release) as node:
        scene = Scene(node, client, {})
        node.start()
        for topic in PAIR_OF:
            node.create(topic, 1, *topic_settings)
        node.stop()
        for path in node.logs.glob("*-checkpoint"):
            path.write_text("0\n0\n")
        for topic, pair in PAIR_OF.items():
            put(scene.partition(topic, 0), pair.before)
        node.start()
        for topic in PAIR_OF:
            wait_until(lambda: bool(checkpoint(node.logs, f"{topic}-0")))  # noqa: B023
        node.stop()
        return {topic: _compared(scene.partition(topic, 0)) for topic in PAIR_OF}


def _compared(partition: Path) -> dict[str, bytes]:
    """The files of a partition that do not depend on the clock: delete horizons are the time of the cleaning."""
    found = {name: data for name, data in files(partition).items() if name.endswith((".log", *loading.INDEXES))}
    return {name: without_times(data) if name.endswith(".log") else data.rstrip(b"\0") for name, data in found.items()}


def without_times(log: bytes) -> bytes:
    """The headers of v2 batches without checksums and timestamps."""
    at, kept = 0, b""
    while at < len(log):
        kept += log[at : at + 17] + log[at + 21 : at + 27] + log[at + 43 : at + 61]
        at += 12 + struct.unpack_from(">i", log, at + 8)[0]
    return kept


def messages(releases: Releases) -> Section:
    """Messages in the classes of one release only, each with the symptom that it leads to."""
    new, old = (set(_texts(releases.class_path(release))) for release in releases.names)
    for sign, texts in (("-", old - new), ("+", new - old)):
        for text in sorted(texts):
            found = symptom_of(text.replace("\1", "7").replace("{}", "7"))
            yield f"{sign}{text.replace(chr(1), '*')!r}: {found[0].name if found else 'no symptom'}"


def _texts(class_path: str) -> Iterator[str]:
    for path in class_path.split(":"):
        if "/org/apache/kafka/" not in path:
            continue
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.startswith(TALKING) and name.endswith(".class") and "/generated/" not in name:
                    yield from filter(_is_message, _constants(jar.read(name)))


def _is_message(text: str) -> bool:
    is_text = text.replace("\1", "").isprintable() and "{" not in text.replace("{}", "")
    return is_text and 3 < len(text.split()) and len(text) < LONGEST_MESSAGE and not text.startswith(("(", "<"))


_WIDTHS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of a constant after its tag, by tag; 1 is text of its own length (JVM specification, 4.4)."""


def _constants(data: bytes) -> Iterator[str]:
    """Yields the texts in the constant pool of a class file."""
    (count,) = struct.unpack_from(">H", data, 8)
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            yield data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            at += 1 + _WIDTHS[tag]
        number += 2 if tag in (5, 6) else 1


def fact_differences(kind: str, releases: Releases) -> Section:
    yield from releases.differences(facts(releases).get(kind, [[], []]))


SECTIONS: dict[str, Callable[[Releases], Section]] = {
    "record types": partial(fact_differences, "record"),
    "record schemas": partial(fact_differences, "schema"),
    "settings": partial(fact_differences, "setting"),
    "help of the dump tool": dump_help,
    "lines of the dump tool": dump_lines,
    "messages": messages,
    "loader": loaded,
    "cleaner": cleaned,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("newer")
    parser.add_argument("older")
    parser.add_argument("--only", default="", help="sections that begin with this word")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        releases = Releases(given.newer, given.older, Path(folder))
        try:
            for name, lines in SECTIONS.items():
                if name.startswith(given.only):
                    print(f"== {name}", *lines(releases), sep="\n", flush=True)
        except pytest.skip.Exception as error:  # Maven cannot fetch a release
            parser.error(str(error))


if __name__ == "__main__":
    main()
