"""``kseg dump`` with --format table, --hex and --summary."""

import pytest

from cli.command import TESTDATA, Kseg

LOG_DIRECTORY = TESTDATA / "log-directories/4.3.1/logs"
TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
SEGMENT = TRANSACTIONS / "00000000000000001187.log"
GZIP = TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0/00000000000000000000.log"
ZEROS = next((TESTDATA / "damaged/4.3.1-mid-append-zeros4096").glob("*/*.log"))


def test_table(kseg: Kseg) -> None:
    found = kseg("dump", "--format", "table", "--print-data-log", TRANSACTIONS)
    assert found.status == 0
    assert found.lines[0].split()[:3] == ["POSITION", "SIZE", "OFFSETS"]
    assert any(line.startswith("offsets ") for line in found.lines[-3:])


def test_table_of_some_offsets(kseg: Kseg) -> None:
    found = kseg("dump", "--format", "table", "--deep-iteration", "--offsets", "1188..1189", SEGMENT)
    assert [line.split()[0] for line in found.lines[3:5]] == ["1188", "1189"]
    assert "1 batches, 4 records" in found.lines[5]


def test_table_of_damage(kseg: Kseg) -> None:
    found = kseg("dump", "--format", "table", ZEROS)
    assert found.status == 1
    assert found.lines[-1] == "damage: 1 ranges, 4,096 bytes; batches with problems: 0"


def test_hex(kseg: Kseg) -> None:
    found = kseg("dump", "--hex", "--position", "0..22", SEGMENT)
    assert found.status == 0
    names = [line[31:51].strip() for line in found.lines[2:]]
    assert names == ["baseOffset", "batchLength", "partitionLeaderEpoch", "magic", "crc", "attributes", ""]


def test_hex_opens_batches_with_deep_iteration(kseg: Kseg) -> None:
    assert b"decompressed:" not in kseg("dump", "--hex", GZIP).out
    assert b"decompressed:" in kseg("dump", "--hex", "--deep-iteration", GZIP).out


def test_hex_at_the_same_place_in_other_numbers(kseg: Kseg) -> None:
    in_hex = kseg("dump", "--hex", "--position", "0x10..0x10", SEGMENT)
    assert b"magic" in in_hex.out
    assert in_hex.out == kseg("dump", "--hex", "--position", "16", SEGMENT).out


def test_summary(kseg: Kseg) -> None:
    (found,) = kseg("dump", "--summary", "--format", "json", TRANSACTIONS).objects
    assert found["type"] == "summary"
    assert found["files"] == len(list(TRANSACTIONS.glob("*.log")))
    text = kseg("dump", "--summary", ZEROS)
    assert text.status == 1
    assert text.err == ""


def test_what_if_implies_the_summary(kseg: Kseg) -> None:
    (found,) = kseg("dump", "--what-if", "zstd:19", "--format", "json", GZIP).objects
    assert found["whatIf"]["level"] == 19


@pytest.mark.parametrize(
    "options",
    [
        ["--hex", "--summary"],
        ["--hex", "--format", "json"],
        ["--summary", "--format", "table"],
        ["--position", "1..2"],
        ["--hex", "--position", "2..1"],
        ["--hex", "--position", ".."],
        ["--hex", "--position", "0xg"],
        ["--sample", "5"],
        ["--what-if", "brotli"],
        ["--what-if", "zstd:99"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_wrong_usage(kseg: Kseg, options: list[str]) -> None:
    assert kseg("dump", *options, SEGMENT).status == 2


def test_the_forms_of_a_summary_are_named(kseg: Kseg) -> None:
    assert "--summary has --format text, json and html" in kseg("dump", "--summary", "--format", "table", SEGMENT).err


def test_a_table_in_a_pipe_is_as_wide_as_columns_says(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = kseg("dump", "--format", "table", SEGMENT).lines[0]
    monkeypatch.setenv("COLUMNS", "60")
    narrow = kseg("dump", "--format", "table", SEGMENT).lines[0]
    assert len(narrow) <= 60 < len(wide)


def test_a_summary_is_called_after_what_was_named(kseg: Kseg) -> None:
    """After the partition also where that has one segment, and each time it is named."""
    asked = ("dump", "--summary", "--format", "json")
    assert [row["path"] for row in kseg(*asked, GZIP.parent, GZIP).objects] == [str(GZIP.parent), str(GZIP)]


def test_many_partitions_have_a_line_each(kseg: Kseg) -> None:
    folder = TESTDATA / "kafka-4.3.1/codecs"
    paths = sorted(path for path in folder.glob("*-[0-9]*") if any(path.glob("*.log")))
    one_by_one = kseg("dump", "--summary", "--format", "json", *paths).of_type("summary")
    table = kseg("dump", "--sort", "size", *paths).lines
    rows = [line for line in table[1:] if line.split("-")[0] in {path.name.split("-")[0] for path in paths}]
    assert len(rows) == len(one_by_one) == len(paths)
    assert sum(row["batches"] for row in one_by_one) == sum(
        int(line.split()[2].replace(",", "")) for line in table[-9:] if line.startswith("v")
    )


def test_several_codecs_side_by_side(kseg: Kseg) -> None:
    (found,) = kseg("dump", "--what-if", "zstd", "--what-if", "lz4", "--format", "json", GZIP).objects
    alone = [
        kseg("dump", "--what-if", codec, "--format", "json", GZIP).objects[0]["whatIf"] for codec in ("zstd", "lz4")
    ]
    assert found["whatIf"] == found["whatIfs"][0]
    assert [each["bytesAfter"] for each in found["whatIfs"]] == [each["bytesAfter"] for each in alone]
    text = kseg("dump", "--what-if", "zstd", "--what-if", "lz4", GZIP).lines
    assert [line.split()[0] for line in text[-2:]] == ["zstd:3", "lz4:9"]
    assert all(line.endswith(" MB/s") for line in text[-2:])
