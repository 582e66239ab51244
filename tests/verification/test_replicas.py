"""Two replicas: real ones that cleaned apart, and copies that something happened to."""

import gzip
import re
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import varint
from kseg.errors import PathError
from kseg.segment.survey import FULL
from kseg.verification import replicas
from kseg.verification.partition import CheckSettings
from kseg.verification.replicas import compare_path
from kseg.verification.report import Comparison
from segment.segments import sealed, spans
from verification.log_directories import checkpoint
from verification.partitions import PLAIN, TESTDATA, Found, batch_of, changed, copied

REPLICAS = TESTDATA / "kafka-1.1.1/replicas"
LAST = "00000000000000000116.log"


class Compared(Found):
    """Findings and comparisons of a call."""

    def __init__(self, here: Path, there: Path, jobs: int = 1) -> None:
        super().__init__()
        self.comparisons: list[Comparison] = []
        settings = CheckSettings(FULL, 0, jobs)
        compare_path(str(here), str(there), settings, self.report, self.comparisons.append)

    @property
    def only(self) -> Comparison:
        (comparison,) = self.comparisons
        return comparison


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "other").mkdir()
    return copied(PLAIN, tmp_path), copied(PLAIN, tmp_path / "other")


def offsets_kafka_prints(broker: str) -> set[int]:
    """Of the records of a replica."""
    found: set[int] = set()
    for dump in (REPLICAS / broker / "truth/ep-compact-0").glob("*.log.dump.txt.gz"):
        lines = gzip.decompress(dump.read_bytes()).decode().splitlines()
        records = (re.match(r"offset: (\d+) .*keysize", line) for line in lines)
        found |= {int(record[1]) for record in records if record}
    return found


@pytest.mark.parametrize("jobs", [1, 2])
def test_replicas_that_cleaned_apart(jobs: int) -> None:
    here, there = offsets_kafka_prints("broker0"), offsets_kafka_prints("broker1")
    assert len(there) > len(here) > 100
    compared = Compared(REPLICAS / "broker0/ep-compact-0", REPLICAS / "broker1/ep-compact-0", jobs)
    found = compared.only
    assert (found.same, found.only_here, found.only_there) == (
        len(here & there), len(here - there), len(there - here),
    )  # fmt: skip
    assert (found.different, found.diverge_at, found.agree_to) == (0, None, max(here & there))
    assert set(compared.codes) == {"replicas-cleaned-apart"}
    back = Compared(REPLICAS / "broker1", REPLICAS / "broker0", jobs).only
    assert (back.only_here, back.only_there) == (found.only_there, found.only_here)


@pytest.mark.parametrize("place", ["kafka-0.8.2.2/codecs", "kafka-0.10.2.2/codecs", "kafka-4.3.1/clients"])
def test_a_replica_is_like_itself(place: str) -> None:
    compared = Compared(TESTDATA / place, TESTDATA / place)
    assert compared.findings == []
    assert len(compared.comparisons) > 1
    assert all(found.is_identical for found in compared.comparisons)
    assert sum(found.same for found in compared.comparisons) > 100


def test_other_segments_of_the_same_log(twins: tuple[Path, Path]) -> None:
    """Brokers need not roll at the same offset."""
    whole, split = twins
    path = split / LAST
    data = path.read_bytes()
    at = spans(data)[2][0]
    path.write_bytes(data[:at])
    (split / f"{struct.unpack_from('>q', data, at)[0]:020}.log").write_bytes(data[at:])
    compared = Compared(whole, split)
    assert (compared.findings, compared.only.is_identical) == ([], True)


def logs(folder: Path, here: bytes, there: bytes, base: int = 0) -> tuple[Path, Path]:
    for name, data in (("a-0", here), ("b-0", there)):
        (folder / name).mkdir()
        (folder / name / f"{base:020}.log").write_bytes(data)
    return folder / "a-0", folder / "b-0"


def test_diverged_values_are_ranges(tmp_path: Path) -> None:
    here = batch_of(range(5)) + batch_of(range(5, 9))
    there = batch_of(range(3)) + batch_of(range(3, 9), o4=b"x", o5=b"y", o8=b"z")
    compared = Compared(*logs(tmp_path, here, there))
    assert [(found.code, found.offset) for found in compared.findings] == [
        ("replicas-diverge", 4), ("replicas-diverge", 8),
    ]  # fmt: skip
    first = compared.findings[0]
    assert first.message.startswith("offsets 4 to 5: value of 2 records differ from ")
    assert first.position == 0
    found = compared.only
    assert (found.same, found.different, found.agree_to, found.diverge_at) == (6, 3, 3, 4)


def test_what_differs_is_named(tmp_path: Path) -> None:
    good = batch_of(range(1))
    other = bytearray(good)
    at = good.index(varint(2) + b"\0\0")
    other[at + 1] = 9
    other[-3:-1] = b"\x02g"
    compared = Compared(*logs(tmp_path, good, sealed(bytes(other[:35]) + bytes(other[35:]))))
    assert "key and headers of 1 record" in compared.findings[0].message


def test_records_missing_in_a_log_that_is_cleaned(tmp_path: Path) -> None:
    """Holes inside batches tell that cleaners are at work."""
    here = batch_of([0, 2]) + batch_of(range(3, 6)) + batch_of(range(6, 9))
    there = batch_of([0, 2]) + batch_of(range(6, 9))
    assert Compared(*logs(tmp_path, here, there)).codes == ["replicas-cleaned-apart"]


def test_the_checkpoint_of_a_cleaner_is_read_each_time(tmp_path: Path) -> None:
    compared = logs(tmp_path, batch_of(range(9)), batch_of(range(3)) + batch_of(range(6, 9)))
    assert Compared(*compared).codes == ["replica-lacks-records"]
    (tmp_path / "cleaner-offset-checkpoint").write_text(checkpoint("a 0 9"))
    assert Compared(*compared).codes == ["replicas-cleaned-apart"]


def test_a_topic_that_is_always_cleaned(tmp_path: Path) -> None:
    here = tmp_path / "__consumer_offsets-0"
    (tmp_path / "other").mkdir()
    there = tmp_path / "other/__consumer_offsets-0"
    for folder, data in ((here, batch_of(range(9))), (there, batch_of(range(3)) + batch_of(range(6, 9)))):
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
    assert Compared(here, there).codes == ["replicas-cleaned-apart"]


def test_damage_is_not_compared(twins: tuple[Path, Path]) -> None:
    path = twins[1] / LAST
    at, size = spans(path.read_bytes())[2]
    changed(path, at + size - 3, b"\0\xff")
    compared = Compared(*twins)
    assert compared.places() == [("replica-not-compared", LAST, at, size)]
    assert compared.findings[0].severity == "warning"
    assert (compared.only.different, compared.only.only_here) == (0, 2)
    changed(path, at + 8, bytes(4))
    assert [place[0] for place in Compared(*twins).places()] == ["replica-not-compared"]


def test_an_undecodable_batch_is_not_compared(tmp_path: Path) -> None:
    good = batch_of(range(3))
    bad = bytearray(good)
    bad[61] = 0x7E
    compared = Compared(*logs(tmp_path, good + batch_of(range(3, 5)), sealed(bytes(bad)) + batch_of(range(3, 5))))
    assert "replica-not-compared" in compared.codes
    assert compared.only.same == 2


def test_partitions_of_two_log_directories(tmp_path: Path) -> None:
    here, there = copied(REPLICAS / "broker0", tmp_path), copied(REPLICAS / "broker1", tmp_path)
    shutil.copytree(here / "ep-compact-0", here / "more-0")
    compared = Compared(here, there)
    assert "replica-missing" in compared.codes
    assert [Path(found.path).name for found in compared.comparisons] == ["ep-compact-0"]
    assert Compared(here / "ep-compact-0", there).only.same == compared.only.same


def test_partitions_of_directories_above_log_directories(tmp_path: Path) -> None:
    """Paired by name, wherever they lie; by their places if a name is there twice."""
    for place in ("a/d1", "b/d2", "b/d1"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "meta.properties").write_text("version=1\n")
    copied(REPLICAS / "broker0" / "ep-compact-0", tmp_path / "a/d1")
    copied(REPLICAS / "broker1" / "ep-compact-0", tmp_path / "b/d2")
    assert [Path(found.other).parent.name for found in Compared(tmp_path / "a", tmp_path / "b").comparisons] == ["d2"]
    copied(REPLICAS / "broker1" / "ep-compact-0", tmp_path / "b/d1")
    compared = Compared(tmp_path / "a", tmp_path / "b")
    assert [Path(found.other).parent.name for found in compared.comparisons] == ["d1"]
    assert compared.codes.count("replica-missing") == 1


def test_a_segment_against_a_segment() -> None:
    path = PLAIN / LAST
    assert Compared(path, path).only.is_identical
    assert Compared(path, PLAIN).only.is_identical


@pytest.mark.parametrize("there", ["missing", "empty", "strangers", "-"])
def test_nothing_to_compare_with(there: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shutil.copytree(PLAIN, tmp_path / "strangers/other-0")
    here = copied(REPLICAS / "broker0", tmp_path)
    with pytest.raises(PathError):
        Compared(here, Path("-") if there == "-" else tmp_path / there)


def test_07_had_no_replicas() -> None:
    with pytest.raises(PathError, match="no replicas"):
        Compared(TESTDATA / "kafka-0.7.2/direct/codecs-0", TESTDATA / "kafka-0.7.2/direct/codecs-0")


contents = st.dictionaries(st.integers(0, 40), st.sampled_from([b"a", b"b"]), max_size=30)


def laid_out(records: dict[int, bytes], sizes: list[int]) -> bytes:
    data, left = b"", sorted(records)
    for size in [*sizes, 50]:
        if part := left[:size]:
            data += batch_of(part, **{f"o{offset}": records[offset] for offset in part})
        left = left[size:]
    return data


@given(contents, contents, st.lists(st.integers(1, 9), max_size=6), st.lists(st.integers(1, 9), max_size=6), st.data())
def test_any_two_logs(
    here: dict[int, bytes], there: dict[int, bytes], sizes: list[int], other: list[int], data: st.DataObject
) -> None:
    """Against dicts of offset to value; with so small an event buffer that calls stop early."""
    import tempfile

    if data.draw(st.booleans(), "alike"):
        there = here | {offset: value for offset, value in there.items() if offset > 35}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "EVENT_LIMIT", data.draw(st.sampled_from([1, 2, 512]), "event limit"))
        compared = Compared(*logs(Path(folder), laid_out(here, sizes), laid_out(there, other)))
    found = compared.only
    both = here.keys() & there.keys()
    differing = sorted(offset for offset in both if here[offset] != there[offset])
    assert found.same == len(both) - len(differing)
    assert found.different == len(differing)
    assert found.diverge_at == (differing[0] if differing else None)
    assert (found.only_here, found.only_there) == (len(here.keys() - both), len(there.keys() - both))
    agreed = [offset for offset in both if not differing or offset < differing[0]]
    assert found.agree_to == (max(agreed) if agreed else None)
    assert ("replicas-diverge" in compared.codes) == bool(differing)
