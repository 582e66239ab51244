"""Sizes count all files of a partition, and name the groups that fill __consumer_offsets."""

import shutil
from pathlib import Path

from cli.command import TESTDATA, Kseg
from segment.segments import sealed

COMMITTED = TESTDATA / "kafka-4.3.1" / "committed"


def test_all_files_of_a_directory_count_and_sort(tmp_path: Path, kseg: Kseg) -> None:
    logs = Path(shutil.copytree(COMMITTED, tmp_path / "logs", ignore=shutil.ignore_patterns("truth", "README.md")))
    (logs / "empty-0" / "00000000000000000009.log.deleted").write_bytes(bytes(1 << 20))
    for words in (["stats"], ["verify"]):
        done = kseg(*words, "--sort", "size", "--format", "json", logs)
        rows = [row for row in done.objects if row["type"] in ("partition", "summary") and "path" in row]
        sizes = {Path(row["path"]).name: row["allBytes"] for row in rows}
        for path in logs.iterdir():
            assert sizes[path.name] == sum(file.stat().st_size for file in path.rglob("*"))
    assert "all files of the directory" in kseg("stats", logs / "empty-0").out.decode()


def test_the_groups_that_fill_the_offsets_topic_are_named(kseg: Kseg) -> None:
    path = COMMITTED / "__consumer_offsets-0"
    wanted: dict[str, list[int]] = {}
    for row in kseg("dump", "--print-data-log", "--decode", "auto", "--format", "json", path).of_type("record"):
        if "control" not in row:
            data = row["key"]["data"]
            sizes = wanted.setdefault(data.get("group", data.get("groupId")), [0, 0])
            sizes[0] += 1
            sizes[1] += row["keySize"] + max(row["valueSize"] or 0, 0)
    (summary,) = kseg("stats", "--format", "json", path).of_type("summary")
    assert {row["group"]: [row["records"], row["bytes"]] for row in summary["groups"]} == wanted
    assert summary["groups"] == sorted(summary["groups"], key=lambda row: (-row["bytes"], row["group"]))
    largest = summary["groups"][0]["group"]
    assert f"of group {largest}" in kseg("stats", path).out.decode()


def test_a_group_whose_name_is_no_text(kseg: Kseg, tmp_path: Path) -> None:
    source = TESTDATA / "kafka-0.8.2.2/codecs/__consumer_offsets-0" / f"{0:020}.log"
    message = source.read_bytes()[:73]
    path = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(sealed(message, message.index(b"grp-alpha"), b"\xff\n"))
    for command in (("stats",), ("groups", "--by-size")):
        assert r"\udcff\np-alpha" in kseg(*command, path).expect(0).out.decode()
    kseg("groups", path).expect(0)


def test_a_checkpoint_of_kafka_streams_is_read(tmp_path: Path, kseg: Kseg) -> None:
    path = tmp_path / "0_0" / ".checkpoint"
    path.parent.mkdir()
    path.write_text("0\n2\napp-counts-changelog 0 84138256\napp-sums-changelog 1 77\n")
    rows = kseg("dump", "--format", "json", path).expect(0).objects
    assert [(row["type"], row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("streamsOffset", "app-counts-changelog", 0, 84138256), ("streamsOffset", "app-sums-changelog", 1, 77),
    ]  # fmt: skip
    assert "app-sums-changelog" in kseg("dump", path).expect(0).out.decode()
    kseg("verify", path).expect(0)
    path.write_text("0\n1\nbroken\n")
    kseg("verify", path).expect(1)
