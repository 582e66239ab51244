"""Decoders of a dump: that of each topic, and formats of keys and values."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

INTERNAL = TESTDATA / "kafka-4.3.1/internal"
TIERED = TESTDATA / "kafka-4.3.1/tiered"
COMMITTED = TESTDATA / "kafka-4.3.1/committed"
PARTITIONS = [path for path in [*sorted(INTERNAL.glob("__*-*")), *sorted(TIERED.glob("__*-*"))] if path.is_dir()]
FORMS = ["text", "json", "table"]


def test_each_path_is_judged_by_itself(kseg: Kseg, tmp_path: Path) -> None:
    metadata, offsets = INTERNAL / "__cluster_metadata-0", INTERNAL / "__consumer_offsets-1"
    moved = Path(shutil.copytree(offsets, tmp_path / f"{offsets.name}.{'0123456789abcdef' * 2}-delete"))
    alone = tmp_path / "copy.log"
    shutil.copy(next(offsets.glob("*.log")), alone)
    done = kseg("dump", "--decode", "auto", metadata, moved, alone, COMMITTED / "orders-0")
    assert done.out == b"".join(
        [
            kseg("dump", "--decode", "cluster-metadata", metadata).out,
            kseg("dump", "--offsets-decoder", moved).out,
            kseg("dump", alone).out,
            kseg("dump", COMMITTED / "orders-0").out,
        ]
    )


def test_a_snapshot_is_one_wherever_it_lies(kseg: Kseg, tmp_path: Path) -> None:
    snapshot = tmp_path / "bootstrap.checkpoint"
    shutil.copy(next((INTERNAL / "__cluster_metadata-0").glob("*.checkpoint")), snapshot)
    done = kseg("dump", "--decode", "auto", snapshot)
    assert done.out == kseg("dump", "--cluster-metadata-decoder", snapshot).out
    assert b'"FEATURE_LEVEL_RECORD"' in done.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_threads_decode_each_file_by_its_topic(form: str, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = kseg("dump", "--decode", "auto", "--format", form, "--jobs", "1", COMMITTED, INTERNAL)
    monkeypatch.setattr("kseg.output.printer.SERIAL_BYTES", 0)
    assert kseg("dump", "--decode", "auto", "--format", form, "--jobs", "3", COMMITTED, INTERNAL) == expected
