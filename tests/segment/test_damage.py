"""Damage codes that depend on the size of the damage."""

import pytest

from kseg.segment import reader
from segment.segments import entries, sample


@pytest.mark.parametrize("name", ["v0", "v2"])
def test_the_checksum_of_too_large_a_batch_is_not_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = entries(sample(name))[0]
    wrong = first[:8] + b"\x00\x7f" + first[10:]

    def is_whole() -> bool:
        return "a complete batch" in reader.describe(wrong, 0, len(wrong), False, False, -1).message

    assert is_whole()
    monkeypatch.setattr(reader, "MAX_BATCH_BYTES", len(wrong))
    assert is_whole()
    monkeypatch.setattr(reader, "MAX_BATCH_BYTES", len(wrong) - 1)
    monkeypatch.setattr(reader, "crc_holds", None)
    assert not is_whole()
