"""Whatever the files of a partition or log directory hold, and whatever their names are: no check raises."""

import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, record
from kseg.findings.table import KINDS
from kseg.segment.survey import DEEP, FULL, QUICK
from kseg.sidefiles.kinds import ENTRY_NAMES
from verification.log_directories import REAL, check
from verification.partitions import STEM, TESTDATA, Found, log_of
from verification.producer_cases import TRANSACTIONS

PLACES = (REAL, TRANSACTIONS, TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0")
STEMS = (*(f"{base:020}" for base in (0, 46, 116, 999)), "5", "-3", "+7", "x", "", "9" * 30, "\u0663" * 20)
ENDINGS = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".checkpoint", ".kafka", ".tmp")
LEFTOVERS = ("", ".deleted", ".cleaned", ".swap", ".swap.deleted")
NAMES = st.tuples(*map(st.sampled_from, (STEMS, ENDINGS, LEFTOVERS))).map("".join)
PAIRS = st.lists(st.tuples(st.integers(-5, 400), st.integers(-5, 100_000)), max_size=20)
CONTENTS = st.binary(max_size=300) | PAIRS.map(lambda pairs: b"".join(struct.pack(">ii", *pair) for pair in pairs))


def is_told_within(found: Found) -> bool:
    """Whether all codes are known, and wrong entries of indexes lie in their files."""
    for finding in found.findings:
        if "index" in finding.code and finding.position is not None:
            assert (
                0 <= finding.position <= finding.position + (finding.length or 0) <= Path(finding.file).stat().st_size
            )
    return set(found.codes) <= KINDS.keys()


@given(place=st.sampled_from(PLACES), level=st.sampled_from([QUICK, FULL, DEEP]), data=st.data())
def test_no_names_and_no_bytes_raise(
    tmp_path_factory: pytest.TempPathFactory, place: Path, level: int, data: st.DataObject
) -> None:
    """Files with other bytes in them, cut, or of another content; some under another name."""
    copied = Path(shutil.copytree(place, tmp_path_factory.mktemp("hostile") / place.name))
    files = sorted(path for path in copied.rglob("*") if path.is_file())
    for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=5, unique=True)):
        whole = path.read_bytes()
        start, stop, end = sorted(data.draw(st.integers(0, len(whole))) for _ in range(3))
        path.unlink()
        path.with_name(data.draw(st.just(path.name) | NAMES)).write_bytes(
            whole[:start] + data.draw(CONTENTS) + whole[stop : data.draw(st.sampled_from([end, None]))]
        )
    found = check(copied, level)
    assert is_told_within(found)
    assert found.report.is_whole


def test_json_that_nests_too_deep_is_none(tmp_path: Path) -> None:
    schemas = log_of(tmp_path, batch([record(0, key=b"[" * 100_000, value=b"")])).rename(tmp_path / "_schemas-0")
    assert check(schemas, DEEP).codes == ["max-timestamp-mismatch"]


@given(name=st.sampled_from(sorted(ENTRY_NAMES)), content=CONTENTS)
def test_no_bytes_of_a_lone_file_raise(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    path = tmp_path_factory.mktemp("lone") / (
        f"{STEM}{name}" if name.startswith(".") and name != ".kafka_cleanshutdown" else name
    )
    path.write_bytes(content)
    for level in (QUICK, FULL):
        assert is_told_within(check(path, level))
