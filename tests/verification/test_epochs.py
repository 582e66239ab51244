"""leader-epoch-checkpoint against the batches (real ones are right, see test_transactions.py)."""

from pathlib import Path

import pytest

from kseg.findings.table import ERROR, KINDS, WARNING
from kseg.segment.survey import QUICK
from verification.producer_cases import TESTDATA, batch, codes, findings, log_of

NAME = "leader-epoch-checkpoint"


def log_with(place: Path, text: str | None, *epochs: int) -> Path:
    """A log of one batch an offset, of the epochs given, and its checkpoint."""
    log = log_of(place, [batch(offset, leader_epoch=epoch) for offset, epoch in enumerate(epochs)])
    (log / NAME).unlink()
    if text is not None:
        (log / NAME).write_text(text)
    return log


@pytest.mark.parametrize(
    ("text", "epochs", "expected"),
    [
        pytest.param("0\n2\n0 0\n3 2\n", (0, 0, 3), [], id="as it should be"),
        pytest.param("0\n3\n0 0\n1 2\n3 2\n", (0, 0, 3), ["leader-epochs-unsorted"], id="not rising"),
        pytest.param("0\n3\n0 0\n3 2\n4 3\n", (0, 0, 3), [], id="a leader that has written nothing"),
        pytest.param("0\n3\n0 0\n3 2\n4 4\n", (0, 0, 3), ["leader-epochs-beyond-end"], id="beyond the end"),
        pytest.param("0\n2\n0 0\n3 1\n", (0, 0, 3), ["leader-epochs-mismatch"], id="too early"),
        pytest.param("0\n2\n0 0\n3 3\n", (0, 0, 3), ["leader-epochs-mismatch"], id="too late"),
        pytest.param("0\n1\n0 0\n", (0, 0, 3), ["leader-epochs-mismatch"], id="the latest is missing"),
        pytest.param("0\n2\n0 0\n3 2\n", (0, 1, 3), ["leader-epochs-mismatch"], id="one in the middle is missing"),
        pytest.param("0\n1\n3 2\n", (0, 0, 3), [], id="the first were deleted"),
        pytest.param("0\n1\n0 1\n", (0, 0, 0), [], id="the log start inside the first"),
        pytest.param("0\n0\n", (0, 0, 3), ["leader-epochs-missing"], id="no entries"),
        pytest.param("", (0, 0), ["leader-epochs-missing"], id="empty"),
        pytest.param(None, (0, 0), ["leader-epochs-missing"], id="no file"),
        pytest.param(None, (-1, -1), [], id="batches without epoch"),
        pytest.param("1\n1\n0 0\n", (0, 0), ["leader-epochs-damaged"], id="version"),
        pytest.param("0\n2\n0 0\n", (0, 0), ["leader-epochs-damaged"], id="count"),
        pytest.param("0\n1\n0 0 0\n", (0, 0), ["leader-epochs-damaged"], id="fields"),
        pytest.param("0\n1\n0 xx\n", (0, 0), ["leader-epochs-damaged"], id="no number"),
        pytest.param("0\n1\n-1 0\n", (0, 0), ["leader-epochs-damaged"], id="negative"),
    ],
)
def test_what_the_checkpoint_says(
    tmp_path: Path, text: str | None, epochs: tuple[int, ...], expected: list[str]
) -> None:
    log = log_with(tmp_path, text, *epochs)
    found = findings(log)
    assert codes(found) == expected
    assert all(finding.severity == KINDS[finding.code].severity for finding in found)
    assert all(Path(finding.file).name == NAME for finding in found)
    assert findings(log, QUICK) == []


def test_severities() -> None:
    """A broker does not start on what it cannot read, and lives with the rest."""
    found = {code: kind.severity for code, kind in KINDS.items() if code.startswith("leader-epochs-")}
    assert found.pop("leader-epochs-damaged") == ERROR
    assert set(found.values()) == {WARNING}


def test_where_a_line_is_damaged(tmp_path: Path) -> None:
    (found,) = findings(log_with(tmp_path, "0\n1\nxx\n", 0))
    assert (found.position, found.length, found.message) == (4, 2, "'xx' is not an entry")


def test_a_directory_that_waits_to_be_deleted_has_no_epochs(tmp_path: Path) -> None:
    log = log_with(tmp_path, "0\n0\n", 0)
    gone = log.rename(tmp_path / f"topic-0.{'0' * 32}-delete")
    assert findings(gone) == []


def test_messages_without_epochs_clear_the_file(tmp_path: Path) -> None:
    """v0 messages behind batches of v2: a broker that appends them forgets the epochs before."""
    old = next((TESTDATA / "kafka-0.8.2.2/codecs/one-none-0").glob("*.log")).read_bytes()
    size = 12 + int.from_bytes(old[8:12], "big")
    message = (3).to_bytes(8, "big") + old[8:size]
    log = log_of(tmp_path, [batch(offset, leader_epoch=offset) for offset in range(3)] + [message])
    for text in ("0\n0\n", "0\n3\n0 0\n1 1\n2 2\n"):
        (log / NAME).write_text(text)
        assert findings(log) == []


def test_an_end_that_is_damaged_is_no_end(tmp_path: Path) -> None:
    log = log_with(tmp_path, "0\n2\n0 0\n3 9\n", 0, 0)
    path = next(log.glob("*.log"))
    path.write_bytes(path.read_bytes() + b"\1" * 100)
    assert findings(log) == []


def test_the_checkpoint_is_no_file(tmp_path: Path) -> None:
    log = log_with(tmp_path, None, 0)
    (log / NAME).mkdir()
    (found,) = findings(log)
    assert (found.code, found.severity) == ("leader-epochs-damaged", ERROR)


def test_more_epochs_than_fit_one_call(tmp_path: Path) -> None:
    epochs = range(1000)
    text = "".join(f"{epoch} {epoch}\n" for epoch in epochs)
    assert findings(log_with(tmp_path, f"0\n1000\n{text}", *epochs)) == []
