"""Segments that are judged while they are unpacked have the findings of the plain files, and take no space.

The plain files are the oracle: they are read by other code.
"""

import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import Kseg
from kseg.stores.archives import opening
from segment.long_log import BASE_OFFSET, template, write_long_log
from stores.archives.packed_logs import DAMAGES, PACK, SIZE, cut, flipped, partition, zeros_behind, zeros_inside


def findings(kseg: Kseg, path: Path, root: Path, *options: str) -> list[dict[str, Any]]:
    done = kseg("verify", "--format", "json", *options, path)
    told = [{**row, "file": str(row.get("file", "")).replace(str(root), "")} for row in done.objects]
    for row in told:
        row.get("details", {}).pop("otherRepair", None)
    left_out = ("repair", "next", "needs")
    return [{key: row[key] for key in row if key not in left_out} for row in told] + [{"exit": done.status}]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("packing", PACK)
def test_a_packed_archive_has_the_findings_of_the_plain_one(
    packing: str, damage: Callable[[bytes], bytes], tmp_path: Path, kseg: Kseg
) -> None:
    partition(tmp_path, damage)
    plain, packed = tmp_path / "logs.tar", tmp_path / f"logs.tar.{packing}"
    with tarfile.open(plain, "w") as tar:
        tar.add(tmp_path / "logs", "logs")
    packed.write_bytes(PACK[packing](plain.read_bytes()))
    expected = findings(kseg, plain, plain)
    assert len(expected) > (2 if damage is not bytes else 1)
    assert findings(kseg, packed, packed) == expected
    for level in ("quick", "deep"):
        assert findings(kseg, packed, packed, "--level", level) == findings(kseg, plain, plain, "--level", level)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("packing", PACK)
def test_a_packed_segment_has_the_findings_of_the_plain_one(
    packing: str, damage: Callable[[bytes], bytes], tmp_path: Path, kseg: Kseg
) -> None:
    segment = tmp_path / f"{BASE_OFFSET:020}.log"
    segment.write_bytes(damage(Path(write_long_log(tmp_path, SIZE, with_indexes=False).path).read_bytes()))
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / f"{segment.name}.{packing}").write_bytes(PACK[packing](segment.read_bytes()))
    expected = findings(kseg, segment, segment)
    assert findings(kseg, packed / f"{segment.name}.{packing}", packed / f"{segment.name}.{packing}") == expected


@pytest.mark.parametrize("damage", [bytes, cut, zeros_behind, flipped, zeros_inside])
def test_one_pass_is_enough_with_and_without_damage(
    damage: Callable[[bytes], bytes], tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path, damage)
    packed = tmp_path / "logs.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(tmp_path / "logs", "logs")
    again: list[object] = []
    monkeypatch.setattr(opening.Omitted, "_unpack_again", again.append)
    done = kseg("verify", "--jobs", "1", packed)
    assert "files: 2 (1.3 MiB)" in done.err
    assert not again
    kseg("verify", "--jobs", "1", f"{packed}/logs/orders-0/{BASE_OFFSET:020}.log")
    assert not again


def test_intact_batches_take_no_temporary_space(tmp_path: Path, kseg: Kseg) -> None:
    packed = tmp_path / f"{BASE_OFFSET:020}.log.gz"
    packed.write_bytes(gzip.compress(Path(write_long_log(tmp_path, SIZE, with_indexes=False).path).read_bytes()))
    bound = ("--spool-bytes", str(SIZE // 2), packed)
    done = kseg("verify", *bound)
    assert done.status == 0
    assert f"batches: {-(-SIZE // len(template()))}," in done.err
    for bounded in (("dump", *bound), ("verify", "--level", "deep", *bound)):
        assert kseg(*bounded).status == 3
