"""Checkpoints, properties and JSON files: their versions, and malformed lines."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.errors import PathError
from kseg.segment.files import is_remote_index_name, is_uuid
from kseg.sidefiles import text_files
from kseg.sidefiles.checkpoints import (
    EpochEntry,
    OffsetCheckpoint,
    build_leader_epochs,
    plain_epochs,
    read_leader_epochs,
    read_offset_checkpoint,
)
from kseg.sidefiles.kinds import list_side_files, side_file
from kseg.sidefiles.problems import SideFileProblem, entries_of, problems_of
from sidefiles.real_files import TEXT

UUID = "rMLZBCgPQO2wcjdxPTf0jA"


def codes(items: Iterable[object]) -> list[str]:
    return [problem.code for problem in problems_of(items)]


@pytest.mark.parametrize("data", [b"", b"0\n", b"0", b"0\n0\n"])
def test_a_checkpoint_may_hold_nothing(data: bytes) -> None:
    assert list(read_offset_checkpoint(data)) == []


def test_a_checkpoint_is_read_around_its_bad_lines() -> None:
    data = b"0\n4\na 0 1\nb 0\n c 0 2\nd 1 9223372036854775807  \ne -1 9223372036854775808\n"
    items = list(read_offset_checkpoint(data))
    assert entries_of(items) == [OffsetCheckpoint("a", 0, 1), OffsetCheckpoint("d", 1, (1 << 63) - 1)]
    assert codes(items) == ["unreadable-line"] * 3 + ["wrong-count"]
    bad = problems_of(items)[0]
    assert data[bad.position : bad.position + bad.length] == b"b 0"


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"1\n0\n", ["unknown-version"]),
        (b"zz", ["unknown-version"]),
        (b"0\n2\na 0 1\n", ["wrong-count"]),
        (b"0\nx\na 0 1\n", ["unreadable-line"]),
        (b"\xff\xfe\n\n", ["unknown-version", "unreadable-line"]),
    ],
)
def test_a_checkpoints_head_is_checked(data: bytes, expected: list[str]) -> None:
    assert codes(read_offset_checkpoint(data)) == expected


def test_leader_epochs_must_rise() -> None:
    items = list(read_leader_epochs(b"0\n4\n0 0\n2 5\n2 9\n3 9\n"))
    assert entries_of(items) == [EpochEntry(0, 0), EpochEntry(2, 5), EpochEntry(2, 9), EpochEntry(3, 9)]
    assert codes(items) == ["unsorted", "unsorted"]
    assert codes(read_leader_epochs(b"0\n1\n-1 0\n")) == ["bad-value"]


@given(
    st.binary(max_size=80)
    | st.text("0123 \n-ax").map(str.encode)
    | st.lists(st.integers(0, 9)).map(lambda offsets: build_leader_epochs(map(EpochEntry, range(9), offsets)))
)
def test_the_fast_reader_agrees_with_the_full_one(data: bytes) -> None:
    plain = plain_epochs(data)
    items = list(read_leader_epochs(data))
    assert plain is None or plain == items


def test_the_epochs_of_an_unclean_election_are_read() -> None:
    data = (TEXT / "1.1.1" / "ep-0" / "leader-epoch-checkpoint").read_bytes()
    items = list(read_leader_epochs(data))
    assert plain_epochs(data) == items
    assert len(items) == 5
    assert problems_of(items) == []


def test_lines_end_as_java_ends_them() -> None:
    assert [line.text for line in text_files.lines(b"a\rb\r\nc\n\nd")] == ["a", "b", "c", "", "d"]
    assert [line[1:] for line in text_files.lines(b"ab\r\nc\n")] == [(0, 2), (4, 1)]


def test_numbers_are_those_that_java_reads() -> None:
    texts = ("+5", "-0012", "2147483647", "2147483648", "1_0", " 1", "", "0" * 5000, "٣", "-1５", "²", "\U0001d7d3")
    read = [text_files.integer(text, 32) for text in texts]
    assert read == [5, -12, 2147483647, None, None, None, None, 0, 3, -15, None, None]


def test_partition_metadata() -> None:
    assert list(text_files.read_partition_metadata(f"version: 0\ntopic_id: {UUID}".encode())) == [
        text_files.PartitionMetadata(0, UUID)
    ]
    assert codes(text_files.read_partition_metadata(b"")) == ["missing-field"]
    bad_values = text_files.read_partition_metadata(b"version: -1\ntopic_id: " + b"A" * 22)
    assert codes(bad_values) == ["unknown-version", "bad-value"]
    bad_line = text_files.read_partition_metadata(b"version 0\ntopic_id: x")
    assert codes(bad_line) == ["unreadable-line", "unknown-version", "bad-value"]


@pytest.mark.parametrize(
    "version, expected",
    [
        ("1.1.1", text_files.MetaProperties(0, None, 0, None, None)),
        ("2.8.2", text_files.MetaProperties(0, "NRUjX5FiTs61uWC0wBWtKw", 0, None, None)),
        ("4.3.1", text_files.MetaProperties(1, "AAAAAAAAQACAAAAAAAAAAQ", None, 1, "J9xJNJtqRXuVdg2IjTub4w")),
    ],
)
def test_meta_properties_of_each_version(version: str, expected: text_files.MetaProperties) -> None:
    assert list(text_files.read_meta_properties((TEXT / version / "meta.properties").read_bytes())) == [expected]


def test_meta_properties_report_their_problems() -> None:
    items = list(text_files.read_meta_properties(b"version=1\nnode.id=x\ndirectory.id=?\n"))
    assert codes(items) == ["bad-value", "missing-field", "bad-value"]
    assert codes(text_files.read_meta_properties(b"version=7")) == ["unknown-version"]
    assert list(text_files.read_meta_properties(b"")) == [text_files.MetaProperties(0, None, None, None, None)]
    of_another_editor = b"\xef\xbb\xbf%b\ncluster.id=c\nnode.id=1\n"
    assert codes(text_files.read_meta_properties(of_another_editor % b"version=1")) == ["bad-value"]
    assert codes(text_files.read_meta_properties(of_another_editor % b"# of 2026\nversion=1")) == []
    found = [(None, None, None, None), ("c", None, 1, None), ("c", None, None, None)]
    said = [text_files.missing_in_kraft(text_files.MetaProperties(0, *each)) for each in found]
    assert said == [
        "cluster.id and node.id are missing",
        "version is missing: node.id counts in version 1 only",
        "broker.id is missing",
    ]


def test_properties_have_javas_escapes() -> None:
    data = b"# no = property\n! nor this\n  a\\ b : c\\u0041\\\n    d\ne\nf=\\t=\\q\\\n"
    assert [item[:2] for item in text_files.properties(data)] == [("a b", "cAd"), ("e", ""), ("f", "\t=q")]
    first = next(iter(text_files.properties(data)))
    assert data[first.position : first.position + first.length] == b"  a\\ b : c\\u0041\\\n    d"


def test_clean_shutdown_of_both_kinds() -> None:
    assert list(text_files.read_clean_shutdown(b"")) == [text_files.CleanShutdown(None, None)]
    new = Path(TEXT / "4.3.1" / ".kafka_cleanshutdown").read_bytes()
    [entry] = list(text_files.read_clean_shutdown(new))
    assert entry.version == 0
    assert entry.broker_epoch > 0
    assert codes(text_files.read_clean_shutdown(b'{"version":1}')) == ["unknown-version", "missing-field"]


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b"[" * 100_000, b"9" * 5000, b'{"a":' * 100_000])
def test_bytes_that_are_not_an_object_are_reported(data: bytes) -> None:
    assert codes(text_files.read_quorum_state(data)) == ["unreadable-json"]
    assert codes(text_files.read_clean_shutdown(data)) == ["unreadable-json"]


def test_quorum_state_of_both_versions() -> None:
    folder = "__cluster_metadata-0/quorum-state"
    [old] = list(text_files.read_quorum_state((TEXT / "3.9.1" / folder).read_bytes()))
    assert old == text_files.QuorumState(0, "", 1, 1, -1, None, 0, [1])
    assert old.foreign_fields() == {"voted_directory_id"}
    [new] = list(text_files.read_quorum_state((TEXT / "4.3.1" / folder).read_bytes()))
    assert new == text_files.QuorumState(1, None, 1, 2, -1, "A" * 22, None, None)
    assert new.foreign_fields() == {"cluster_id", "applied_offset", "current_voters"}
    assert codes(text_files.read_quorum_state(b'{"data_version":2}')) == ["unknown-version"]
    assert codes(text_files.read_quorum_state(b'{"data_version":1,"leaderId":true}')) == ["missing-field"] * 4
    assert codes(text_files.read_quorum_state(b'{"currentVoters":[{"voterId":"x"}]}')) == ["unknown-version"]


def test_names_of_remote_index_copies() -> None:
    name = "220_mNzJ0K1bQXS_kel3S-aw2A"
    assert is_remote_index_name(name + ".timeindex.tmp")
    for wrong in (name, name + ".log", "x" + name + ".index", "220_short.index", "00000000000000000220.index"):
        assert not is_remote_index_name(wrong)


def test_ids() -> None:
    assert is_uuid(UUID)
    assert not any(map(is_uuid, ("", UUID[:-1], UUID + "AAA", UUID[:-1] + "/", "é" * 22)))


@pytest.mark.parametrize(
    "path, expected",
    [
        ("t-0/00000000000000000012.index", (".index", "", 12, "00000000000000000012")),
        ("00000000000000000012.timeindex.deleted", (".timeindex", ".deleted", 12, "00000000000000000012")),
        ("a/leader-epoch-checkpoint", ("leader-epoch-checkpoint", "", 0, "leader-epoch-checkpoint")),
        (".kafka_cleanshutdown", (".kafka_cleanshutdown", "", 0, "")),
        ("quorum-state.tmp", ("quorum-state", ".tmp", 0, "quorum-state")),
        (f"{9 * 10**18:020}9.snapshot", (".snapshot", "", 0, f"{9 * 10**18:020}9")),
        ("x.txnindex", (".txnindex", "", 0, "x")),
    ],
)
def test_names_determine_kinds(path: str, expected: tuple[str, str, int, str]) -> None:
    file = side_file(path)
    assert file is not None
    assert (file.kind, file.leftover, file.base_offset, file.stem) == expected


@pytest.mark.parametrize("path", ["0.log", "index", "x.kafka", "0.checkpoint", "checkpoint", "0.index.gz"])
def test_other_names_are_no_side_files(path: str) -> None:
    assert side_file(path) is None


def test_a_directory_lists_its_side_files_and_those_of_its_cache() -> None:
    names = [str(Path(file.path).relative_to(TEXT / "4.3.1")) for file in list_side_files(str(TEXT / "4.3.1"))]
    assert names[0] == ".kafka_cleanshutdown"
    assert "meta.properties" in names
    assert names[-1] == "remote-log-index-cache/220_mNzJ0K1bQXS_kel3S-aw2A.txnindex"
    assert "txn-a-0/partition.metadata" not in names
    with pytest.raises(PathError):
        list_side_files(str(TEXT / "nowhere"))


def test_a_problem_has_the_position_of_its_bytes() -> None:
    problem = problems_of(read_offset_checkpoint(b"9\n0\n"))[0]
    assert problem == SideFileProblem("unknown-version", 0, 1, "version 9 is not 0")
    assert problem.is_damage
