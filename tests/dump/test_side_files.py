"""``kseg dump`` of indexes with kafka-dump-log's options for them."""

import gzip
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

DAMAGED = TESTDATA / "side-files/damaged"
OUT_OF_ORDER = DAMAGED / "timeindex-corrupt-unclean/dplain-0/00000000000000000046.timeindex"
INDEX = DAMAGED / "timeindex-trunc-5-clean/dplain-0/00000000000000000046.index"
SANITY = sorted(TESTDATA.glob("kafka-*/*/truth/*/side-files.sanity.txt.gz"))[::3]


@pytest.mark.parametrize("truth", SANITY, ids=[path.parent.name for path in SANITY])
def test_a_sanity_check_says_what_kafkas_says(truth: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(truth.parent.parent.parent)
    want = gzip.decompress(truth.read_bytes())
    names = [line.removeprefix("Dumping ") for line in want.decode().splitlines() if line.startswith("Dumping ")]
    assert names
    done = kseg("dump", "--index-sanity-check", *names)
    assert (done.status, done.out, done.err) == (0, want, "")


def test_verifying_prints_no_entries(kseg: Kseg) -> None:
    shown, checked = kseg("dump", OUT_OF_ORDER), kseg("dump", "--verify-index-only", OUT_OF_ORDER)
    assert (shown.status, checked.status) == (1, 1)
    assert len(shown.lines) > 1
    assert checked.lines == [f"Dumping {OUT_OF_ORDER}"]
    assert checked.err == shown.err != ""


def test_a_batch_may_be_too_long_to_be_looked_at(kseg: Kseg) -> None:
    assert "Mismatches in" not in kseg("dump", INDEX).err
    assert kseg("dump", "--max-message-size", "64K", INDEX).err == kseg("dump", INDEX).err
    assert ", log offset: -1" in kseg("dump", "--max-message-size", "60", INDEX).err
