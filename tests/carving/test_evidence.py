"""What evidence costs: bombs are not expanded, and comparisons end."""

import gzip
import struct
from pathlib import Path

import pytest

from carving.images import batch
from cli.command import TESTDATA
from kseg.carving import evidence
from kseg.carving.image import MAX_VERSIONS, Piece, TornBatches, batch_rows, pieces_of
from kseg.carving.side_files import SideFiles
from kseg.decoders.keyed import CoordinatorDecoder
from kseg.formats.record_batch import build_batch
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import CONTROL
from kseg.limits import ROWS_PER_CALL
from kseg.sidefiles.producer_state import ProducerStateEntry
from kseg.stores.source import open_source
from segment.segments import sealed

TIME = 1_790_000_000_000


def packed(value: bytes) -> bytes:
    """A batch of one record, packed by gzip."""
    data = build_batch(0, 0, TIME, [(b"key", value)])
    body = gzip.compress(data[61:], mtime=0)
    return sealed(data[:8] + struct.pack(">i", 49 + len(body)) + data[12:22] + b"\1" + data[23:61] + body)


def pieces(path: Path, *batches: bytes) -> list[Piece]:
    path.write_bytes(b"".join(each + bytes(-len(each) % 4096) for each in batches))
    with open_source(str(path)) as source:
        found = pieces_of(source, batch_rows(source, 1, lambda _: None))
        for piece in found:
            piece.data = {0: bytes(piece.data(0))}.__getitem__  # type: ignore[method-assign]
    return found


def test_records_of_a_bomb_are_not_read(tmp_path: Path) -> None:
    usual, bomb = pieces(tmp_path / "disk.img", packed(bytes(range(256)) * 8), packed(bytes(1 << 20)))
    joining = evidence.Joining([usual, bomb])
    assert len(joining._records(usual, 0)) == 1
    assert joining._records(bomb, 0) == {}


def test_the_records_of_a_batch_that_two_calls_of_the_kernel_read_are_yielded_once(tmp_path: Path) -> None:
    path, each, number = tmp_path / "disk.img", ROWS_PER_CALL // 4 - 1, 30
    path.write_bytes(b"".join(build_batch(i * each, 0, TIME, [(b"", b"")] * each) for i in range(number)))
    with open_source(str(path)) as source:
        found = pieces_of(source, batch_rows(source, 1, lambda _: None))
        assert [record.offset for record in evidence.records_of(found)] == [*range(number * each)]


def test_records_are_compared_up_to_a_share_of_the_image(tmp_path: Path) -> None:
    (piece,) = pieces(tmp_path / "disk.img", build_batch(0, 0, TIME, [(b"key", bytes(1 << 20))]))
    joining, most = evidence.Joining([piece]), evidence.LEAST_COMPARED_BYTES // (1 << 20) + evidence.COMPARED_SHARE + 1
    read = sum(bool(joining._records(piece, 0)) for _ in range(2 * most))
    assert most - 2 <= read <= most


def test_headers_of_copies_are_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    compare = evidence.contradict
    monkeypatch.setattr(evidence, "contradict", lambda *pair: compared.append(pair) or compare(*pair))
    number = 30
    copies = pieces(tmp_path / "disk.img", *[batch(7, 3, TIME), batch(7, 3, TIME + 1)] * number)
    logs = evidence.Joining(copies).run(SideFiles())
    assert [len(log.pieces) for log in logs] == [number, number]
    assert len(compared) <= number


def test_copies_of_two_logs_are_weighed_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weighed, bits = [], evidence.Joining._bits
    monkeypatch.setattr(evidence.Joining, "_bits", lambda *given: weighed.append(given) or bits(*given))
    monkeypatch.setattr(evidence, "internal_topic", lambda *_: ("", []))
    parts = [batch(start, 7, TIME + start, epoch) for start, epoch in ((70_001, 1), (70_008, 2), (70_008, 3))]
    logs = evidence.Joining(pieces(tmp_path / "disk.img", *parts * 60)).run(SideFiles())
    assert sum(len(log.pieces) for log in logs) == 180
    assert 0 < len(weighed) <= 5 * 2 * MAX_VERSIONS**2


@pytest.mark.parametrize(("second", "logs"), [(1003, 3), (1005, 1)])
def test_a_batch_that_stands_in_logs_that_exclude_each_other_joins_none(tmp_path: Path, second: int, logs: int) -> None:
    common = batch(900, 1, TIME)
    others = [batch(1000, 5, TIME + 1), batch(second, 5, TIME + 2), batch(1100, 5, TIME + 3)]
    path = tmp_path / "disk.img"
    pieces(path, *(common + other for other in others))
    with open_source(str(path)) as source:
        found = pieces_of(source, batch_rows(source, 1, lambda _: None))
        assert len(evidence.Joining(found).run(SideFiles())) == logs


def test_batches_of_another_codec_are_no_versions(tmp_path: Path) -> None:
    plain = build_batch(0, 0, TIME, [(b"key", b"value")] * 2)
    body = gzip.compress(plain[61:], mtime=0)
    other = sealed(plain[:8] + struct.pack(">i", 49 + len(body)) + plain[12:22] + b"\1" + plain[23:61] + body)
    assert len(evidence.Joining(pieces(tmp_path / "disk.img", plain, other)).run(SideFiles())) == 2


@pytest.mark.parametrize(("sequence", "logs"), [(0, 2), (7, 1)])
def test_the_first_batch_of_a_producer_proves_nothing_alone(tmp_path: Path, sequence: int, logs: int) -> None:
    batches = [
        sealed(
            batch(start, 1, TIME, producer=start)[:53]
            + struct.pack(">i", sequence)
            + batch(start, 1, TIME, producer=start)[57:]
        )
        for start in (100, 300)
    ]
    entries = [ProducerStateEntry(start, 0, sequence, start, 0, TIME, 0, -1) for start in (100, 300)]
    found = SideFiles()
    found.snapshots.append(entries)
    assert len(evidence.Joining(pieces(tmp_path / "disk.img", *batches)).run(found)) == logs


def test_none_of_very_many_logs_of_one_start_is_weighed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence.Joining, "_bits", lambda *_: pytest.fail("weighed"))
    starts = [batch(70_008, 1 + i, TIME + i) for i in range(evidence.MOST_STARTS + 1)]
    found = pieces(tmp_path / "disk.img", batch(70_001, 7, TIME), *starts)
    assert len(evidence.Joining(found).run(SideFiles())) == len(starts) + 1


def test_the_search_for_the_rest_of_a_cut_batch_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind each batch is the header of one that would end where every other piece begins."""
    count, tried, hostile = 120, [], []
    joined = TornBatches._joined
    monkeypatch.setattr(TornBatches, "_joined", lambda *given: tried.append(given) or joined(*given))
    for i in range(count):
        whole = batch(10 * i, 1, TIME)
        claim = struct.pack(">qiib", 10 * i + 1, 4096 - len(whole) - 12, 0, 2) + bytes(44)
        hostile.append((whole + claim).ljust(4096, b"\0"))
    path = tmp_path / "disk.img"
    path.write_bytes(b"".join(hostile))
    with open_source(str(path)) as source:
        torn = TornBatches(pieces_of(source, batch_rows(source, 1, lambda _: None)))
        assert list(torn.mended()) == []
    assert torn.count == count
    assert len(tried) <= 32 * count + count
    assert torn.given_up > 0


def commits(path: Path, number: int, groups: int) -> Piece:
    """A piece of ``number`` batches with one commit each, of so many groups in turn."""
    batches = []
    for i in range(number):
        key = struct.pack(">hh2sh1si", 1, 2, b"g%d" % (i % groups), 1, b"t", 0)
        batches.append(build_batch(i, 0, TIME, [(key, struct.pack(">hqihq", 3, 100 + i, 0, 0, TIME))]))
    path.write_bytes(b"".join(batches))
    with open_source(str(path)) as source:
        (piece,) = pieces_of(source, batch_rows(source, 1, lambda _: None))
    return piece


def test_a_topic_is_recognised_by_a_commit_of_each_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piece, decoded, decode = commits(tmp_path / "disk.img", 60, 3), [], CoordinatorDecoder.decode
    monkeypatch.setattr(CoordinatorDecoder, "decode", lambda *given: decoded.append(given) or decode(*given))
    with open_source(piece.source.path) as piece.source:
        assert evidence.internal_topic([piece]) == ("__consumer_offsets", ["g0", "g1", "g2"])
    assert len(decoded) == 3


def test_batches_are_read_many_at_a_time_with_the_same_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Scratch] = []
    monkeypatch.setattr(evidence, "Scratch", lambda *limit: made.append(Scratch(*limit)) or made[-1])
    monkeypatch.setattr(evidence, "batch_of", None)
    piece = commits(tmp_path / "disk.img", 50, 3)
    with open_source(piece.source.path) as piece.source:
        assert len(list(evidence.records_of([piece]))) == 50
    assert len(made) == 1


@pytest.mark.parametrize("log", ["4.3.1/committed", "4.3.1/internal", "1.1.1/txn", "4.3.1/codecs"])
def test_records_that_are_read_many_batches_at_a_time_are_the_same(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "FIRST_WINDOW_BYTES", 100)
    for file in (TESTDATA / f"kafka-{log}").glob("*/*.log"):
        with open_source(str(file)) as source:
            for piece in pieces_of(source, batch_rows(source, 1, lambda _: None)):
                known = [i for i, row in enumerate(piece) if row.magic >= 2 and not row.attributes & CONTROL]
                one_by_one = [record for i in known for record in evidence.batch_of(piece, i, Scratch())]
                assert [each[:6] for each in evidence.records_of([piece])] == [each[:6] for each in one_by_one]
