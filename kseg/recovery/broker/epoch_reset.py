"""Sets the leader epochs of a planned segment to 0, so that consumer groups of a new cluster can continue.

A consumer that commits an offset stores the batch's leader epoch with it, and waits as long as the leader has a lower
one. Checksums of batches do not cover the field.
"""

from collections.abc import Iterator

from kseg.changes.plan import Piece
from kseg.kernel.layout.headers import MAGIC_V2, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import BATCH_LEADER_EPOCH, BATCH_MAGIC, BATCH_POSITION, BATCH_WIDTH
from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.workspace import Workspace
from kseg.segment.survey import HeaderRows

_ZERO = bytes(4)
"""The new bytes of partitionLeaderEpoch."""


def epoch_positions(headers: HeaderRows) -> Iterator[int]:
    """Yields the positions of leader epochs other than 0 in batches that have the field."""
    for at in range(0, headers.count * BATCH_WIDTH, BATCH_WIDTH):
        if headers.rows[at + BATCH_MAGIC] == MAGIC_V2 and headers.rows[at + BATCH_LEADER_EPOCH] != 0:
            yield headers.rows[at + BATCH_POSITION] + V2_LEADER_EPOCH


def reset_epochs(workspace: Workspace, segment: BrokerSegment) -> None:
    """Replaces the content of the segment's .log in the workspace."""
    pieces: list[Piece] = []
    done = 0
    for headers in segment.headers():
        for position in epoch_positions(headers):
            pieces += workspace.slice(segment.log, done, position - done)
            pieces.append(_ZERO)
            done = position + len(_ZERO)
    if pieces:
        pieces += workspace.slice(segment.log, done, segment.size - done)
        workspace.write(segment.log, pieces, "leader epochs are set to 0")
