"""Side files that are named by themselves: `kseg verify x.index` and so on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.errors import PathError
from kseg.findings.table import KINDS
from kseg.segment.survey import DEEP, FULL, QUICK
from kseg.sidefiles.kinds import ENTRY_NAMES, list_side_files
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report
from kseg.verification.run import judge_path
from verification.index_cases import BASE_46, DAMAGED, NOW_MS, STEM, TESTDATA, set_entry

TEXT = TESTDATA / "side-files" / "text"
MIX = TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0"


def judged(path: Path, level: int = FULL) -> tuple[list[Finding], Report]:
    found: list[Finding] = []
    report = Report(found.append)
    judge_path(str(path), CheckSettings(level, NOW_MS), report, lambda _: None)
    return found, report


def real_side_files() -> list[Path]:
    folders = {path.parent for path in TESTDATA.glob("kafka-*/**/*") if path.is_file() and path.parent.name != "truth"}
    folders |= {path.parent for path in TEXT.glob("**/*") if path.is_file()}
    return sorted({Path(file.path) for folder in folders for file in list_side_files(str(folder))})


def test_real_files_are_right() -> None:
    files = real_side_files()
    assert {path.name[20:] if path.name[:20].isdigit() else path.name for path in files} >= {
        ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "meta.properties",
    }  # fmt: skip
    for path in files:
        for level in (QUICK, FULL):
            found, report = judged(path, level)
            assert found == [], path
            assert report.totals.files == 1


def test_real_snapshots_are_right() -> None:
    files = sorted(TESTDATA.glob("kafka-*/**/*.checkpoint")) + sorted(TESTDATA.glob("log-directories/**/*.checkpoint"))
    assert any(path.name == "bootstrap.checkpoint" for path in files)
    assert any(path.name[:20].isdigit() for path in files)
    for path in files:
        found, report = judged(path, DEEP)
        assert found == [], path
        assert report.totals.files == 1
        assert report.totals.batches >= 2


def test_a_damaged_snapshot_says_what_it_is(tmp_path: Path) -> None:
    source = next(TESTDATA.glob("kafka-4.3.1/internal/__cluster_metadata-0/*0455*.checkpoint"))
    path = tmp_path / source.name
    data = bytearray(source.read_bytes())
    data[1000] ^= 4
    path.write_bytes(data)
    found, _ = judged(path)
    assert [(finding.code, finding.position) for finding in found] == [("bad-metadata-snapshot", 166)]


@pytest.mark.parametrize(
    ("case", "file", "code"),
    [
        ("index-corrupt-unclean", f"dplain-0/{BASE_46}.index", "index-corrupt"),
        ("timeindex-corrupt-unclean", f"dplain-0/{BASE_46}.timeindex", "time-index-corrupt"),
        ("snapshot-corrupt-last-clean", "dtxn-0/00000000000000000192.snapshot", "producer-snapshot-damaged"),
        ("txnindex-corrupt-clean", "dtxn-0/00000000000000000010.txnindex", "transaction-index-damaged"),
    ],
)
def test_damaged_files(case: str, file: str, code: str) -> None:
    found, _ = judged(DAMAGED / case / file)
    assert {finding.code for finding in found} == {code}
    assert {finding.file for finding in found} == {str(DAMAGED / case / file)}


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n", "leader-epochs-damaged"),
        ("leader-epoch-checkpoint", b"0\n2\n3 0\n2 5\n", "leader-epochs-unsorted"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0\n", "unreadable-checkpoint"),
        ("cleaner-offset-checkpoint", b"9\n0\n", "unreadable-checkpoint"),
        ("partition.metadata", b"version: 0\ntopic_id: ?", "bad-partition-metadata"),
        ("meta.properties", b"version=1\n", "bad-meta-properties"),
        ("quorum-state", b"[", "bad-quorum-state"),
        (".kafka_cleanshutdown", b"{", "bad-clean-shutdown"),
    ],
)
def test_text_files(name: str, content: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found, report = judged(path)
    assert {finding.code for finding in found} == {code}
    assert (report.totals.files, report.totals.bytes) == (1, len(content))


def test_an_index_is_compared_with_the_log_beside_it(tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copyfile(MIX / f"{STEM}{suffix}", tmp_path / f"{STEM}{suffix}")
    index = tmp_path / f"{STEM}.index"
    set_entry(index, 3, second=1)
    set_entry(tmp_path / f"{STEM}.timeindex", 0, first=7)
    assert [(f.code, f.position) for f in judged(index)[0]] == [("index-unsorted", 24)]
    set_entry(index, 3, second=int.from_bytes(index.read_bytes()[20:24], "big") + 1)
    assert [(f.code, f.position) for f in judged(index)[0]] == [("index-misleads", 24)]
    assert judged(index, QUICK)[0] == []
    (tmp_path / f"{STEM}.log").unlink()
    assert judged(index)[0] == []


CACHE = TEXT / "4.3.1" / "remote-log-index-cache"


def test_copies_of_remote_indexes(tmp_path: Path) -> None:
    """They lie in a directory of their own, in a log directory, without any .log."""
    found, report = judged(CACHE)
    assert (found, report.totals.files, report.failures) == ([], 6, [])
    (tmp_path / "meta.properties").write_bytes((TEXT / "4.3.1" / "meta.properties").read_bytes())
    copied = Path(shutil.copytree(CACHE, tmp_path / CACHE.name))
    index = copied / "220_mNzJ0K1bQXS_kel3S-aw2A.index"
    index.write_bytes(index.read_bytes() + b"???")
    (copied / f"{index.name}.tmp").write_bytes(b"half of an ent")  # one that is being fetched
    for place in (copied, tmp_path):
        found, report = judged(place)
        told = [(f.code, f.file, f.length) for f in found if f.code != "unclean-shutdown"]
        assert (told, report.failures) == ([("index-bad-size", str(index), 3)], [])


def test_a_directory_with_nothing_of_kafka(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(PathError, match="nothing of Kafka's in it"):
        judged(tmp_path)


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(b"0\nmany\n")
    arguments = [sys.executable, "-m", "kseg", "verify", "--format", "json", str(path)]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1, result.stderr
    finding, summary = map(json.loads, result.stdout.splitlines())
    assert (finding["code"], finding["severity"], finding["position"]) == ("leader-epochs-damaged", "error", 2)
    assert summary["errors"] == 1


@given(name=st.sampled_from(sorted(ENTRY_NAMES)), content=st.binary(max_size=300))
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    path = tmp_path_factory.mktemp("lone") / (
        f"{STEM}{name}" if name.startswith(".") and name != ".kafka_cleanshutdown" else name
    )
    path.write_bytes(content)
    for level in (QUICK, FULL):
        assert all(finding.code in KINDS for finding in judged(path, level)[0])
