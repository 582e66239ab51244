"""What the options of a dump change: limit, isolation, max-bytes, live, stop-on-damage, era, fetch-response."""

import shutil
import struct
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg
from dump.asked import MIX_LOG, V07, offsets
from kseg.formats.record_batch import build_batch
from segment.segments import sealed

HALF_BATCH = TESTDATA / "damaged/4.3.1-last-trunc-half-batch/dplain-0/00000000000000000116.log"


def test_read_committed_of_a_segment_behind_the_last_stable_offset_is_empty(tmp_path: Path, kseg: Kseg) -> None:
    """The open transaction began in an earlier segment."""
    source = TESTDATA / "kafka-1.1.1/txn/txn-open-0/00000000000000000000.log"
    data = source.read_bytes()
    batches = kseg("dump", "--format", "json", source).objects
    shown = offsets(kseg, "--isolation", "read_committed", source)
    last = next(batch for batch in batches if batch["baseOffset"] > shown[-1])
    cut = last["position"] + last["size"]
    later = next(batch for batch in batches if batch["position"] == cut)
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / source.name).write_bytes(data[:cut])
    second = folder / f"{later['baseOffset']:020}.log"
    second.write_bytes(data[cut:])
    assert offsets(kseg, second) != []
    assert offsets(kseg, "--isolation", "read_committed", second) == []


def test_live_is_about_the_last_segment_of_a_directory(tmp_path: Path, kseg: Kseg) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    shutil.copy(HALF_BATCH, folder)
    last = folder / "00000000000000000150.log"
    shutil.copy(HALF_BATCH, last)
    done = kseg("dump", "--live", "--format", "json", folder).expect(1)
    assert [damage["file"] for damage in done.of_type("damage")] == [str(folder / HALF_BATCH.name)]


def test_a_message_of_0_7_with_a_wrong_checksum_is_not_valid(tmp_path: Path, kseg: Kseg) -> None:
    data = bytearray(next((TESTDATA / "kafka-0.7.2/direct/codecs-0").glob("*.kafka")).read_bytes())
    second = 4 + int.from_bytes(data[:4], "big")
    data[second + 4 + int.from_bytes(data[second : second + 4], "big") - 1] ^= 1
    (tmp_path / f"{0:020d}.kafka").write_bytes(data)
    lines = [line for line in kseg("dump", tmp_path / f"{0:020d}.kafka").lines if "isvalid" in line]
    assert [line.rpartition(" ")[2] for line in lines] == ["true", "false", *["true"] * (len(lines) - 2)]


def test_era_reads_a_file_of_any_name(tmp_path: Path, kseg: Kseg) -> None:
    source = next((TESTDATA / "kafka-0.7.2/direct/nested-0").glob("*.kafka"))
    odd = tmp_path / "saved"
    shutil.copy(source, odd)
    assert kseg("dump", "--era", "0.7", "--print-data-log", odd).lines[1:] == (
        [line for line in kseg("dump", "--print-data-log", source).lines[1:] if not line.startswith("Log starting")]
    )


def answer(data: bytes, error_code: int = 0) -> bytes:
    return struct.pack(">ih", len(data) + 2, error_code) + data


def test_a_captured_fetch_response(kseg: Kseg, tmp_path: Path) -> None:
    data = max((path.read_bytes() for path in V07.glob("*.kafka")), key=len)
    path = tmp_path / "capture.bin"
    path.write_bytes(answer(answer(data) + answer(b"", 1) + answer(MIX_LOG.read_bytes()[:-5])))
    done = kseg("dump", "--fetch-response", "--format", "json", path).expect(0)
    assert done.err == f"kseg: {path}: position {18 + len(data)}: error code 1\n"
    log = kseg("dump", "--format", "json", MIX_LOG).of_type("batch")
    old = len(done.of_type("batch")) - len(log) + 1
    assert old > 0
    shift = 12 + len(data) + 6 + 6
    for batch, same in zip(done.of_type("batch")[old:], log, strict=False):
        assert batch == same | {"file": str(path), "position": same["position"] + shift}
    path.write_bytes(answer(data)[:-1])
    assert kseg("dump", "--fetch-response", path).status == 1


SECRETS = TESTDATA / "kafka-4.3.1/internal/__cluster_metadata-0"


def test_redact_decodes_a_log_whose_topic_is_unknown(kseg: Kseg, tmp_path: Path) -> None:
    log = next(iter(sorted(SECRETS.glob("*.log"))))
    path = tmp_path / log.name
    shutil.copy(log, path)
    words = "dump", "--print-data-log", "--decode", "auto", "--redact"
    assert kseg(*words, path).lines[1:] == kseg(*words, log).lines[1:]


def transactional(offset: int, producer: int) -> bytes:
    data = bytearray(build_batch(offset, 0, 1_790_000_000_000 + offset, [(None, b"v")]))
    struct.pack_into(">qhi", data, 43, producer, 0, 0)
    data[22] |= 0x10
    return sealed(bytes(data))


def test_open_transactions_are_looked_through_once(tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch of the dump asks for the last stable offset."""
    looked = 0

    def counted(values: list[int], default: int | None = None) -> int | None:
        nonlocal looked
        looked += 1
        return min(values, default=default)

    monkeypatch.setattr("kseg.segment.isolation.min", counted, raising=False)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(transactional(offset, offset) for offset in range(200)))
    assert kseg("dump", "--isolation", "read_committed", "--format", "json", path).objects == []
    assert 0 < looked < 10
