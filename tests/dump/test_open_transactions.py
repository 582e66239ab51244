"""``kseg dump --open-transactions``."""

from cli.command import Kseg
from dump.asked import OPEN, TXN, V07


def test_open_transactions(kseg: Kseg) -> None:
    (found, *_) = objects = kseg("dump", "--open-transactions", "--format", "json", OPEN).of_type("openTransaction")
    assert (found["topic"], found["partition"]) == ("txn-open", 0)
    done = kseg("dump", "--open-transactions", "--now", found["firstTimestamp"] + 1500, OPEN)
    assert done.status == 0
    assert done.lines[0] == f"Open transactions: {OPEN}"
    assert sum(line.startswith("producerId: ") for line in done.lines) == len(objects)
    assert f"firstOffset: {found['firstOffset']} " in done.lines[1]
    assert "age: 1.500 s " in done.lines[1]
    assert kseg("dump", "--open-transactions", "--format", "table", OPEN, TXN).lines[0] == done.lines[0]
    for form in ("text", "table", "json"):
        none = kseg("dump", "--open-transactions", "--format", form, TXN)
        assert (none.status, none.out, none.err) == (0, b"", "kseg: there are no open transactions\n")
    assert kseg("dump", "--open-transactions", "--summary", OPEN).status == 2
    assert kseg("dump", "--open-transactions", V07).status == 3


def test_what_waits_behind_a_transaction(kseg: Kseg) -> None:
    (found, *_) = kseg("dump", "--open-transactions", "--format", "json", OPEN).of_type("openTransaction")
    records = kseg("dump", "--deep-iteration", "--format", "json", OPEN).of_type("record")
    assert found["lastStableOffset"] == found["firstOffset"]
    assert found["waitingOffsets"] == records[-1]["offset"] + 1 - found["lastStableOffset"]
    text = kseg("dump", "--open-transactions", OPEN).lines
    assert f"lastStableOffset: {found['lastStableOffset']} " in text[-1] + text[-2]
