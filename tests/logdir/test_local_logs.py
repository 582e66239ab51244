"""What a log directory knows of segments in remote storage."""

from collections import Counter

from conftest import TESTDATA
from kseg.logdir.local_logs import LocalLogs


def test_segments_whose_deletion_has_begun_or_ended_are_deleted() -> None:
    """The deletion of the six of the second topic had begun when the broker was killed; that of the third was over."""
    deleted = LocalLogs(str(TESTDATA / "remote/plain/logs")).deleted
    assert Counter((topic, partition) for topic, partition, _ in deleted) == {
        ("SMoK-iDiSi2Xzw3-j7wplg", 0): 14,
        ("46evFj_YTyiDq26LBIc1xA", 0): 6,
        ("FJyAz4RTQ1aQezhVw4VQnw", 0): 3,
        ("Lm7Z_puET7S-67p01CnFrQ", 0): 2,
        ("JWRD-xkyTvqvHyq5Haei7w", 0): 1,
    }
