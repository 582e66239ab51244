"""What is not meant is refused, and nothing is changed: options given twice, topics that are not to be compacted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.command import PLAIN, TESTDATA, Kseg, unchanged
from cli.test_compact import everything
from kseg.cli.main import main
from kseg.node.node import Nodes

INTERNAL = TESTDATA / "kafka-4.3.1/internal"
RETAINED = TESTDATA / "retention/4.3.1/before"


def single_valued() -> Iterator[tuple[str, str]]:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option) and not (option.multiple or option.is_flag):
                yield from ((name, spelling) for spelling in option.opts)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("command", "option"), list(single_valued()), ids=str)
def test_an_option_that_takes_one_value_is_given_once(kseg: Kseg, command: str, option: str) -> None:
    kseg(command, option, "1", "nowhere", option, "2").expect(2, option, "is given 2 times: give it once", out=b"")


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--against"),
        ("verify", "--manifest"),
        ("recover", "--from-replica"),
        ("carve", "--like"),
        ("undo", "--quarantine"),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_taken_for_none(kseg: Kseg, words: tuple[str, ...]) -> None:
    kseg(*words, "", PLAIN).expect(2, f"Invalid value for '{words[-1]}': is empty", out=b"")


def test_what_may_be_repeated_and_help_are_not_in_the_way(kseg: Kseg) -> None:
    ignored = ("--ignore", "crc-mismatch", "--ignore", "undecodable-records", "-q", "-q")
    assert kseg("verify", *ignored, INTERNAL / "__consumer_offsets-0").status == 0
    assert kseg("dump", "--limit", "1", "--limit", "2", "--help").status == 0


@pytest.mark.parametrize("words", [("restore", "--undelete"), ("quorum", "--rewrite")], ids=" ".join)
def test_a_missing_path_is_refused_where_an_option_can_stand_for_it(kseg: Kseg, words: tuple[str, ...]) -> None:
    kseg(*words).expect(2, "Missing argument 'PATH...'", out=b"")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory of topics with cleanup.policy compact, with delete, and with none of their own."""
    shutil.copytree(INTERNAL, tmp_path / "logs", ignore=shutil.ignore_patterns("truth"))
    (tmp_path / "logs" / "meta.properties").write_text("version=1\n")
    return tmp_path / "logs"


def test_bytes_of_a_table_are_not_for_a_terminal(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.setattr("os.isatty", lambda _descriptor: True)
    for form in ("parquet", "arrow"):
        kseg("convert", "--to", form, INTERNAL / "__consumer_offsets-0").expect(2, "give -o FILE, or a pipe", out=b"")


def test_a_refusal_names_the_partition(kseg: Kseg, tmp_path: Path) -> None:
    """Of many partitions with the same problem, each has a line of its own."""
    partition = Path(shutil.copytree(RETAINED / "r-delrec-0", tmp_path / "r-delrec-0"))
    (partition / "copy.log").write_bytes(bytes(8))
    kseg("recover", tmp_path).expect(3, f"{partition / 'copy.log'}: its name is no offset")


CLEAN_ALL = ("--min-cleanable-ratio", "0", "--include-active", "--drop-null-keys")


@pytest.mark.parametrize("named", ["partition", "link", "topic"])
def test_a_topic_whose_policy_is_delete_is_not_compacted(kseg: Kseg, logs: Path, tmp_path: Path, named: str) -> None:
    partition = logs / "__share_group_state-0"
    (tmp_path / "link").symlink_to(partition)
    paths = {"partition": [partition], "link": [tmp_path / "link"], "topic": ["--topic", "__share*", logs]}[named]
    before = everything(logs)
    kseg("compact", *CLEAN_ALL, *paths).expect(3, "cleanup.policy delete", "--force-policy")
    assert everything(logs) == before
    assert kseg("compact", *CLEAN_ALL, "--force-policy", *paths).status == 0
    assert everything(logs) != before


def test_a_known_topic_without_a_policy_has_that_of_the_broker(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(RETAINED, tmp_path / "logs"))
    assert Nodes().partition(str(logs / "r-time-half-0")).own_setting("cleanup.policy") is None
    with unchanged(logs):
        kseg("compact", *CLEAN_ALL, logs / "r-time-half-0").expect(3, "cleanup.policy delete")
    assert kseg("compact", "-n", *CLEAN_ALL, "--force-policy", logs / "r-time-half-0").status == 1


def test_of_what_is_named_only_the_refused_topic_is_left_alone(kseg: Kseg, logs: Path) -> None:
    with unchanged(logs / "__share_group_state-0"):
        done = kseg("compact", *CLEAN_ALL, "--format", "json", "--topic", "__*", logs)
        done.expect(3, "1 partition of __share_group_state refused")
    assert any(row["rounds"] for row in done.of_type("compaction"))


def test_partitions_that_are_left_alone_are_counted(kseg: Kseg, logs: Path) -> None:
    (logs / f"__consumer_offsets-0.{'0' * 32}-delete").mkdir()
    done = kseg("compact", "-n", logs)
    assert "left alone: cleanup.policy delete" in done.err
    assert "left alone: moved or deleted by a broker" in done.err
    kseg("compact", "-n", "--topic", "nowhere*", logs).expect(0, "holds no partition of a topic that --topic names")


@pytest.mark.parametrize("command", ["retain", "compact"])
def test_what_brokers_have_moved_or_forgotten_is_counted(kseg: Kseg, logs: Path, command: str) -> None:
    shutil.copytree(logs / "__consumer_offsets-0", logs / f"__consumer_offsets-0.{'0' * 32}-stray")
    shutil.copytree(logs / "__consumer_offsets-0", logs / "unheard-of-0")
    done = kseg(command, "-n", logs)
    assert "1 partition left alone: moved or deleted by a broker" in done.err
    assert "1 partition left alone: topic unknown to __cluster_metadata-0" in done.err


@pytest.mark.parametrize(
    "words", [("convert", "--to", "jsonl", "-o"), ("convert", "--to", "v2", "--output"), ("recover", "--output")]
)
def test_no_output_goes_into_a_partition(kseg: Kseg, tmp_path: Path, words: tuple[str, ...]) -> None:
    partition = Path(shutil.copytree(PLAIN, tmp_path / "dplain-0"))
    before = sorted(partition.iterdir())
    for place in (partition / "out", partition):
        kseg(*words, place, partition).expect(3, "nothing was written")
    assert sorted(partition.iterdir()) == before
